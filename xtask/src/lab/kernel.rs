//! A kernel for the guests: the distribution's own, fetched with apt once and kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::host::{self, Dirs, list};
use crate::dist;

/// An unpacked kernel package.
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: String,
    pub vmlinuz: PathBuf,
    /// Module file by module name, dashes written as underscores.
    modules: BTreeMap<String, PathBuf>,
    /// What it was built with, as distributions keep it in /boot.
    pub config: Vec<u8>,
    builtin: Vec<String>,
}

/// A kernel that apt may offer.
#[derive(Clone, Copy)]
pub enum Wanted<'a> {
    /// The one for most guests.
    Usual,
    /// Of this package.
    Package(&'a str),
    /// The newest of a series.
    Series(Series),
}

/// Debian's kernels of one upstream version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    /// As `6.12`.
    pub version: &'static str,
    /// As `rt`; empty for the general-purpose one.
    pub flavour: &'static str,
    /// The Debian release that has it, where that is older than those this host installs from.
    pub suite: Option<&'static str>,
}

impl Series {
    /// The newest of it, signed if there is a choice. Debian calls them 5.10.0-32 and 6.12.9+deb12.
    fn newest(self, names: &[String]) -> Option<&String> {
        let tail = match self.flavour {
            "" => "-amd64".to_owned(),
            flavour => format!("-{flavour}-amd64"),
        };
        let version = |name: &str| -> Option<(Vec<u32>, bool)> {
            let rest = name.strip_prefix("linux-image-")?.strip_prefix(self.version)?;
            let rest = rest.strip_prefix('.')?;
            let signed = rest.strip_suffix("-unsigned").unwrap_or(rest);
            let number = signed.strip_suffix(&tail)?;
            let numbers = number.split(|c: char| !c.is_ascii_digit());
            let all = numbers.filter_map(|n| n.parse().ok()).collect();
            // What is left of a flavour's name is none of the general-purpose ones.
            let plain = !number.contains("-rt") && !number.contains("-cloud");
            plain.then_some((all, signed == rest))
        };
        let known = names.iter().filter_map(|name| Some((version(name)?, name)));
        known.max().map(|(_, name)| name)
    }
}

/// The kernel that is wanted, from `target/lab`, fetched if it is not there.
pub fn obtain(dirs: &Dirs, wanted: Wanted) -> Result<Kernel> {
    let home = dirs.lab.join(match wanted {
        Wanted::Usual => "kernel".to_owned(),
        Wanted::Package(name) => format!("kernel-{name}"),
        Wanted::Series(series) => format!("kernel-{}{}", series.version, series.flavour),
    });
    if !home.is_dir() {
        // Unpacked aside and renamed, so that a run that is cut short leaves nothing half done.
        let stage = dirs.stage();
        host::fresh_dir(&stage)?;
        let fetched = fetch(dirs, &stage, wanted);
        let moved = fetched.and_then(|()| fs::rename(&stage, &home).context("moving the kernel"));
        if moved.is_err() {
            fs::remove_dir_all(&stage).context("removing a kernel that is not whole")?;
        }
        // Another lab may have been quicker.
        if !home.is_dir() {
            moved?;
        }
    }
    open(&home)
        .with_context(|| format!("{} is damaged; delete it to fetch it again", home.display()))
}

fn fetch(dirs: &Dirs, stage: &Path, wanted: Wanted) -> Result<()> {
    for command in ["apt-get", "apt-cache"] {
        if host::find_program(command).is_none() {
            bail!("the lab fetches its kernel with {command}, which is not here");
        }
    }
    let select = |names: &[String]| match wanted {
        Wanted::Package(wanted) => names.iter().find(|n| *n == wanted).cloned(),
        Wanted::Usual => choose(names).map(str::to_string),
        Wanted::Series(series) => series.newest(names).cloned(),
    };
    let apt = match wanted {
        Wanted::Series(Series { suite: Some(suite), .. }) => Apt::of_suite(dirs, suite)?,
        _ => Apt::default(),
    };
    let mut names = apt.offered()?;
    if select(&names).is_none() {
        apt.update()?;
        names = apt.offered()?;
    }
    let Some(image) = select(&names) else {
        match wanted {
            Wanted::Usual => bail!("apt offers no kernel image for x86-64 machines"),
            Wanted::Package(name) => bail!("apt offers no {name}"),
            Wanted::Series(Series { version, flavour, .. }) => {
                bail!("apt offers no kernel {version} {flavour}")
            }
        }
    };
    let mut packages = vec![image.clone()];
    // Ubuntu keeps the modules in packages of their own.
    let release = image.trim_start_matches("linux-image-").trim_start_matches("unsigned-");
    for kind in ["linux-modules-", "linux-modules-extra-"] {
        let name = format!("{kind}{release}");
        if names.contains(&name) {
            packages.push(name);
        }
    }
    eprintln!("lab: fetching {}", packages.join(" "));
    // The sandbox user may not write into our folder, and apt would warn about it.
    let mut download = apt.command("apt-get");
    download.args(["download", "-qq", "-o", "APT::Sandbox::User=root"]).args(&packages);
    host::output(download.current_dir(stage))?;
    for entry in list(stage)? {
        if entry.extension().is_some_and(|e| e == "deb") {
            host::output(Command::new("dpkg-deb").arg("-x").arg(&entry).arg(stage))?;
            fs::remove_file(&entry).context("removing an unpacked package")?;
        }
    }
    Ok(())
}

/// apt with this host's sources, or with those of another release of Debian in a folder of its own.
#[derive(Default)]
struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// Takes what this host's archive has of that release: no address stands here.
    fn of_suite(dirs: &Dirs, suite: &str) -> Result<Self> {
        const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let archive = dist::mirror().context("apt's sources name no Debian archive")?;
        let home = dirs.lab.join(format!("apt-{suite}"));
        for folder in ["lists/partial", "cache"] {
            let folder = home.join(folder);
            fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        }
        let sources = home.join("sources.list");
        fs::write(&sources, format!("deb [signed-by={KEYS}] {archive} {suite} main\n"))
            .with_context(|| format!("writing {}", sources.display()))?;
        let options = [
            format!("Dir::Etc::sourcelist={}", sources.display()),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State::lists={}", home.join("lists").display()),
            format!("Dir::Cache={}", home.join("cache").display()),
            "APT::Sandbox::User=root".to_owned(),
        ];
        Ok(Self { options: options.to_vec() })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(self.options.iter().flat_map(|option| ["-o", option]));
        command
    }

    fn update(&self) -> Result<()> {
        if self.options.is_empty() {
            return host::apt_get(&["update", "-qq"]);
        }
        host::output(self.command("apt-get").args(["update", "-qq"])).map(|_| ())
    }

    /// Kernel packages that it can fetch.
    fn offered(&self) -> Result<Vec<String>> {
        let mut search = self.command("apt-cache");
        search.args(["search", "--names-only", "^linux-(image|modules)-.*[0-9]"]);
        let out = String::from_utf8_lossy(&host::output(&mut search)?).into_owned();
        Ok(out.lines().filter_map(|l| l.split_whitespace().next()).map(str::to_string).collect())
    }
}

/// The package to use: Debian's newest 6.1, else the newest general-purpose kernel on offer.
fn choose(names: &[String]) -> Option<&str> {
    names.iter().filter_map(|n| Some((rank(n)?, n.as_str()))).max().map(|(_, n)| n)
}

/// What decides between packages, in this order: is it Debian's 6.1, its version, is it signed.
/// `None` for packages that hold no general-purpose kernel.
fn rank(name: &str) -> Option<(bool, Vec<u32>, bool)> {
    let rest = name.strip_prefix("linux-image-")?;
    let (rest, unsigned) = match rest.strip_prefix("unsigned-") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let (rest, unsigned) = match rest.strip_suffix("-unsigned") {
        Some(rest) => (rest, true),
        None => (rest, unsigned),
    };
    let version = match (rest.strip_suffix("-amd64"), rest.strip_suffix("-generic")) {
        (Some(v), _) | (None, Some(v)) => v,
        (None, None) => return None,
    };
    // A flavour (cloud, rt) or a meta package without an ABI number is not what we want.
    if version.contains("-cloud")
        || version.contains("-rt")
        || !version.starts_with(|c: char| c.is_ascii_digit())
    {
        return None;
    }
    let numbers: Vec<u32> =
        version.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    if numbers.len() < 3 {
        return None;
    }
    Some((numbers.starts_with(&[6, 1, 0]), numbers, !unsigned))
}

fn open(home: &Path) -> Result<Kernel> {
    let image = list(&home.join("boot"))?
        .into_iter()
        .find(|p| file_name(p).starts_with("vmlinuz-"))
        .context("no vmlinuz in it")?;
    let release = file_name(&image).trim_start_matches("vmlinuz-").to_string();
    let tree = ["lib/modules", "usr/lib/modules"]
        .iter()
        .map(|d| home.join(d).join(&release))
        .find(|d| d.is_dir())
        .context("no modules in it")?;
    let mut modules = BTreeMap::new();
    collect(&tree.join("kernel"), &mut modules)?;
    let builtin = fs::read_to_string(tree.join("modules.builtin")).unwrap_or_default();
    let builtin = builtin.lines().map(|l| module_name(Path::new(l))).collect();
    let config = fs::read(home.join(format!("boot/config-{release}"))).unwrap_or_default();
    Ok(Kernel { release, vmlinuz: image, modules, config, builtin })
}

fn collect(dir: &Path, into: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for path in list(dir)? {
        if path.is_dir() {
            collect(&path, into)?;
        } else if file_name(&path).contains(".ko") {
            into.insert(module_name(&path), path);
        }
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn module_name(path: &Path) -> String {
    let name = file_name(path);
    name.split(".ko").next().unwrap_or_default().replace('-', "_")
}

impl Kernel {
    /// The modules `wanted` and everything they need, as (file name, content), in loading order.
    pub fn modules(&self, wanted: &[&str]) -> Result<Vec<(String, Vec<u8>)>> {
        let mut order = Vec::new();
        for name in wanted {
            self.visit(&name.replace('-', "_"), &mut order)?;
        }
        Ok(order)
    }

    fn visit(&self, name: &str, order: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
        let file = format!("{name}.ko");
        if order.iter().any(|(f, _)| *f == file) || self.builtin.iter().any(|b| b == name) {
            return Ok(());
        }
        let Some(path) = self.modules.get(name) else {
            bail!("kernel {} has no module {name}", self.release);
        };
        let content = decompressed(path)?;
        for need in depends(&content) {
            self.visit(&need, order)?;
        }
        order.push((file, content));
        Ok(())
    }
}

fn decompressed(path: &Path) -> Result<Vec<u8>> {
    let program = match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return fs::read(path).with_context(|| format!("reading {}", path.display())),
    };
    host::install_missing(&[program])?;
    host::output(Command::new(program).arg("-dc").arg(path))
}

/// What a module needs, from the `depends=` entry that every module carries. Reading it here
/// spares depmod: the packages hold no modules.dep, it is made when they are installed.
fn depends(module: &[u8]) -> Vec<String> {
    let key = b"\0depends=";
    let Some(at) = module.windows(key.len()).position(|w| w == key) else {
        return Vec::new();
    };
    let value: Vec<u8> = module[at + key.len()..].iter().copied().take_while(|b| *b != 0).collect();
    let value = String::from_utf8_lossy(&value).replace('-', "_");
    value.split(',').filter(|n| !n.is_empty()).map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str]) -> Option<String> {
        let names: Vec<String> = names.iter().map(|n| n.to_string()).collect();
        choose(&names).map(str::to_string)
    }

    #[test]
    fn the_highest_general_purpose_6_1_is_chosen_and_a_signed_one_before_an_unsigned() {
        let names = [
            "linux-image-6.1.0-9-amd64",
            "linux-image-6.1.0-50-amd64",
            "linux-image-6.1.0-50-amd64-unsigned",
            "linux-image-6.1.0-51-cloud-amd64",
            "linux-image-6.1.0-51-rt-amd64",
            "linux-image-6.1.0-51-amd64-dbg",
            "linux-image-6.12.117+deb12-amd64",
            "linux-image-amd64",
        ];
        assert_eq!(chosen(&names).unwrap(), "linux-image-6.1.0-50-amd64");
        assert_eq!(
            chosen(&["linux-image-6.1.0-50-amd64", "linux-image-6.1.0-51-amd64-unsigned"]).unwrap(),
            "linux-image-6.1.0-51-amd64-unsigned"
        );
    }

    #[test]
    fn elsewhere_the_newest_general_purpose_kernel_is_chosen() {
        assert_eq!(
            chosen(&["linux-image-6.12.9+deb13-amd64", "linux-image-6.12.38+deb13-amd64"]).unwrap(),
            "linux-image-6.12.38+deb13-amd64"
        );
        assert_eq!(
            chosen(&[
                "linux-image-6.8.0-31-generic",
                "linux-image-unsigned-6.8.0-48-generic",
                "linux-image-6.8.0-48-lowlatency",
                "linux-image-generic",
                "linux-modules-6.8.0-60-generic",
            ])
            .unwrap(),
            "linux-image-unsigned-6.8.0-48-generic"
        );
        assert_eq!(chosen(&["linux-image-6.12-amd64", "linux-image-6.12.1-arm64"]), None);
    }

    #[test]
    fn of_a_series_the_newest_of_its_flavour_is_chosen() {
        let names = [
            "linux-image-5.10.0-30-amd64-unsigned",
            "linux-image-5.10.0-32-amd64-dbg",
            "linux-image-5.10.0-32-amd64-unsigned",
            "linux-image-6.12.9+deb12-amd64",
            "linux-image-6.12.117+deb12-amd64",
            "linux-image-6.12.117+deb12-cloud-amd64",
            "linux-image-6.12.113+deb12-rt-amd64",
            "linux-image-6.12-amd64",
        ];
        let names: Vec<String> = names.iter().map(|n| n.to_string()).collect();
        let newest = |version, flavour| {
            Series { version, flavour, suite: None }.newest(&names).map(String::as_str)
        };
        assert_eq!(newest("5.10", ""), Some("linux-image-5.10.0-32-amd64-unsigned"));
        assert_eq!(newest("6.12", ""), Some("linux-image-6.12.117+deb12-amd64"));
        assert_eq!(newest("6.12", "rt"), Some("linux-image-6.12.113+deb12-rt-amd64"));
        assert_eq!(newest("6.1", ""), None);
    }

    #[test]
    fn dependencies_are_read_from_the_module() {
        let module = b"\x7fELF\0\0license=GPL\0depends=virtio,virtio-ring\0retpoline=Y\0";
        assert_eq!(depends(module), ["virtio", "virtio_ring"]);
        assert!(depends(b"\0license=GPL\0depends=\0").is_empty());
        assert!(depends(b"").is_empty());
    }

    #[test]
    fn module_names_lose_their_suffixes_and_dashes() {
        assert_eq!(module_name(Path::new("a/b/acpi-cpufreq.ko.xz")), "acpi_cpufreq");
        assert_eq!(module_name(Path::new("msr.ko")), "msr");
    }
}
