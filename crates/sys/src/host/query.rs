//! Questions that a text file does not answer.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::FileExt;

use quietcore_measure::Nanos;
use serde::{Deserialize, Serialize};

use super::parameters::{Quoting, without_values};
use super::{Host, HostError, Trouble};
use crate::clock::KernelClock;

/// The four registers of a CPUID leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuidLeaf {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

/// The environment variables that a check reads; no other leaves a process.
const ENVIRONMENT: [&str; 11] = [
    "GOGC",
    "GOMEMLIMIT",
    "GODEBUG",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "GLIBC_TUNABLES",
    "IRQBALANCE_BANNED_CPULIST",
    "IRQBALANCE_BANNED_CPUS",
];

impl Host {
    /// The kernel command line, without what is meant for the init process (after ` -- `); of
    /// parameters that no check reads only the names, see [`super::keeps_value`].
    pub fn command_line(&self) -> Result<String, HostError> {
        self.answer("cmdline".to_owned(), |root| {
            let text = super::live::read(root, "/proc/cmdline")?;
            let line = text.split(" -- ").next().unwrap_or_default().trim();
            Ok(without_values(line, Quoting::Kernel))
        })
    }

    /// A model-specific register of a CPU, through the msr module (root).
    ///
    /// # Errors
    /// Missing without the module; denied without `CAP_SYS_RAWIO`, and under kernel lockdown.
    pub fn msr(&self, cpu: usize, register: u32) -> Result<u64, HostError> {
        self.answer(format!("msr {cpu} {register:#x}"), |root| {
            let file = super::live::open(root, &format!("/dev/cpu/{cpu}/msr"))?;
            let mut value = [0; 8];
            // EIO is the kernel's word for a register this CPU does not have.
            match file.read_exact_at(&mut value, u64::from(register)) {
                Err(e) if e.raw_os_error() == Some(libc::EIO) => Err(Trouble::Missing),
                other => Ok(other.map(|()| u64::from_le_bytes(value))?),
            }
        })
    }

    /// A CPUID leaf of the CPU that happens to run this; only leaves that do not vary are asked.
    pub fn cpuid(&self, leaf: u32, subleaf: u32) -> Result<CpuidLeaf, HostError> {
        let tree = self.is_tree();
        self.answer(format!("cpuid {leaf:#x} {subleaf:#x}"), |_| {
            if tree {
                return Err(Trouble::NotRecorded);
            }
            cpuid(leaf, subleaf)
        })
    }

    /// The latency in microseconds that PM QoS holds all CPUs to (`/dev/cpu_dma_latency`);
    /// `None` where nobody asked for one.
    pub fn cpu_dma_latency_us(&self) -> Result<Option<i32>, HostError> {
        let us = self.answer("cpu_dma_latency".to_owned(), |root| {
            let mut value = [0; 4];
            super::live::open(root, "/dev/cpu_dma_latency")?.read_exact(&mut value)?;
            Ok(i32::from_ne_bytes(value))
        })?;
        // PM_QOS_CPU_LATENCY_DEFAULT_VALUE: 2000 s, "nobody asked".
        Ok(Some(us).filter(|us| *us != 2_000_000_000))
    }

    /// The environment of a process, cut down to the variables that checks read.
    pub fn environment(&self, pid: u32) -> Result<BTreeMap<String, String>, HostError> {
        self.answer(format!("environment {pid}"), |root| {
            let text = super::live::read(root, &format!("/proc/{pid}/environ"))?;
            let named = text.split('\0').filter_map(|entry| entry.split_once('='));
            Ok(named
                .filter(|(name, _)| ENVIRONMENT.contains(name))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect())
        })
    }

    /// The name of a process' program and those arguments that tune a runtime (`-X…`, and `@` where
    /// more of them are in a file); the others may be anything, secrets among them, and are not
    /// kept.
    pub fn arguments(&self, pid: u32) -> Result<Vec<String>, HostError> {
        self.answer(format!("arguments {pid}"), |root| {
            let text = super::live::read(root, &format!("/proc/{pid}/cmdline"))?;
            let mut parts = text.split('\0');
            let path = parts.next().unwrap_or_default();
            let program = path.rsplit('/').next().unwrap_or_default().to_owned();
            Ok(std::iter::once(program).chain(super::process::runtime_options(parts)).collect())
        })
    }

    /// Time since boot, sleep included: what a task's start and a count since boot refer to.
    pub fn uptime(&self) -> Result<Nanos, HostError> {
        self.clock("clock boottime", KernelClock::Boottime)
    }

    /// Time without sleep: the x-axis of everything that is read twice.
    pub fn monotonic(&self) -> Result<Nanos, HostError> {
        self.clock("clock monotonic", KernelClock::Monotonic)
    }

    fn clock(&self, key: &str, clock: KernelClock) -> Result<Nanos, HostError> {
        let tree = self.is_tree();
        self.answer(key.to_owned(), |_| match tree {
            true => Err(Trouble::NotRecorded),
            false => Ok(Nanos(clock.now())),
        })
    }
}

#[cfg(target_arch = "x86_64")]
fn cpuid(leaf: u32, subleaf: u32) -> Result<CpuidLeaf, Trouble> {
    let highest = raw_cpuid::cpuid!(leaf & 0xf000_0000).eax;
    // A leaf beyond the highest answers with the data of another one. The hypervisor's range is
    // empty without a hypervisor, and then its base leaf answers with garbage of that kind.
    let hypervisor = raw_cpuid::cpuid!(1).ecx >> 31 == 1;
    if leaf > highest || (leaf & 0xf000_0000 == 0x4000_0000 && !hypervisor) {
        return Err(Trouble::Missing);
    }
    let raw_cpuid::CpuIdResult { eax, ebx, ecx, edx } = raw_cpuid::cpuid!(leaf, subleaf);
    Ok(CpuidLeaf { eax, ebx, ecx, edx })
}

#[cfg(not(target_arch = "x86_64"))]
fn cpuid(_: u32, _: u32) -> Result<CpuidLeaf, Trouble> {
    Err(Trouble::Missing)
}
