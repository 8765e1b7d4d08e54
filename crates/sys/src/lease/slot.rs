//! A place on a host that holds one value: it can be read, written and put back.
//!
//! A new kind of place is one file in `slot/`, one variant and one line in each `match` here.

mod device;
mod file;
mod group;
mod knob;
mod next_boot;
mod process;
mod unit;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::value::Value;
use crate::host::{Host, Trouble};

pub(crate) use device::Location;
pub use device::Setting;
pub(super) use file::remove_leftover;
pub use knob::Form;
pub use next_boot::dies_with_us;
pub use process::started_at;
pub(crate) use unit::describe as describe_unit;

/// A place on a host that holds one value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// A file of the kernel: `/proc/sys`, `/sys`, a control group's settings.
    Knob {
        /// Absolute path.
        path: String,
        /// How two texts of it are compared.
        form: Form,
    },
    /// A whole file with its mode and owner, replaced at once or not at all.
    File {
        /// Absolute path.
        path: String,
    },
    /// A folder of the file system: a control group, a folder for drop-ins.
    Folder {
        /// Absolute path.
        path: String,
    },
    /// Whether a systemd unit runs and whether it starts at boot, as `inactive disabled`.
    Unit {
        /// As `irqbalance.service`.
        name: String,
    },
    /// Whether a systemd unit starts at boot, whether it runs or not: `enabled`, `disabled`.
    Enabled {
        /// As `quietcore.service`.
        name: String,
    },
    /// A setting of a network driver.
    Device {
        /// Interface.
        interface: String,
        /// Which of its settings.
        setting: Setting,
    },
    /// The CPUs a thread may use, as `0-3`.
    Affinity {
        /// Thread.
        tid: u32,
        /// Its start time in clock ticks since boot: a later thread with the same number is
        /// another one.
        started: u64,
    },
    /// The control group of a process, as `/system.slice/a.service`.
    Member {
        /// Process.
        pid: u32,
        /// As in [`Slot::Affinity`].
        started: u64,
        /// Where its hierarchy is mounted, as `/sys/fs/cgroup`.
        mount: String,
    },
    /// The boot entry for the next boot only.
    NextBoot {
        /// Whose.
        loader: Loader,
    },
}

/// A boot loader that can boot an entry once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loader {
    /// GRUB: `next_entry` of this environment block.
    Grub {
        /// As `/boot/grub/grubenv`.
        environment: String,
    },
    /// systemd-boot: the EFI variable LoaderEntryOneShot.
    SystemdBoot,
}

impl Slot {
    /// A kernel file whose text is one word or number.
    pub fn word(path: impl Into<String>) -> Self {
        Self::Knob { path: path.into(), form: Form::Word }
    }

    /// Whether its value outlives a reboot; what does not is back by itself after one.
    pub fn lasts(&self) -> bool {
        match self {
            Self::File { .. }
            | Self::Unit { .. }
            | Self::Enabled { .. }
            | Self::NextBoot { .. } => true,
            Self::Folder { path } => !is_kernel_path(path),
            _ => false,
        }
    }

    /// The file that a value is written to, where it is one.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Knob { path, .. } | Self::File { path } | Self::Folder { path } => Some(path),
            _ => None,
        }
    }

    fn unit(&self) -> Option<&str> {
        match self {
            Self::Unit { name } | Self::Enabled { name } => Some(name),
            _ => None,
        }
    }

    /// Whether this is the folder that a file of the kernel is in: it comes and goes with it.
    pub fn is_folder_of(&self, file: &Self) -> bool {
        match (self, file) {
            (Self::Folder { path: folder }, Self::Knob { path, .. }) => {
                path.rsplit_once('/').is_some_and(|(parent, _)| parent == folder)
            }
            _ => false,
        }
    }

    /// Whether two values mean the same here: `always [madvise] never` is `madvise`, `0-2` is
    /// `0,1,2`.
    pub fn same(&self, a: &Value, b: &Value) -> bool {
        match (self, a, b) {
            (Self::Knob { form, .. }, Value::Text(a), Value::Text(b)) => form.same(a, b),
            (Self::Affinity { .. }, Value::Text(a), Value::Text(b)) => Form::CpuList.same(a, b),
            _ => a == b,
        }
    }

    /// What it holds now.
    pub(crate) fn read(&self) -> Result<Value, Trouble> {
        match self {
            Self::Knob { path, form } => knob::read(path, *form),
            Self::File { path } => file::read(path),
            Self::Folder { path } => group::read(path),
            Self::Unit { name } => unit::read(name),
            Self::Enabled { name } => unit::enabled(name),
            Self::Device { interface, setting } => device::read(interface, *setting),
            Self::Affinity { tid, started } => process::affinity(*tid, *started),
            Self::Member { pid, started, mount } => process::group(*pid, *started, mount),
            Self::NextBoot { loader } => next_boot::read(loader),
        }
    }

    /// Gives it a value; the caller reads it back.
    pub(crate) fn write(&self, value: &Value) -> Result<(), Trouble> {
        match self {
            Self::Knob { path, form } => knob::write(path, *form, value),
            Self::File { path } => file::write(path, value),
            Self::Folder { path } => group::write(path, value),
            Self::Unit { name } => unit::write(name, value),
            Self::Enabled { name } => unit::enable(name, value),
            Self::Device { interface, setting } => device::write(interface, *setting, value),
            Self::Affinity { tid, started } => process::set_affinity(*tid, *started, value),
            Self::Member { pid, started, mount } => process::join(*pid, *started, mount, value),
            Self::NextBoot { loader } => next_boot::write(loader, value),
        }
    }
}

impl Host {
    /// What a place holds now, on this machine or in a recording.
    ///
    /// # Errors
    /// [`Trouble::Missing`] where there is no such place (a file of [`Slot::File`] that is not
    /// there is a value, though: [`Value::Absent`]).
    pub fn look(&self, slot: &Slot) -> Result<Value, Trouble> {
        match self.is_live() {
            true => slot.read(),
            false => self.look_recorded(slot),
        }
    }

    /// What many places hold now, in their order. systemd is asked once for all its units.
    pub fn look_all(&self, slots: &[Slot]) -> Vec<Result<Value, Trouble>> {
        let names = slots.iter().filter_map(Slot::unit);
        let units = self.is_live().then(|| unit::ask(&names.collect::<Vec<_>>()));
        let look = |slot: &Slot| match (&units, slot) {
            (Some(units), Slot::Unit { name }) => unit::state(units, name),
            (Some(units), Slot::Enabled { name }) => unit::starts(units, name),
            _ => self.look(slot),
        };
        slots.iter().map(look).collect()
    }
}

/// Whether a path lies in a file system of the kernel, which a reboot makes anew.
fn is_kernel_path(path: &str) -> bool {
    ["/sys/", "/proc/", "/run/", "/dev/"].iter().any(|root| path.starts_with(root))
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Knob { path, .. } | Self::File { path } | Self::Folder { path } => {
                f.write_str(path)
            }
            Self::Unit { name } | Self::Enabled { name } => f.write_str(name),
            Self::Device { interface, setting } => write!(f, "{interface} {setting}"),
            Self::Affinity { tid, .. } => write!(f, "CPUs of thread {tid}"),
            Self::Member { pid, .. } => write!(f, "control group of process {pid}"),
            Self::NextBoot { .. } => f.write_str("entry of the next boot"),
        }
    }
}
