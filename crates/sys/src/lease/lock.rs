//! One change of a host at a time.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::LeaseError;

/// The process that is changing the host through a lease of this folder right now. Asking takes the
/// lock from nobody, for it is read from the kernel's list of locks; that costs a grace period of
/// RCU, so it is nothing to ask all the time.
pub fn holder(folder: &Path) -> Option<u32> {
    let inode = fs::metadata(folder.join("lock")).ok()?.ino();
    holder_in(&fs::read_to_string("/proc/locks").ok()?, inode)
}

/// `1: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF`. The device is not compared: btrfs and
/// overlayfs tell another one here than to `stat`.
fn holder_in(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, pid) = (words.next()?, words.nth(2)?);
        let of = words.next()?.rsplit(':').next()?.parse();
        (kind == "FLOCK" && of == Ok(inode)).then(|| pid.parse().ok())?
    })
}

/// Held as long as it lives; the kernel lets go of it when its process ends, however that is.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held, never used")] File);

impl Lock {
    /// # Errors
    /// [`LeaseError::Locked`] while another process holds it, with that process' number.
    pub(super) fn take(folder: &Path) -> Result<Self, LeaseError> {
        let path = folder.join("lock");
        let failed = |source| LeaseError::State { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut text = String::new();
            // Who it is helps, but is not needed.
            let _ = file.read_to_string(&mut text);
            return Err(LeaseError::Locked { path, holder: text.trim().parse().ok() });
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_among_all_locks_but_not_who_waits() {
        let locks = "1: POSIX  ADVISORY  WRITE 1 08:02:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4711 00:1f:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 4712 00:1f:77 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 9 08:02:78 0 EOF\n";
        assert_eq!(holder_in(locks, 77), Some(4711));
        assert_eq!(holder_in(locks, 78), Some(9));
        assert_eq!(holder_in(locks, 7), None);
    }

    #[test]
    fn a_lock_has_a_holder_while_it_is_held() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(holder(folder.path()), None);
        let lock = Lock::take(folder.path()).unwrap();
        assert_eq!(holder(folder.path()), Some(std::process::id()));
        drop(lock);
        assert_eq!(holder(folder.path()), None);
    }
}
