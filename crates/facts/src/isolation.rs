//! Which CPUs the kernel really keeps free, as its own files and its log say.

use quietcore_measure::{CpuSet, Reading};

use crate::Facts;

/// What isolation is in effect, whatever the boot line asks for.
#[derive(Clone, Debug)]
pub struct Isolation {
    /// CPUs outside the scheduler's domains: by isolcpus=, or in an isolated cpuset partition.
    pub domain: CpuSet,
    /// CPUs whose tick can stop while busy.
    pub tickless: CpuSet,
    /// CPUs whose RCU callbacks run elsewhere, as the boot log says. The kernel shows it nowhere
    /// else: its `rcuo` threads are there either way.
    pub offloaded: Reading<CpuSet>,
    /// Lines of the log in which the kernel refuses or mends what the boot line asks for.
    pub complaints: Vec<String>,
}

const OFFLOADED: &str = "Offload RCU callbacks from CPUs:";

impl Isolation {
    pub(crate) fn read(facts: &Facts) -> Self {
        let cpus = facts.cpus();
        let set = |reading: &Reading<CpuSet>| reading.value().cloned().unwrap_or_default();
        let partitions = facts.cgroups().isolated();
        let log = facts.kernel().log.value();
        let lines = log.into_iter().flat_map(|log| &log.lines).map(|line| line.text.as_str());
        Self {
            domain: set(&cpus.isolated).or(&partitions),
            tickless: set(&cpus.nohz_full),
            offloaded: facts.kernel().logged(OFFLOADED).and_then(|line| match line {
                None => Reading::Measured(CpuSet::new()),
                Some(line) => offloaded(&line.text),
            }),
            complaints: lines.filter(|line| is_complaint(line)).map(str::to_owned).collect(),
        }
    }
}

fn is_complaint(line: &str) -> bool {
    let starts = ["Housekeeping:", "isolcpus:", "NO_HZ: Clearing", "NO_HZ: Can't"];
    starts.iter().any(|start| line.starts_with(start))
        || line.contains("rcu_nocbs= bad CPU range")
        || line.contains("contains nonexistent CPUs")
}

/// The list behind the words of the log line, or `(none)`, and a full stop.
fn offloaded(line: &str) -> Reading<CpuSet> {
    let list = line.split_once(OFFLOADED).map_or("", |(_, list)| list);
    let list = list.trim().trim_end_matches('.');
    if list == "(none)" {
        return Reading::Measured(CpuSet::new());
    }
    match CpuSet::parse_list(list) {
        Ok(set) => Reading::Measured(set),
        Err(why) => Reading::Failed(format!("kernel log `{line}`: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_line_names_the_offloaded_cpus() {
        let read = |line: &str| offloaded(line).value().map(ToString::to_string);
        assert_eq!(
            read("rcu: \tOffload RCU callbacks from CPUs: 2-19,42-59.").unwrap(),
            "2-19,42-59"
        );
        assert_eq!(read("rcu: \tOffload RCU callbacks from CPUs: (none).").unwrap(), "");
        assert_eq!(read("Offload RCU callbacks from CPUs: x."), None);
        assert_eq!(read("").unwrap(), "");
    }

    #[test]
    fn what_the_kernel_refuses_is_a_complaint() {
        for line in [
            "Housekeeping: nohz_full= or isolcpus= incorrect CPU range",
            "isolcpus: Skipped unknown flag managed",
            "NO_HZ: Clearing 0 from nohz_full range for timekeeping",
            "rcu: rcu_nocbs= bad CPU range, all CPUs set",
        ] {
            assert!(is_complaint(line), "{line}");
        }
        assert!(!is_complaint("NO_HZ: Full dynticks CPUs: 1."));
    }
}
