//! Files of a live host (or of a tree of files below `root`).

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

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

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

pub(super) fn read(root: &Path, path: &str) -> Result<String, Trouble> {
    let mut bytes = Vec::new();
    let file = fs::File::open(below(root, path))?;
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Trouble::Other(format!("larger than {} MiB", LARGEST >> 20)));
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

pub(super) fn list(root: &Path, path: &str) -> Result<Vec<String>, Trouble> {
    let mut names = Vec::new();
    for entry in fs::read_dir(below(root, path))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_by(|a, b| match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(x), Ok(y)) => x.cmp(&y),
        _ => a.cmp(b),
    });
    Ok(names)
}

pub(super) fn link(root: &Path, path: &str) -> Result<String, Trouble> {
    Ok(fs::read_link(below(root, path))?.to_string_lossy().into_owned())
}

pub(super) fn exists(root: &Path, path: &str) -> Result<bool, Trouble> {
    Ok(below(root, path).symlink_metadata().is_ok())
}
