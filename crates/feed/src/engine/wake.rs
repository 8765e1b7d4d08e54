//! Wakes the hot thread where it sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// A file descriptor that becomes readable when somebody [rings](Self::ring).
#[derive(Debug)]
pub(super) struct Wake(OwnedFd);

impl Wake {
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Wakes, or lets the next sleep end at once.
    pub fn ring(&self) {
        // It can only fail when it has been rung 2^64 - 2 times unheard.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Hears all rings so far.
    pub fn hear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
