//! A TCP connection whose reads say when the kernel got the bytes.
//!
//! The kernel stamps a packet when its driver hands it over (`SOF_TIMESTAMPING_RX_SOFTWARE`) and, where
//! the network card can, when it came in from the wire (`SOF_TIMESTAMPING_RX_HARDWARE`; somebody has to
//! switch that on for the card, and its clock is the card's own). For TCP the stamp is that of the last
//! byte a read returns (Documentation/networking/timestamping.rst). Stamping begins a little after the
//! first socket of a machine has asked for it, so the first reads of a connection may have none.

use std::io::{self, Read, Write};
use std::mem::{size_of, zeroed};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// What one read brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// How many bytes; 0 is the end of the stream.
    pub bytes: usize,
    /// When the kernel got the last of them, CLOCK_REALTIME in nanoseconds.
    pub software_ns: Option<u64>,
    /// When the network card did, by the card's own clock.
    pub hardware_ns: Option<u64>,
}

/// A connection. Reads never wait.
#[derive(Debug)]
pub struct Stream(TcpStream);

impl Stream {
    /// Takes a connection over: from now on its reads are stamped and do not wait, and what is sent
    /// goes out at once.
    ///
    /// # Errors
    /// The system's, where it does not know one of these options.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let stamps = libc::SOF_TIMESTAMPING_RX_SOFTWARE
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_RX_HARDWARE
            | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        set(stream.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, stamps as i32)?;
        Ok(Self(stream))
    }

    /// Lets reads and polls spin in the kernel on the card's queue for so long before they give up
    /// (`SO_BUSY_POLL`). More than `net.core.busy_read` needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// The system's: no permission, or a kernel without it.
    pub fn busy_poll(&self, time: Duration) -> io::Result<()> {
        let us = i32::try_from(time.as_micros()).unwrap_or(i32::MAX);
        set(self.0.as_fd(), libc::SOL_SOCKET, libc::SO_BUSY_POLL, us)
    }

    /// The queue of the network card that the last packet came by (`SO_INCOMING_NAPI_ID`); `None` where
    /// it came by none that can be polled, as on loopback.
    pub fn napi_id(&self) -> Option<u32> {
        let mut id: u32 = 0;
        let mut len = size_of::<u32>() as libc::socklen_t;
        // SAFETY: `id` and `len` are valid for the call, and `len` says how large `id` is.
        let failed = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_INCOMING_NAPI_ID,
                (&raw mut id).cast(),
                &mut len,
            )
        };
        (failed == 0 && id > 0).then_some(id)
    }

    /// Reads what is there, or fails with `WouldBlock`. One system call, no allocation.
    ///
    /// # Errors
    /// The system's.
    #[inline]
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Received> {
        /// Room for the stamps' message and another one, aligned as the kernel writes it.
        #[repr(C, align(8))]
        struct Control([u8; 128]);

        let mut control = Control([0; 128]);
        let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        // SAFETY: a msghdr is a plain structure for which all zeroes is valid.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<Control>() as _;
        // SAFETY: `message` names memory that lives through the call and is as long as it says.
        let read = unsafe { libc::recvmsg(self.0.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
        let Ok(bytes) = usize::try_from(read) else { return Err(io::Error::last_os_error()) };
        let [software_ns, hardware_ns] = stamps(&message);
        Ok(Received { bytes, software_ns, hardware_ns })
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The software and the hardware stamp of a message that recvmsg has filled in.
fn stamps(message: &libc::msghdr) -> [Option<u64>; 2] {
    // SAFETY: recvmsg has set the length of the control data to what it wrote, into memory that the
    // caller still holds; the macros stay within it.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !at.is_null() {
        // SAFETY: not null, so a whole header of that control data, aligned by the kernel.
        let head = unsafe { &*at };
        let is_stamp =
            (head.cmsg_level, head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING);
        // SAFETY: as above.
        let room = head.cmsg_len as usize - unsafe { libc::CMSG_LEN(0) } as usize;
        if is_stamp && room >= size_of::<[libc::timespec; 3]>() {
            // SAFETY: three timespecs of a message of this kind follow its header (the second is not
            // used any more), and there is room for them; the read makes no claim on alignment.
            let [software, _, hardware] =
                unsafe { libc::CMSG_DATA(at).cast::<[libc::timespec; 3]>().read_unaligned() };
            return [software, hardware].map(nanoseconds);
        }
        // SAFETY: `at` is a header of this message.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    [None, None]
}

/// A stamp; all zeroes is none.
fn nanoseconds(at: libc::timespec) -> Option<u64> {
    let ns = (at.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(at.tv_nsec as u64);
    (ns > 0).then_some(ns)
}

fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: `value` is valid for the call and as long as it says.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    match failed {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::KernelClock;
    use std::net::TcpListener;
    use std::os::fd::AsFd;

    fn pair() -> (Stream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Stream::new(ours).unwrap(), listener.accept().unwrap().0)
    }

    fn wait(stream: &Stream) {
        let mut fds = [rustix::event::PollFd::new(stream, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, None).unwrap();
    }

    #[test]
    fn a_read_says_when_the_kernel_got_its_last_byte() {
        let (ours, mut theirs) = pair();
        // The kernel begins to stamp a little after the first socket on the machine has asked for it.
        let (got, before, after) = (0..1_000)
            .find_map(|_| {
                let before = KernelClock::Realtime.now();
                theirs.write_all(b"hello").unwrap();
                wait(&ours);
                let mut buffer = [0; 16];
                let got = ours.receive(&mut buffer).unwrap();
                assert_eq!(&buffer[..got.bytes], b"hello");
                got.software_ns.map(|_| (got, before, KernelClock::Realtime.now()))
            })
            .unwrap();
        // Unless somebody sets the clock in these microseconds.
        assert!((before..=after).contains(&got.software_ns.unwrap()));
        assert_eq!(got.hardware_ns, None, "loopback is no card");
        assert_eq!(ours.napi_id(), None);
    }

    #[test]
    fn nothing_there_is_no_end() {
        let (ours, theirs) = pair();
        let nothing = ours.receive(&mut [0; 16]).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        drop(theirs);
        wait(&ours);
        assert_eq!(ours.receive(&mut [0; 16]).unwrap().bytes, 0);
        assert!(ours.as_fd().as_raw_fd() >= 0);
    }

    #[test]
    fn a_stamp_of_nothing_is_none() {
        assert_eq!(nanoseconds(libc::timespec { tv_sec: 0, tv_nsec: 0 }), None);
        assert_eq!(nanoseconds(libc::timespec { tv_sec: 2, tv_nsec: 7 }), Some(2_000_000_007));
    }
}
