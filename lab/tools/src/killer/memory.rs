//! What a stopped process has in memory and in its folder of /proc.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::unistd::Pid;

/// The longest path that the kernel takes, with its end.
const PATH_MAX: usize = 4096;

/// A path given to a system call; empty where there is none.
pub fn path(pid: Pid, address: u64) -> PathBuf {
    let bytes = bytes(pid, address, PATH_MAX);
    let text: Vec<u8> = bytes.into_iter().take_while(|byte| *byte != 0).collect();
    PathBuf::from(String::from_utf8_lossy(&text).into_owned())
}

/// A number of eight bytes; 0 where it cannot be read.
pub fn number(pid: Pid, address: u64) -> u64 {
    bytes(pid, address, 8).try_into().map_or(0, u64::from_ne_bytes)
}

/// Up to `len` bytes; fewer where memory ends.
fn bytes(pid: Pid, address: u64, len: usize) -> Vec<u8> {
    let mut buffer = vec![0; len];
    let read = File::open(format!("/proc/{pid}/mem"))
        .and_then(|memory| memory.read_at(&mut buffer, address))
        .unwrap_or(0);
    buffer.truncate(read);
    buffer
}

/// What a file descriptor is open on; for a socket its kind instead of its number.
pub fn file(pid: Pid, fd: i32) -> String {
    let link = fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap_or_default();
    let link = link.to_string_lossy().into_owned();
    match link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
        Some(inode) => format!("socket {}", socket(pid, inode)),
        None => link,
    }
}

fn socket(pid: Pid, inode: &str) -> &'static str {
    let lists = |kind: &str| {
        fs::read_to_string(format!("/proc/{pid}/net/{kind}"))
            .is_ok_and(|text| text.split_whitespace().any(|word| word == inode))
    };
    const KINDS: [&str; 7] = ["netlink", "unix", "packet", "udp", "udp6", "tcp", "tcp6"];
    KINDS.into_iter().find(|kind| lists(kind)).unwrap_or("of another kind")
}

/// A path as seen from a folder that is open, or from the process's own.
pub fn from_folder(pid: Pid, fd: i32, path: &Path) -> PathBuf {
    if path.is_absolute() {
        return path.to_path_buf();
    }
    let folder = match fd {
        libc::AT_FDCWD => format!("/proc/{pid}/cwd"),
        _ => format!("/proc/{pid}/fd/{fd}"),
    };
    fs::read_link(folder).unwrap_or_default().join(path)
}
