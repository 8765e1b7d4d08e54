//! The typed picture of a host: each part is read once, when first asked for, and shared.
//!
//! A fact is one file with a type and its `read(&Facts)`, and one line in the list below. Facts
//! hold what is; whether that is good is for the checks of the `host` crate to say.
#![forbid(unsafe_code)]

pub mod counters;
pub mod power;

use std::sync::OnceLock;

use quietcore_measure::HostSummary;
use quietcore_sys::Host;

pub use counters::{Counters, CpuTimes, Probe};

macro_rules! facts {
    ($($module:ident: $type:ident,)*) => {
        $(pub mod $module;)*
        $(pub use $module::$type;)*

        /// A host, asked piece by piece.
        #[derive(Debug)]
        pub struct Facts {
            host: Host,
            probe: Option<Probe>,
            pid: Option<u32>,
            $($module: OnceLock<$type>,)*
        }

        impl Facts {
            /// Of this host; nothing is read yet.
            pub fn of(host: Host) -> Self {
                Self { host, probe: None, pid: None, $($module: OnceLock::new(),)* }
            }

            $(
                #[doc = concat!("[`", stringify!($type), "`], read at the first call.")]
                pub fn $module(&self) -> &$type {
                    self.$module.get_or_init(|| $type::read(self))
                }
            )*
        }
    };
}

facts! {
    boot: Boot,
    bootfiles: Bootfiles,
    bypass: Bypass,
    cgroups: Cgroups,
    clock: Clock,
    cpus: Cpus,
    frequency: Frequency,
    hardware: Hardware,
    idle: Idle,
    irqs: Irqs,
    isolation: Isolation,
    kernel: Kernel,
    memory: Memory,
    nics: Nics,
    process: Process,
    services: Services,
    softnet: Softnet,
    tasks: Tasks,
    thermal: Thermal,
    virt: Virt,
}

impl Facts {
    /// The host behind the facts, for what no fact covers.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The host again, to take its recording from.
    pub fn into_host(self) -> Host {
        self.host
    }

    /// Names a process to be examined besides the host: before a probe, which reads its counters.
    #[must_use]
    pub fn examining(mut self, pid: Option<u32>) -> Self {
        self.pid = pid;
        self
    }

    /// The process to be examined.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Reads every counter twice; `wait` passes the time between (it is not called for a recorded
    /// host, whose second reading is there or not).
    pub fn take_probe(&mut self, wait: impl FnOnce()) {
        let first = Counters::read(self);
        if self.host.is_live() {
            wait();
        }
        if self.host.has_second_moment() {
            let second = self.host.at_second_moment(|| Counters::read(self));
            self.probe = Some(Probe { first, second });
        }
    }

    /// The two readings of the counters, if they were taken.
    pub fn probe(&self) -> Option<&Probe> {
        self.probe.as_ref()
    }

    /// The host in one line.
    pub fn summary(&self) -> HostSummary {
        let kernel = self.kernel();
        HostSummary {
            name: self
                .host
                .recording_name()
                .or_else(|| self.host.line("/proc/sys/kernel/hostname").ok())
                .unwrap_or_default(),
            kernel: kernel.release.clone(),
            cpu: self.cpus().model.clone(),
            online: self.cpus().online.to_string(),
            hypervisor: self.cpus().hypervisor.clone().unwrap_or_default(),
            memory_bytes: kernel.memory_bytes,
            recorded: !self.host.is_live(),
        }
    }
}
