//! What only moves: counters that are read twice, some seconds apart.

use std::collections::BTreeMap;

use quietcore_measure::Nanos;
use quietcore_sys::host::Task;

use crate::Facts;
use crate::cgroups::{self, Quota};
use crate::idle;
use crate::irqs::Interrupts;
use crate::process::ProcessCounters;
use crate::thermal::throttles;

/// One reading of everything that a probe compares.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// When, as time since boot; 0 where unknown.
    pub at: Nanos,
    /// `/proc/interrupts`.
    pub interrupts: Interrupts,
    /// Time per CPU by kind, from `/proc/stat`.
    pub cpu_times: Vec<CpuTimes>,
    /// Threads with their CPU time.
    pub tasks: Vec<Task>,
    /// `/proc/vmstat`, `name value` lines.
    pub vmstat: String,
    /// `/proc/net/softnet_stat`.
    pub softnet: String,
    /// System management interrupts since boot (MSR 0x34), per online CPU that answers.
    pub smi: Vec<(usize, u64)>,
    /// APERF and MPERF (MSR 0xe8, 0xe7) per online CPU that answers: their ratio is the
    /// frequency while not idle, over base.
    pub aperf_mperf: Vec<(usize, u64, u64)>,
    /// How often each CPU's core or package was slowed down for its heat, where that is counted.
    pub throttles: Vec<(usize, u64)>,
    /// How often and how long each CPU was in each of its idle states.
    pub idle: BTreeMap<usize, Vec<idle::StateUse>>,
    /// The process under audit, empty if there is none.
    pub process: ProcessCounters,
    /// Control groups with a quota of CPU time, and how often it stopped them; `None` where they
    /// could not be read.
    pub quotas: Option<Vec<Quota>>,
}

/// Time of a CPU by kind in clock ticks of 1/100 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// The CPU.
    pub cpu: usize,
    /// Doing something: user, nice, system, irq, softirq.
    pub busy: u64,
    /// Idle, with or without pending I/O.
    pub idle: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
}

/// Two readings of the counters.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The first.
    pub first: Counters,
    /// The second.
    pub second: Counters,
}

impl Counters {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        let online = &facts.cpus().online;
        let msr = |cpu, register| host.msr(cpu, register).ok();
        Self {
            at: host.monotonic().unwrap_or_default(),
            interrupts: Interrupts::read(facts),
            cpu_times: CpuTimes::parse(&host.read("/proc/stat").unwrap_or_default()),
            tasks: host.tasks().unwrap_or_default(),
            vmstat: host.read("/proc/vmstat").unwrap_or_default(),
            softnet: host.read("/proc/net/softnet_stat").unwrap_or_default(),
            smi: online.iter().filter_map(|cpu| Some((cpu, msr(cpu, 0x34)?))).collect(),
            aperf_mperf: online
                .iter()
                .filter_map(|cpu| Some((cpu, msr(cpu, 0xe8)?, msr(cpu, 0xe7)?)))
                .collect(),
            throttles: throttles(host, online),
            idle: idle::uses(host, online),
            process: ProcessCounters::read(facts),
            quotas: cgroups::limits(host).value().map(|limits| limits.quotas.clone()),
        }
    }
}

impl CpuTimes {
    /// Reads the `cpuN` lines of `/proc/stat`.
    pub fn parse(stat: &str) -> Vec<Self> {
        let line = |line: &str| {
            let (name, rest) = line.split_once(' ')?;
            let cpu = name.strip_prefix("cpu")?.parse().ok()?;
            let t: Vec<u64> = rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
            let [user, nice, system, idle, iowait, irq, softirq, steal] = *t.first_chunk()?;
            Some(Self {
                cpu,
                busy: [user, nice, system, irq, softirq].into_iter().fold(0, u64::saturating_add),
                idle: idle.saturating_add(iowait),
                steal,
            })
        };
        stat.lines().filter_map(line).collect()
    }
}

impl Probe {
    /// Time between the readings.
    pub fn took(&self) -> Nanos {
        self.second.at - self.first.at
    }

    /// Share of the time in which a CPU was busy, 0 to 1; `None` if it could not be read.
    pub fn busy(&self, cpu: usize) -> Option<f64> {
        let [first, second] = self.times(cpu)?;
        let busy = second.busy.checked_sub(first.busy)? as f64;
        let all = busy
            + second.idle.checked_sub(first.idle)? as f64
            + second.steal.checked_sub(first.steal)? as f64;
        (all > 0.0).then(|| busy / all)
    }

    /// Share of the time that the hypervisor took from a CPU, 0 to 1.
    pub fn steal(&self, cpu: usize) -> Option<f64> {
        let [first, second] = self.times(cpu)?;
        let steal = second.steal.checked_sub(first.steal)? as f64;
        let all = steal
            + second.idle.checked_sub(first.idle)? as f64
            + second.busy.checked_sub(first.busy)? as f64;
        (all > 0.0).then(|| steal / all)
    }

    /// How often an interrupt hit a CPU between the readings.
    pub fn interrupts(&self, label: &str, cpu: usize) -> Option<u64> {
        let second = self.second.interrupts.count(label, cpu)?;
        second.checked_sub(self.first.interrupts.count(label, cpu)?)
    }

    /// By how much a counter of `/proc/vmstat` grew.
    pub fn vmstat(&self, name: &str) -> Option<u64> {
        let value = |text: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
            pairs.find(|(key, _)| *key == name)?.1.trim().parse::<u64>().ok()
        };
        value(&self.second.vmstat)?.checked_sub(value(&self.first.vmstat)?)
    }

    fn times(&self, cpu: usize) -> Option<[CpuTimes; 2]> {
        let find = |counters: &Counters| counters.cpu_times.iter().find(|t| t.cpu == cpu).copied();
        Some([find(&self.first)?, find(&self.second)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(first: &str, second: &str) -> Probe {
        let of = |stat| Counters { cpu_times: CpuTimes::parse(stat), ..Counters::default() };
        Probe { first: of(first), second: of(second) }
    }

    #[test]
    fn busy_and_steal_are_shares_of_all_time_that_passed() {
        let p = probe(
            "cpu  9 9 9 9\ncpu0 10 0 0 100 0 0 0 0 0 0\ncpu1 x\n",
            "cpu  9 9 9 9\ncpu0 40 0 0 150 0 0 0 20 0 0\ncpu1 x\n",
        );
        assert_eq!(p.busy(0), Some(0.3));
        assert_eq!(p.steal(0), Some(0.2));
        assert_eq!(p.busy(1), None);
    }

    #[test]
    fn a_counter_that_runs_backwards_is_unknown() {
        let p = probe("cpu0 50 0 0 100 0 0 0 0\n", "cpu0 40 0 0 150 0 0 0 20\n");
        assert_eq!(p.busy(0), None);
    }
}
