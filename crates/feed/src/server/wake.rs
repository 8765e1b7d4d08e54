//! Wakes a thread that waits for a socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use std::{io, net};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// An event counter of the kernel's.
#[derive(Debug)]
pub(super) struct Wake(OwnedFd);

impl Wake {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Wakes who waits, or whoever waits next.
    pub(super) fn wake(&self) {
        // Fails only when the counter is full: then it is set anyway.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn reset(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// Waits for the socket to have bytes (or room, if `for_room`), for a wake, or for the moment.
    pub(super) fn wait(
        &self,
        socket: BorrowedFd<'_>,
        for_room: bool,
        until: Option<Instant>,
    ) -> io::Result<()> {
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, for_room);
        let timeout = until.map(|until| {
            // A nanosecond early would be a turn for nothing.
            let left = until.saturating_duration_since(Instant::now()) + Duration::from_nanos(1);
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        let mut fds =
            [PollFd::from_borrowed_fd(socket, events), PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.reset();
        Ok(())
    }

    /// Waits for a client at the listener, or for a wake.
    pub(super) fn wait_for_client(&self, listener: &net::TcpListener) -> io::Result<()> {
        self.wait(listener.as_fd(), false, None)
    }
}
