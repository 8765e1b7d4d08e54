//! Files of a live host (or of a tree of files below `root`).

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use super::Trouble;

/// A guard against endless or absurd files: the largest real one, /proc/interrupts of a machine
/// with thousands of CPUs, stays below it.
const LARGEST: u64 = 64 << 20;

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        // ENODEV, ENXIO: a device file whose device is not there. ESRCH: the process has ended.
        // EOPNOTSUPP: the driver does not offer it. They all mean the same as no file at all.
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::NotFound, _)
            | (
                _,
                Some(libc::ENODEV | libc::ENXIO | libc::ESRCH | libc::EOPNOTSUPP | libc::ENOTDIR),
            ) => Self::Missing,
            (io::ErrorKind::PermissionDenied, _) => Self::Denied,
            _ => Self::Other(error.to_string()),
        }
    }
}

/// As many as the kernel follows (MAXSYMLINKS).
const MOST_LINKS: usize = 40;

/// Whether `root` is a folder that holds another host's files.
fn is_tree(root: &Path) -> bool {
    root != Path::new("/")
}

/// Where a path lies below `root`. In a tree every symbolic link is followed as the host whose
/// tree it is would: none leads out, or this host's files would be taken for that one's.
pub(super) fn below(root: &Path, path: &str) -> Result<PathBuf, Trouble> {
    match is_tree(root) {
        true => resolve(root, path, true),
        false => Ok(root.join(path.trim_start_matches('/'))),
    }
}

/// As [`below`], for the link itself where the path names one.
fn below_unfollowed(root: &Path, path: &str) -> Result<PathBuf, Trouble> {
    match is_tree(root) {
        true => resolve(root, path, false),
        false => below(root, path),
    }
}

fn resolve(root: &Path, path: &str, follow_last: bool) -> Result<PathBuf, Trouble> {
    let mut inside = PathBuf::new();
    let mut ahead: Vec<OsString> = Vec::new();
    push(&mut ahead, Path::new(path));
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        if name == ".." {
            inside.pop();
            continue;
        }
        let here = root.join(&inside).join(&name);
        let is_link = here.symlink_metadata()?.is_symlink();
        if !is_link || (ahead.is_empty() && !follow_last) {
            inside.push(name);
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP).into());
        }
        let target = fs::read_link(here)?;
        if target.is_absolute() {
            inside.clear();
        }
        push(&mut ahead, &target);
    }
    Ok(root.join(inside))
}

/// Puts the parts of a path on top of a stack, the first one uppermost.
fn push(ahead: &mut Vec<OsString>, path: &Path) {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let parts: Vec<OsString> = parts.collect();
    ahead.extend(parts.into_iter().rev());
}

/// Opens a file for reading. A tree may hold anything: no pipe is waited for, and no device node,
/// which would be this host's device.
pub(super) fn open(root: &Path, path: &str) -> Result<File, Trouble> {
    open_with(root, path, 0)
}

/// As [`open`], with more flags of open(2).
pub(super) fn open_with(root: &Path, path: &str, flags: i32) -> Result<File, Trouble> {
    let tree = is_tree(root);
    let flags = if tree { flags | libc::O_NONBLOCK | libc::O_NOFOLLOW } else { flags };
    let file = OpenOptions::new().read(true).custom_flags(flags).open(below(root, path)?)?;
    match !tree || file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(Trouble::Other("not a regular file".to_owned())),
    }
}

pub(crate) fn read(root: &Path, path: &str) -> Result<String, Trouble> {
    let mut bytes = Vec::new();
    open(root, path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Trouble::Other(format!("larger than {} MiB", LARGEST >> 20)));
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

pub(super) fn list(root: &Path, path: &str) -> Result<Vec<String>, Trouble> {
    let mut names = Vec::new();
    for entry in fs::read_dir(below(root, path)?)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_by_cached_key(|name| (name.parse::<u64>().unwrap_or(u64::MAX), name.clone()));
    Ok(names)
}

pub(super) fn link(root: &Path, path: &str) -> Result<String, Trouble> {
    Ok(fs::read_link(below_unfollowed(root, path)?)?.to_string_lossy().into_owned())
}

pub(super) fn exists(root: &Path, path: &str) -> Result<bool, Trouble> {
    Ok(below_unfollowed(root, path).is_ok_and(|place| place.symlink_metadata().is_ok()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc/default")).unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join("etc/of-the-tree"), "its own\n").unwrap();
        root
    }

    #[test]
    fn numbers_sort_by_value_and_before_words() {
        let root = tree();
        for name in ["10", "9", "1a", "2", "007", "x", "18446744073709551616"] {
            fs::write(root.path().join("proc").join(name), "").unwrap();
        }
        let names = list(root.path(), "/proc").unwrap();
        assert_eq!(names, ["2", "007", "9", "10", "18446744073709551616", "1a", "x"]);
    }

    #[test]
    fn no_link_leads_out_of_a_tree() {
        let root = tree();
        let at = |path: &str| root.path().join(path);
        symlink("/etc/of-the-tree", at("etc/absolute")).unwrap();
        symlink("../../../../../../../../etc/of-the-tree", at("etc/default/up")).unwrap();
        symlink("/", at("etc/top")).unwrap();
        symlink("/proc/version", at("etc/escape")).unwrap();
        symlink("loop", at("etc/loop")).unwrap();
        for path in [
            "/etc/absolute",
            "/etc/default/up",
            "/etc/top/etc/absolute",
            "/../../etc/of-the-tree",
            "/etc/top/etc/default/../default/up",
        ] {
            assert_eq!(read(root.path(), path).as_deref(), Ok("its own\n"), "{path}");
        }
        for path in ["/etc/escape", "/etc/top/proc/version", "/../../proc/version"] {
            assert_eq!(read(root.path(), path), Err(Trouble::Missing), "{path}");
        }
        assert!(matches!(read(root.path(), "/etc/loop"), Err(Trouble::Other(_))));
        assert_eq!(link(root.path(), "/etc/top/etc/escape").as_deref(), Ok("/proc/version"));
        assert_eq!(exists(root.path(), "/etc/escape"), Ok(true), "the link itself is there");
        assert_eq!(exists(root.path(), "/etc/top/proc/version"), Ok(false));
        assert!(list(root.path(), "/etc/top").unwrap().contains(&"proc".to_owned()));
    }

    #[test]
    fn a_pipe_in_a_tree_is_not_waited_for() {
        let root = tree();
        let pipe = root.path().join("proc/cmdline");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let refused = Err(Trouble::Other("not a regular file".to_owned()));
        assert_eq!(read(root.path(), "/proc/cmdline"), refused);
        assert_eq!(read(root.path(), "/proc"), refused, "a folder");
    }
}
