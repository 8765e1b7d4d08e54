//! One change of a host at a time.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::LeaseError;

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
