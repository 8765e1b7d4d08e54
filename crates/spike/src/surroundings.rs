//! What else happened on the measured CPUs meanwhile, as the kernel counts it.
//!
//! Counters say how often something happened during a run, not which gap it made: they are the
//! frame around the picture. All of them are read through [`Host`].

use std::collections::BTreeMap;

use quietcore_facts::counters::CpuTimes;
use quietcore_facts::irqs::Interrupts;
use quietcore_measure::{Nanos, Reading, Validity, Verdict};
use quietcore_sys::Host;
use quietcore_sys::host::Trouble;
use quietcore_sys::sched::Usage;

/// The model-specific register in which Intel CPUs count system management interrupts.
const MSR_SMI_COUNT: u32 = 0x34;

/// The unit of /proc/stat, which is 1/100 s to user space whatever the kernel's tick.
const STAT_UNIT: Nanos = Nanos::from_ms(10);

/// One reading of all counters.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    interrupts: Interrupts,
    cpu_times: Vec<CpuTimes>,
    smi: BTreeMap<usize, Reading<u64>>,
    /// Time that a CPU's thread spent waiting for it.
    run_queue: BTreeMap<usize, Reading<u64>>,
}

impl Counters {
    /// Reads the counters of some CPUs, each with the thread that is measured on it.
    pub fn read(host: &Host, threads: impl Iterator<Item = (usize, i32)>) -> Self {
        let mut counters = Self {
            interrupts: Interrupts::parse(&host.read("/proc/interrupts").unwrap_or_default()),
            cpu_times: CpuTimes::parse(&host.read("/proc/stat").unwrap_or_default()),
            ..Self::default()
        };
        for (cpu, tid) in threads {
            counters.smi.insert(cpu, smi(host, cpu));
            counters.run_queue.insert(cpu, run_queue(host, tid));
        }
        counters
    }
}

fn smi(host: &Host, cpu: usize) -> Reading<u64> {
    match host.msr(cpu, MSR_SMI_COUNT) {
        Ok(count) => Reading::Measured(count),
        Err(error) if error.trouble == Trouble::Missing => Reading::Unsupported(
            "no SMI counter (MSR 0x34 is Intel's, and needs the msr module)".to_owned(),
        ),
        Err(error) => error.into_reading(),
    }
}

fn run_queue(host: &Host, tid: i32) -> Reading<u64> {
    let path = format!("/proc/self/task/{tid}/schedstat");
    match host.read(&path) {
        Ok(text) => waited(&text),
        Err(error) => error.into_reading(),
    }
}

/// The second of `run_ns wait_ns slices`. A kernel that does not keep them prints three zeros,
/// though a thread that reads this has had a slice.
fn waited(schedstat: &str) -> Reading<u64> {
    let numbers: Vec<u64> =
        schedstat.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match numbers[..] {
        [0, 0, 0] => Reading::Unsupported("this kernel does not count run-queue waits".to_owned()),
        [_, waited, _] => Reading::Measured(waited),
        _ => Reading::Failed(format!("schedstat reads `{}`", schedstat.trim())),
    }
}

/// Time the hypervisor took from a CPU since boot, in units of 1/100 s.
fn steal(times: &[CpuTimes], cpu: usize) -> Option<u64> {
    times.iter().find(|times| times.cpu == cpu).map(|times| times.steal)
}

/// What was added to one CPU's counters.
#[derive(Clone, Debug)]
pub struct Around {
    /// The CPU.
    pub cpu: usize,
    /// Interrupts by label of /proc/interrupts (`LOC`, `36`), without those that did not come.
    pub interrupts: BTreeMap<String, u64>,
    /// Time the hypervisor ran something else, a multiple of 10 ms.
    pub steal: Reading<Nanos>,
    /// System management interrupts.
    pub smi: Reading<u64>,
    /// Time the measuring thread waited for its CPU.
    pub run_queue: Reading<Nanos>,
    /// What the measuring thread used and suffered.
    pub usage: Usage,
}

/// What happened around a measurement.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// CPU by CPU.
    pub cpus: Vec<Around>,
    /// What the interrupts' labels stand for.
    pub names: BTreeMap<String, String>,
}

impl Surroundings {
    /// The difference of two readings, for CPUs whose threads used what is said.
    pub fn between(first: &Counters, second: &Counters, usage: &[(usize, Usage)]) -> Self {
        let around = |&(cpu, usage): &(usize, Usage)| Around {
            cpu,
            interrupts: second.interrupts.since(&first.interrupts, cpu),
            steal: match (steal(&first.cpu_times, cpu), steal(&second.cpu_times, cpu)) {
                (Some(a), Some(b)) => Reading::Measured(Nanos(b.saturating_sub(a) * STAT_UNIT.0)),
                _ => Reading::Failed(format!("/proc/stat has no steal time of CPU {cpu}")),
            },
            smi: added(first.smi.get(&cpu), second.smi.get(&cpu)),
            run_queue: added(first.run_queue.get(&cpu), second.run_queue.get(&cpu)).map(Nanos),
            usage,
        };
        let row = |(label, row): (&String, &quietcore_facts::irqs::Row)| {
            let name = match label.parse::<u32>() {
                Ok(_) => row.actions(),
                Err(_) => row.text.as_str(),
            };
            (label.clone(), name.to_owned())
        };
        Self {
            cpus: usage.iter().map(around).collect(),
            names: second.interrupts.rows.iter().map(row).collect(),
        }
    }

    /// Notes what makes the tail tell of something else than the CPU's own quiet.
    pub fn judge(&self, validity: &mut Validity) {
        for around in &self.cpus {
            let cpu = around.cpu;
            let switches = around.usage.involuntary_switches;
            if switches > 0 {
                let waited = match around.run_queue.value() {
                    Some(waited) => format!(" and kept it waiting for {waited}"),
                    None => String::new(),
                };
                validity.note(
                    Verdict::Disturbed,
                    format!(
                        "CPU {cpu}: other tasks took the CPU from the measuring thread \
                         {switches} times{waited}"
                    ),
                );
            }
            match around.steal.value() {
                Some(Nanos(0)) | None => {}
                Some(steal) => validity.note(
                    Verdict::Disturbed,
                    format!("CPU {cpu}: the hypervisor took {steal} of it (steal)"),
                ),
            }
            let faults = around.usage.minor_faults + around.usage.major_faults;
            if faults > 0 {
                validity.note(
                    Verdict::Disturbed,
                    format!("CPU {cpu}: {faults} page faults of the measuring thread itself"),
                );
            }
        }
    }
}

fn added(first: Option<&Reading<u64>>, second: Option<&Reading<u64>>) -> Reading<u64> {
    match (first, second) {
        (Some(Reading::Measured(a)), Some(Reading::Measured(b))) => {
            Reading::Measured(b.saturating_sub(*a))
        }
        (Some(reason), Some(Reading::Measured(_))) | (_, Some(reason)) => reason.clone(),
        (_, None) => Reading::Failed("not read".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 1 2 3 4 5 6 7 80 0 0\n\
                        cpu10 1 2 3 4 5 6 7 99 0 0\nintr 5\n";

    fn counters(loc: u64, stolen: u64, smi: Reading<u64>) -> Counters {
        let table = format!(
            "     CPU1\nLOC: {loc}  Local timer interrupts\n36: 7 PCI-MSIX 1-edge eth0-rx-1\n"
        );
        Counters {
            interrupts: Interrupts::parse(&table),
            cpu_times: CpuTimes::parse(&format!("cpu1 1 2 3 4 5 6 7 {stolen} 0 0\n")),
            smi: BTreeMap::from([(1, smi)]),
            run_queue: BTreeMap::from([(1, waited("5 1000 2"))]),
        }
    }

    #[test]
    fn steal_is_read_from_the_right_cpu() {
        assert_eq!(steal(&CpuTimes::parse(STAT), 1), Some(80));
        assert_eq!(steal(&CpuTimes::parse(STAT), 10), Some(99));
        assert_eq!(steal(&CpuTimes::parse(STAT), 0), None);
        assert_eq!(steal(&CpuTimes::parse("cpu1 1 2 3\n"), 1), None);
    }

    #[test]
    fn a_kernel_that_counts_no_waits_is_not_taken_for_one_without_waits() {
        assert_eq!(waited("123 456 7\n"), Reading::Measured(456));
        assert_eq!(waited("123 0 7\n"), Reading::Measured(0));
        assert!(matches!(waited("0 0 0\n"), Reading::Unsupported(_)));
        assert!(matches!(waited("x\n"), Reading::Failed(_)));
    }

    #[test]
    fn surroundings_are_differences() {
        let (first, second) =
            (counters(10, 5, Reading::Measured(3)), counters(14, 8, Reading::Measured(4)));
        let around = Surroundings::between(&first, &second, &[(1, Usage::default())]);
        let cpu = &around.cpus[0];
        assert_eq!(cpu.interrupts, BTreeMap::from([("LOC".to_owned(), 4)]));
        assert_eq!(cpu.steal, Reading::Measured(Nanos::from_ms(30)));
        assert_eq!(cpu.smi, Reading::Measured(1));
        assert_eq!(cpu.run_queue, Reading::Measured(Nanos(0)));
        assert_eq!(around.names["36"], "eth0-rx-1");
        assert_eq!(around.names["LOC"], "Local timer interrupts");
    }

    #[test]
    fn what_cannot_be_counted_keeps_its_reason() {
        let none = || Reading::Unsupported("no MSR".to_owned());
        let around = Surroundings::between(
            &counters(1, 1, none()),
            &counters(1, 1, none()),
            &[(1, Usage::default()), (2, Usage::default())],
        );
        assert_eq!(around.cpus[0].smi, none());
        assert!(matches!(around.cpus[1].steal, Reading::Failed(_)));
    }

    #[test]
    fn preemption_and_steal_disturb_a_tail_and_quiet_does_not() {
        let judged = |stolen, involuntary_switches| {
            let usage = Usage { involuntary_switches, ..Usage::default() };
            let quiet = || Reading::Measured(0);
            let mut validity = Validity::default();
            Surroundings::between(
                &counters(1, 0, quiet()),
                &counters(1, stolen, quiet()),
                &[(1, usage)],
            )
            .judge(&mut validity);
            validity
        };
        assert_eq!(judged(0, 0), Validity::default());
        assert_eq!(judged(1, 0).verdict, Verdict::Disturbed);
        assert!(judged(1, 0).notes[0].contains("10.0 ms"), "{:?}", judged(1, 0));
        assert!(judged(0, 3).notes[0].contains("3 times"));
    }
}
