//! A tarball for hosts that have no compiler and no internet: one static binary and its papers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

/// Naming the target keeps the flags below away from build scripts and procedural macros, which
/// cannot be linked statically.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Stands for [`binary`] in a list of constant arguments.
pub const BINARY: &str = "{static binary}";

/// Where the static binary is built.
pub fn binary() -> PathBuf {
    target_folder().join(TARGET).join("release/quietcore")
}

/// What `cargo xtask dist` is told.
#[derive(clap::Args)]
pub struct Args {
    /// Then run the binary where there is nothing else, not even a library (root, for chroot)
    #[arg(long)]
    verify: bool,
}

pub fn main(args: &Args) -> ExitCode {
    let done = pack().and_then(|tarball| match args.verify {
        true => verify(&tarball),
        false => Ok(()),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dist: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn pack() -> Result<PathBuf> {
    let target = target_folder();
    run(cargo()
        .args(["build", "--release", "--target", TARGET, "--package", "quietcore-cli"])
        .env("RUSTFLAGS", static_flags()))?;
    let name = format!("quietcore-{}-x86_64-linux", env!("CARGO_PKG_VERSION"));
    let folder = target.join("dist").join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    copy(&binary(), &folder.join("quietcore"))?;
    for paper in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY"] {
        copy(&workspace().join(paper), &folder.join(paper))?;
    }
    run(cargo()
        .args(["run", "--quiet", "--package", "quietcore-cli", "--example", "manual", "--"])
        .arg(&folder))?;
    let tarball = target.join("dist").join(format!("{name}.tar.gz"));
    run(Command::new("tar")
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-czf"])
        .arg(&tarball)
        .arg("-C")
        .arg(target.join("dist"))
        .arg(&name))?;
    let bytes = fs::metadata(&tarball).with_context(|| tarball.display().to_string())?.len();
    println!("{} ({:.1} MB)", tarball.display(), bytes as f64 / 1e6);
    Ok(tarball)
}

/// What makes rustc link everything statically. libelf's archive needs more than its shared library
/// does (with Debian 13 libzstd), which only pkg-config knows.
pub fn static_flags() -> String {
    let asked = Command::new("pkg-config").args(["--static", "--libs-only-l", "libelf"]).output();
    let libraries = asked.map(|output| output.stdout).unwrap_or_default();
    let linked = String::from_utf8_lossy(&libraries)
        .split_whitespace()
        .filter(|library| !matches!(*library, "-lelf" | "-lz"))
        .map(|library| format!(" -Clink-arg={library}"))
        .collect::<String>();
    format!("-Ctarget-feature=+crt-static{linked}")
}

/// Unpacks the tarball where there is nothing else, no library and no shell, and runs what a user
/// would.
fn verify(tarball: &Path) -> Result<()> {
    let root = target_folder().join("dist/empty");
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).with_context(|| root.display().to_string())?;
    run(Command::new("tar")
        .arg("-xzf")
        .arg(tarball)
        .arg("-C")
        .arg(&root)
        .arg("--strip-components=1"))?;
    for args in [&["--version"][..], &["audit", "--quiet"], &["schema", "run"]] {
        let output = Command::new("chroot").arg(&root).arg("/quietcore").args(args).output()?;
        // 1 is findings: without /proc much is unknown, but the program runs.
        if !matches!(output.status.code(), Some(0 | 1)) {
            bail!(
                "quietcore {} in an empty folder: {}",
                args.join(" "),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let first =
            String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned();
        println!("in an empty folder: quietcore {}: {first}", args.join(" "));
    }
    Ok(())
}

/// The Debian archive that this host installs from, so that no address stands in a file. A host
/// without one (Ubuntu) leaves it to debootstrap, which knows its own.
pub fn mirror() -> Option<String> {
    let folder = Path::new("/etc/apt");
    let parts = fs::read_dir(folder.join("sources.list.d")).into_iter().flatten().flatten();
    let files = parts.map(|entry| entry.path()).chain([folder.join("sources.list")]);
    let texts: Vec<String> = files.filter_map(|file| fs::read_to_string(file).ok()).collect();
    debian_archive(&texts.join("\n"))
}

/// The first address of apt's sources that is a Debian archive by its path.
fn debian_archive(sources: &str) -> Option<String> {
    let lines = sources.lines().filter(|line| !line.trim_start().starts_with('#'));
    let mut words = lines.flat_map(str::split_whitespace);
    let is_archive =
        |word: &&str| word.starts_with("http") && word.trim_end_matches('/').ends_with("/debian");
    words.find(is_archive).map(str::to_owned)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    Ok(())
}

fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(workspace());
    cargo
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{:?}", command.get_program()))?;
    match status.success() {
        true => Ok(()),
        false => bail!("{command:?}: {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_found_among_other_sources() {
        let sources = "Types: deb\n# URIs: http://old.example/debian\nURIs: https://deb.example/node\n\
                       deb http://sec.example/debian-security x\nURIs: http://deb.example/debian/\n";
        assert_eq!(debian_archive(sources).as_deref(), Some("http://deb.example/debian/"));
        assert_eq!(debian_archive("deb http://archive.example/ubuntu noble main\n"), None);
    }
}
