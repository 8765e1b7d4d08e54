//! What can stand in a latency tail.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of disturbance that a check guards against and that a spike is put down to.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Another task runs where the latency-critical one should: preemption, run-queue wait.
    Scheduler,
    /// The periodic timer interrupt and what it drags along.
    Tick,
    /// Deferred frees of the kernel's read-copy-update lists.
    Rcu,
    /// A device interrupt, its softirq, or a function call from another CPU.
    Irq,
    /// Time to wake up from an idle state.
    CState,
    /// A clock below the rated one: governor, power limit, thermal throttling.
    Frequency,
    /// Waiting for a lock, the allocator's among them.
    Lock,
    /// A collector stops the program.
    Gc,
    /// Memory or a device on another node.
    Numa,
    /// Firmware takes the CPU away, unseen by the kernel.
    Smi,
    /// The way of a packet: coalescing, rings, steering, link sleep.
    Network,
    /// Page faults, reclaim, compaction, swap, huge-page assembly.
    Memory,
    /// The hypervisor runs something else.
    Virtualisation,
    /// A control group's limit.
    Cgroup,
    /// Clocks that are slow to read, drift or jump.
    Clock,
}

impl Cause {
    /// Every cause, in the order reports use.
    pub const ALL: [Self; 15] = [
        Self::Scheduler,
        Self::Tick,
        Self::Rcu,
        Self::Irq,
        Self::CState,
        Self::Frequency,
        Self::Lock,
        Self::Gc,
        Self::Numa,
        Self::Smi,
        Self::Network,
        Self::Memory,
        Self::Virtualisation,
        Self::Cgroup,
        Self::Clock,
    ];

    /// The name used in JSON and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Tick => "tick",
            Self::Rcu => "rcu",
            Self::Irq => "irq",
            Self::CState => "c_state",
            Self::Frequency => "frequency",
            Self::Lock => "lock",
            Self::Gc => "gc",
            Self::Numa => "numa",
            Self::Smi => "smi",
            Self::Network => "network",
            Self::Memory => "memory",
            Self::Virtualisation => "virtualisation",
            Self::Cgroup => "cgroup",
            Self::Clock => "clock",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_serialised_ones() {
        for cause in Cause::ALL {
            let json = serde_json::to_string(&cause).unwrap();
            assert_eq!(json, format!("\"{}\"", cause.name()));
        }
    }
}
