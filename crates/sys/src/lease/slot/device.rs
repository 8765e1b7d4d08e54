//! Settings of network drivers, by the ethtool ioctl: each is one word of a structure that is
//! read whole, changed and written back.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Trouble;
use crate::host::{Ethtool, ethtool_word, set_ethtool_word};
use crate::lease::value::Value;

/// A setting of a network driver, by ethtool's own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// Microseconds a received packet may wait for its interrupt.
    RxUsecs,
    /// Frames after which the interrupt comes anyway.
    RxFrames,
    /// Microseconds until a sent packet's completion interrupts.
    TxUsecs,
    /// Whether the driver changes `rx-usecs` by load.
    AdaptiveRx,
    /// Receive descriptors.
    RxRing,
    /// Send descriptors.
    TxRing,
    /// Generic receive offload.
    Gro,
    /// Energy-Efficient Ethernet.
    Eee,
}

/// Where a setting is: the command that reads its structure, the one that writes it, the word in
/// it (`linux/ethtool.h`).
pub(crate) struct Location {
    pub get: u32,
    pub set: u32,
    pub word: usize,
}

impl Setting {
    fn location(self) -> Location {
        let (get, set, word) = match self {
            Self::RxUsecs => (0x0e, 0x0f, 1),
            Self::RxFrames => (0x0e, 0x0f, 2),
            Self::TxUsecs => (0x0e, 0x0f, 5),
            Self::AdaptiveRx => (0x0e, 0x0f, 10),
            Self::RxRing => (0x10, 0x11, 5),
            Self::TxRing => (0x10, 0x11, 8),
            Self::Gro => (0x2b, 0x2c, 1),
            Self::Eee => (0x44, 0x45, 5),
        };
        Location { get, set, word }
    }

    /// What a driver answered when it was recorded; `None` where it does not offer the setting.
    pub(crate) fn of(self, driver: &Ethtool) -> Option<u32> {
        match self {
            Self::RxUsecs => driver.coalesce.map(|c| c.rx_usecs),
            Self::RxFrames => driver.coalesce.map(|c| c.rx_frames),
            Self::TxUsecs => driver.coalesce.map(|c| c.tx_usecs),
            Self::AdaptiveRx => driver.coalesce.map(|c| u32::from(c.adaptive_rx)),
            Self::RxRing => driver.rings.map(|r| r.rx),
            Self::TxRing => driver.rings.map(|r| r.tx),
            Self::Gro => driver.gro.map(u32::from),
            Self::Eee => driver.eee.map(u32::from),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::RxUsecs => "rx-usecs",
            Self::RxFrames => "rx-frames",
            Self::TxUsecs => "tx-usecs",
            Self::AdaptiveRx => "adaptive-rx",
            Self::RxRing => "rx ring",
            Self::TxRing => "tx ring",
            Self::Gro => "gro",
            Self::Eee => "eee",
        }
    }

    /// The command line that sets it, for people.
    pub fn command(self, interface: &str, value: &str) -> String {
        let switch = if value == "0" { "off" } else { "on" };
        match self {
            Self::RxUsecs | Self::RxFrames | Self::TxUsecs => {
                format!("ethtool -C {interface} {} {value}", self.name())
            }
            Self::AdaptiveRx => format!("ethtool -C {interface} adaptive-rx {switch}"),
            Self::RxRing => format!("ethtool -G {interface} rx {value}"),
            Self::TxRing => format!("ethtool -G {interface} tx {value}"),
            Self::Gro => format!("ethtool -K {interface} gro {switch}"),
            Self::Eee => format!("ethtool --set-eee {interface} eee {switch}"),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

pub(super) fn read(interface: &str, setting: Setting) -> Result<Value, Trouble> {
    ethtool_word(interface, &setting.location()).map(|word| Value::text(word.to_string()))
}

pub(super) fn write(interface: &str, setting: Setting, value: &Value) -> Result<(), Trouble> {
    let text = value.as_text().unwrap_or_default();
    let word = text.parse().map_err(|_| Trouble::Other(format!("`{text}` is no number")))?;
    set_ethtool_word(interface, &setting.location(), word)
}
