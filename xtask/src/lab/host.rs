//! The host's side: folders, and the programs the lab stands on.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Where things are.
pub struct Dirs {
    /// The workspace.
    pub root: PathBuf,
    /// `target/lab`: the kernel, the static binary, the running guests' files.
    pub lab: PathBuf,
}

impl Dirs {
    pub fn find() -> Result<Self> {
        // Set by cargo for what it runs; without it we were started by hand, from the root.
        let root = match env::var_os("CARGO_MANIFEST_DIR") {
            Some(xtask) => PathBuf::from(xtask).parent().map(Path::to_path_buf),
            None => env::current_dir().ok(),
        };
        let root = root.context("cannot tell where the workspace is")?;
        if !root.join("lab/guest/init").is_file() {
            bail!("{} is not the workspace; use `cargo xtask lab`", root.display());
        }
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => root.join(dir),
            None => root.join("target"),
        };
        let lab = target.join("lab");
        fs::create_dir_all(&lab).with_context(|| format!("making {}", lab.display()))?;
        Ok(Self { root, lab })
    }

    /// The files of one scenario's guest. Two labs may run at a time, hence our number in it.
    pub fn run(&self, scenario: &str) -> PathBuf {
        self.lab.join(format!("{RUN}{}", std::process::id())).join(scenario)
    }

    /// Where something is put together that must not be found before it is whole.
    pub fn stage(&self) -> PathBuf {
        self.lab.join(format!("{PART}{}", std::process::id()))
    }

    /// Removes what earlier labs left for looking at, or left because they were killed.
    pub fn forget_earlier_runs(&self) -> Result<()> {
        for path in list(&self.lab)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let pid = name.strip_prefix(RUN).or_else(|| name.strip_prefix(PART));
            let Some(pid) = pid else { continue };
            if !Path::new("/proc").join(pid).exists() {
                fs::remove_dir_all(&path).with_context(|| format!("removing {name}"))?;
            }
        }
        Ok(())
    }
}

/// Folders of running guests: this and a process id.
const RUN: &str = "run-";
/// Folders of what is not whole yet: this and a process id.
const PART: &str = "part-";

/// What is in a folder, sorted.
pub fn list(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        paths.push(entry.with_context(|| format!("reading {}", dir.display()))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Makes `dir` an empty folder.
pub fn fresh_dir(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))
}

/// A program, by the name the lab uses: the command, and the package apt has it in.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("qemu", "qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox", "busybox-static"),
    ("iasl", "iasl", "acpica-tools"),
    ("dpkg-deb", "dpkg-deb", "dpkg"),
    ("setpriv", "setpriv", "util-linux"),
    ("sha256sum", "sha256sum", "coreutils"),
    ("xz", "xz", "xz-utils"),
    ("zstd", "zstd", "zstd"),
    ("qemu-img", "qemu-img", "qemu-utils"),
    ("debootstrap", "debootstrap", "debootstrap"),
    ("mke2fs", "mke2fs", "e2fsprogs"),
];

/// Installs those of `names` that are not there, and says so in one line.
pub fn install_missing(names: &[&str]) -> Result<()> {
    let mut commands = Vec::new();
    let mut packages = Vec::new();
    for (name, command, package) in PROGRAMS {
        if names.contains(name) && !present(name, command) {
            commands.push(*command);
            packages.push(*package);
        }
    }
    if packages.is_empty() {
        return Ok(());
    }
    let manual =
        format!("the lab needs {} (Debian packages: {})", commands.join(", "), packages.join(" "));
    if find_program("apt-get").is_none() {
        bail!("{manual}, and there is no apt here to install them with");
    }
    eprintln!("lab: installing {}", packages.join(" "));
    let mut install = vec!["install", "-y", "-qq", "--no-install-recommends"];
    install.extend(&packages);
    if apt_get(&install).is_err() {
        // A machine that was just set up has no package lists yet.
        apt_get(&["update", "-qq"])?;
        apt_get(&install).with_context(|| manual.clone())?;
    }
    Ok(())
}

fn present(name: &str, command: &str) -> bool {
    match find_program(command) {
        // A busybox that is linked dynamically finds no libraries in a guest.
        Some(path) if name == "busybox" => is_static(&path).unwrap_or(false),
        Some(_) => true,
        None => false,
    }
}

/// Whether a 64-bit ELF file asks for no program interpreter, that is, runs in a guest that has
/// no libraries.
pub fn is_static(path: &Path) -> Result<bool> {
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    match asks_for_interpreter(&bytes) {
        Some(asks) => Ok(!asks),
        None => bail!("{} is no 64-bit ELF program", path.display()),
    }
}

/// Looks for a program header of type PT_INTERP; `None` where there are no program headers.
fn asks_for_interpreter(elf: &[u8]) -> Option<bool> {
    const PT_INTERP: u64 = 3;
    let number = |at: usize, len: usize| -> Option<u64> {
        let bytes = elf.get(at..at.checked_add(len)?)?;
        Some(bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
    };
    if elf.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for n in 0..count {
        let at = usize::try_from(table.checked_add(n * size)?).ok()?;
        if number(at, 4)? == PT_INTERP {
            return Some(true);
        }
    }
    Some(false)
}

/// The full path of a command, from PATH and the folders of system programs.
pub fn find_program(command: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = env::split_paths(&path).collect();
    dirs.extend(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from));
    dirs.into_iter().map(|d| d.join(command)).find(|p| p.is_file())
}

/// apt-get, quietly, as root or through a sudo that does not ask.
pub fn apt_get(args: &[&str]) -> Result<()> {
    let mut command = if is_root() {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "apt-get"]);
        sudo
    };
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    output(&mut command).map(|_| ())
}

/// Whether we may do everything.
pub fn is_root() -> bool {
    // The owner of our own entry in /proc is the user we run as.
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").map(|m| m.uid() == 0).unwrap_or(false)
}

/// Runs a command to its end and returns its stdout; what it said goes into the error.
pub fn output(command: &mut Command) -> Result<Vec<u8>> {
    let name = format!("{command:?}").replace('"', "");
    let out =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    if !out.status.success() {
        // debootstrap says on stdout what went wrong.
        let said = [out.stdout, out.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = said.lines().rev().take(5).collect();
        let last: Vec<&str> = lines.into_iter().rev().collect();
        bail!("{name} failed ({}): {}", out.status, last.join("\n"));
    }
    Ok(out.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_the_lab_asks_for_is_in_the_table() {
        let known: Vec<&str> = PROGRAMS.iter().map(|p| p.0).collect();
        let quick = ["qemu", "busybox", "dpkg-deb", "setpriv", "sha256sum", "iasl", "xz", "zstd"];
        let machine = ["qemu-img", "debootstrap", "mke2fs"];
        for name in quick.iter().chain(&machine) {
            assert!(known.contains(name), "{name}");
        }
    }

    #[test]
    fn a_program_with_an_interpreter_is_told_from_one_without() {
        let elf = |kind: u8| {
            let mut bytes = vec![0; 64 + 56];
            bytes[..5].copy_from_slice(b"\x7fELF\x02");
            bytes[32] = 64;
            bytes[54] = 56;
            bytes[56] = 1;
            bytes[64] = kind;
            bytes
        };
        assert_eq!(asks_for_interpreter(&elf(3)), Some(true));
        assert_eq!(asks_for_interpreter(&elf(1)), Some(false));
        assert_eq!(asks_for_interpreter(&elf(1)[..100]), Some(false));
        assert_eq!(asks_for_interpreter(&elf(1)[..60]), None);
        assert_eq!(asks_for_interpreter(b"#!/bin/sh"), None);
    }

    #[test]
    fn a_failed_command_says_what_it_was_and_what_it_said() {
        let e = output(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err();
        let text = format!("{e:#}");
        assert!(text.contains("broken") && text.contains("sh -c"), "{text}");
    }
}
