//! Kernel parameters that decide about latency.

/// Names of parameters that change what an isolated CPU, its clock, its idle states or its memory
/// do, as the kernel's documentation has them (admin-guide/kernel-parameters.txt; kthread_cpus is
/// of Ubuntu's real-time kernel); `-` as `_`.
const LATENCY: &[&str] = &[
    "amd_pstate",
    "audit",
    "clocksource",
    "cpufreq.default_governor",
    "cpuidle.governor",
    "cpuidle.off",
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "idle",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.max_cstate",
    "intel_pstate",
    "irqaffinity",
    "isolcpus",
    "kthread_cpus",
    "maxcpus",
    "mce",
    "mitigations",
    "nmi_watchdog",
    "no_timer_check",
    "nohz",
    "nohz_full",
    "nosmt",
    "nosoftlockup",
    "nowatchdog",
    "nr_cpus",
    "numa_balancing",
    "pcie_aspm",
    "preempt",
    "processor.max_cstate",
    "rcu_nocb_poll",
    "rcu_nocbs",
    "rcupdate.rcu_normal_after_boot",
    "skew_tick",
    "systemd.cpu_affinity",
    "threadirqs",
    "transparent_hugepage",
    "tsc",
    "workqueue.unbound_cpus",
];

/// Whether a parameter decides about latency.
pub fn is_for_latency(name: &str) -> bool {
    LATENCY.contains(&name)
}

/// The parameter that a name was probably meant to be: one of the above, a letter or two away.
/// Short names are left out, they resemble too much (`nosmt` and `nosmp` are both parameters).
pub fn meant_by(name: &str) -> Option<&'static str> {
    if is_for_latency(name) {
        return None;
    }
    let near = |known: &&&str| known.len() >= 8 && distance(name, known) <= 2;
    LATENCY.iter().filter(near).min_by_key(|known| distance(name, known)).copied()
}

/// Letters to insert, drop, replace or swap to get from one name to the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_told_from_another_parameter() {
        for (typo, meant) in [
            ("nohz_ful", "nohz_full"),
            ("isolcpu", "isolcpus"),
            ("rcu_nocb", "rcu_nocbs"),
            ("irq_affinity", "irqaffinity"),
            ("skew_tcik", "skew_tick"),
            ("intel_idle.max_cstates", "intel_idle.max_cstate"),
            ("transparent_hugepages", "transparent_hugepage"),
        ] {
            assert_eq!(meant_by(typo), Some(meant), "{typo}");
        }
        for other in ["nohz_full", "quiet", "splash", "nosmp", "console", "nohz", "", "resume"] {
            assert_eq!(meant_by(other), None, "{other}");
        }
    }

    #[test]
    fn every_parameter_that_is_judged_keeps_its_value() {
        let others = ["highres", "tsc_reliable", "slub_debug", "slab_debug", "page_poison"];
        let more = ["debug_pagealloc", "debug_objects", "BOOT_IMAGE"];
        for name in LATENCY.iter().chain(&others).chain(&more) {
            assert!(quietcore_sys::host::keeps_value(name), "{name}");
        }
    }

    #[test]
    fn distance_counts_a_swap_as_one() {
        assert_eq!(distance("tcik", "tick"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
