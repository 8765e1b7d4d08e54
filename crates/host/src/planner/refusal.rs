//! Splits that are not made, with what to do instead.

use quietcore_measure::CpuSet;

/// Why a split is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The online CPUs or the siblings of one could not be read.
    #[error(
        "the online CPUs and their siblings could not be read: see that \
         /sys/devices/system/cpu can be"
    )]
    Unknown,
    /// Named CPUs that no boot of this machine can have.
    #[error("CPUs {cpus} do not exist: name CPUs of {online}")]
    Missing {
        /// The CPUs.
        cpus: CpuSet,
        /// Those that can be named.
        online: CpuSet,
    },
    /// Named CPUs that are offline.
    #[error(
        "CPUs {cpus} are offline: bring each online (echo 1 > \
         /sys/devices/system/cpu/cpuN/online), or name CPUs of {online}"
    )]
    Offline {
        /// The CPUs.
        cpus: CpuSet,
        /// Those that are online.
        online: CpuSet,
    },
    /// No CPU was named.
    #[error("no CPU is named to be isolated: name some of {online}")]
    Nothing {
        /// Those that can be named.
        online: CpuSet,
    },
    /// All CPUs are named.
    #[error(
        "all online CPUs ({online}) would be isolated and none left for everything else: leave at \
         least CPUs {keep} out"
    )]
    NoHousekeeping {
        /// The CPUs.
        online: CpuSet,
        /// The first core.
        keep: CpuSet,
    },
    /// CPU 0 is named, and nobody insists.
    #[error(
        "CPU 0 would be isolated, where the kernel boots, keeps the time and serves interrupts \
         that cannot leave: {}, or force it",
        instead(rest)
    )]
    FirstCpu {
        /// What is left without its core.
        rest: CpuSet,
    },
    /// Cores of which one thread is named and another is not.
    #[error(
        "cores would be split: {}, and what runs on one thread slows the other: {}",
        spoken(pairs),
        instead(whole)
    )]
    SplitCores {
        /// Of each core, the CPUs that are named and those that are not.
        pairs: Vec<(CpuSet, CpuSet)>,
        /// The nearest set of whole cores.
        whole: CpuSet,
    },
    /// There is no such interface to be near to.
    #[error(
        "{name} is no network interface with a device that is in use: name {}",
        if known.is_empty() { "none, as no other is either".to_owned() } else { known.join(" or ") }
    )]
    NoSuchCard {
        /// As asked for.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// More cores are wanted than can be spared.
    #[error(
        "{wanted} core{} cannot be isolated, {most} can: {rule}; {remedy}",
        if *wanted == 1 { "" } else { "s" }
    )]
    TooMany {
        /// As asked for.
        wanted: usize,
        /// As many can be.
        most: usize,
        /// Why no more.
        rule: &'static str,
        /// What to do.
        remedy: &'static str,
    },
}

fn instead(cpus: &CpuSet) -> String {
    match cpus.is_empty() {
        true => "name other CPUs".to_owned(),
        false => format!("name {cpus} instead"),
    }
}

fn spoken(pairs: &[(CpuSet, CpuSet)]) -> String {
    let pairs = pairs.iter().map(|(named, left)| format!("{named} without {left}"));
    pairs.collect::<Vec<_>>().join(", ")
}
