//! What a network driver says of itself.
//!
//! Asked by the ethtool ioctl, which every driver answers on every kernel; the netlink family
//! that succeeds it reads the same driver callbacks. (linux/ethtool.h has the layouts: each
//! request is a run of 32-bit words that begins with the command.)

use std::cell::Cell;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use serde::{Deserialize, Serialize};

use super::{Host, HostError, Trouble};
use crate::lease::Location;

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const GDRVINFO: u32 = 0x03;
const GCOALESCE: u32 = 0x0e;
const GRINGPARAM: u32 = 0x10;
const GPAUSEPARAM: u32 = 0x12;
const GFLAGS: u32 = 0x25;
const GGRO: u32 = 0x2b;
const GET_TS_INFO: u32 = 0x41;
const GEEE: u32 = 0x44;
const FLAG_LRO: u32 = 1 << 15;
/// The longest answer asked for, `ethtool_drvinfo`, has 196 bytes.
const WORDS: usize = 64;

/// What a network driver answers; `None` where it does not offer the setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ethtool {
    /// Name of the driver.
    pub driver: Option<String>,
    /// Interrupt coalescing.
    pub coalesce: Option<Coalesce>,
    /// Descriptor rings.
    pub rings: Option<Rings>,
    /// Large receive offload: packets are held back to be merged by the device.
    pub lro: Option<bool>,
    /// Generic receive offload: packets are merged by the kernel.
    pub gro: Option<bool>,
    /// Whether pause frames stop our sending.
    pub rx_pause: Option<bool>,
    /// Whether Energy-Efficient Ethernet is allowed here.
    pub eee: Option<bool>,
    /// Whether it is in use, agreed upon with the other end: the link sleeps between packets.
    pub eee_active: Option<bool>,
    /// Index of the PTP hardware clock, -1 if the device has none.
    pub phc: Option<i32>,
}

/// Interrupt coalescing: how long packets may wait for an interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coalesce {
    /// Microseconds a received packet may wait.
    pub rx_usecs: u32,
    /// Frames after which the interrupt comes anyway; 0 means no such limit.
    pub rx_frames: u32,
    /// Microseconds a sent packet's completion may wait.
    pub tx_usecs: u32,
    /// Whether the driver changes `rx_usecs` by load.
    pub adaptive_rx: bool,
}

/// Descriptor rings, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    /// Receive descriptors in use.
    pub rx: u32,
    /// Most the device offers.
    pub rx_max: u32,
    /// Send descriptors in use.
    pub tx: u32,
    /// Most the device offers.
    pub tx_max: u32,
}

impl Host {
    /// What the driver of a network interface answers.
    pub fn ethtool(&self, interface: &str) -> Result<Ethtool, HostError> {
        let (live, real) = (self.is_live(), self.real(interface));
        self.answer(format!("ethtool {interface}"), |_| match live {
            true => ask(&real),
            false => Err(Trouble::NotRecorded),
        })
    }
}

fn ask(interface: &str) -> Result<Ethtool, Trouble> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    answers(|command| words(&socket, interface, command))
}

/// # Errors
/// Denied only where every question is: a driver that keeps one setting to itself answers the
/// others.
fn answers(ask: impl Fn(u32) -> Result<[u32; WORDS], i32>) -> Result<Ethtool, Trouble> {
    let all_denied = Cell::new(true);
    let query = |command| {
        let answer = ask(command);
        all_denied.set(all_denied.get() && matches!(answer, Err(libc::EPERM | libc::EACCES)));
        answer
    };
    let on = |command| optional(query(command).map(|w| w[1] != 0));
    let found = Ethtool {
        driver: optional(query(GDRVINFO).map(|w| text(&w[1..9])))?,
        coalesce: optional(query(GCOALESCE).map(|w| Coalesce {
            rx_usecs: w[1],
            rx_frames: w[2],
            tx_usecs: w[5],
            adaptive_rx: w[10] != 0,
        }))?,
        rings: optional(query(GRINGPARAM).map(|w| Rings {
            rx: w[5],
            rx_max: w[1],
            tx: w[8],
            tx_max: w[4],
        }))?,
        lro: optional(query(GFLAGS).map(|w| w[1] & FLAG_LRO != 0))?,
        gro: on(GGRO)?,
        rx_pause: optional(query(GPAUSEPARAM).map(|w| w[2] != 0))?,
        eee: optional(query(GEEE).map(|w| w[5] != 0))?,
        eee_active: optional(query(GEEE).map(|w| w[4] != 0))?,
        phc: optional(query(GET_TS_INFO).map(|w| w[2] as i32))?,
    };
    match all_denied.get() {
        true => Err(Trouble::Denied),
        false => Ok(found),
    }
}

/// A setting that the driver does not offer, or not to us, is `None`; a missing interface is an error.
fn optional<T>(answer: Result<T, i32>) -> Result<Option<T>, Trouble> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(libc::EOPNOTSUPP | libc::EINVAL | libc::EPERM | libc::EACCES) => Ok(None),
        Err(errno) => Err(std::io::Error::from_raw_os_error(errno).into()),
    }
}

/// One word of a structure that the driver answers with.
pub(crate) fn word(interface: &str, at: &Location) -> Result<u32, Trouble> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let words = words(&socket, interface, at.get).map_err(std::io::Error::from_raw_os_error)?;
    Ok(words[at.word])
}

/// Changes one word of a structure, leaving the others as the driver has them.
pub(crate) fn set_word(interface: &str, at: &Location, value: u32) -> Result<(), Trouble> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let failed = |errno| match errno {
        libc::EINVAL | libc::ERANGE => Trouble::Other("the driver refuses this value".to_owned()),
        libc::EOPNOTSUPP => Trouble::Other("the driver does not let it be changed".to_owned()),
        _ => std::io::Error::from_raw_os_error(errno).into(),
    };
    let mut all = words(&socket, interface, at.get).map_err(failed)?;
    (all[0], all[at.word]) = (at.set, value);
    exchange(&socket, interface, &mut all).map_err(failed)
}

fn words(socket: &UdpSocket, interface: &str, command: u32) -> Result<[u32; WORDS], i32> {
    let mut answer = [0u32; WORDS];
    answer[0] = command;
    exchange(socket, interface, &mut answer).map(|()| answer)
}

fn exchange(socket: &UdpSocket, interface: &str, words: &mut [u32; WORDS]) -> Result<(), i32> {
    // SAFETY: an all-zero ifreq is a valid value of this plain C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = libc::IFNAMSIZ - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes().take(room)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the socket is open; `request` names a buffer of 256 bytes that outlives the call,
    // longer than any answer to the commands above.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
    }
}

/// A NUL-terminated text in the words' native byte order.
fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_answers_nothing_denies_and_one_that_keeps_a_setting_back_does_not() {
        assert_eq!(answers(|_| Err(libc::EPERM)), Err(Trouble::Denied));
        let but_one = |command| match command {
            GGRO => Ok([1; WORDS]),
            _ => Err(libc::EPERM),
        };
        assert_eq!(answers(but_one), Ok(Ethtool { gro: Some(true), ..Ethtool::default() }));
        assert_eq!(answers(|_| Err(libc::EOPNOTSUPP)), Ok(Ethtool::default()));
    }

    #[test]
    fn loopback_answers_and_a_missing_interface_is_missing() {
        let host = Host::live();
        let lo = host.ethtool("lo").unwrap();
        assert_eq!(lo.coalesce, None, "loopback has no interrupts to coalesce");
        assert_eq!(host.ethtool("nosuchif0").unwrap_err().trouble, Trouble::Missing);
    }
}
