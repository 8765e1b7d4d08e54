//! Every setting that can be tuned, one file each.
//!
//! A knob is a value: what it sets, why, at what price, and a pure function from facts to a
//! [`Proposal`]. To add one: write `knobs/<name>.rs` with a `pub const KNOB: Knob`, add its name to
//! the list below at the place where it is to be applied, and give it a value in `profiles/`.
//! Tests fail when folder, list, profiles and reference page drift apart.

mod proposal;
mod setting;

use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_measure::CpuSet;

pub use proposal::{Item, Parameter, Proposal, State};
pub use setting::{Setting, Takes};

use crate::plan::Reach;

/// One thing that can be tuned.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// Name in profiles, as `c-state-latency`.
    pub id: &'static str,
    /// What it sets, in one line.
    pub about: &'static str,
    /// What it removes from the tail, in one or two sentences.
    pub why: &'static str,
    /// What it costs: heat, watts, turbo headroom, memory, throughput.
    pub price: &'static str,
    /// What may go wrong; empty where nothing is known to.
    pub risk: &'static str,
    /// The checks that pass when it is set: what `verify` asks besides the values.
    pub checks: &'static [&'static str],
    /// The values it takes.
    pub takes: Takes,
    /// What has to be changed on a host.
    pub propose: fn(&Facts, &Ask, &mut Proposal),
}

/// What a knob is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The value from the profile.
    pub value: &'a Setting,
    /// All values of the profile, for knobs that depend on each other.
    pub knobs: &'a BTreeMap<String, Setting>,
    /// Which CPUs are for latency, and which for the rest.
    pub cpus: &'a Cores,
    /// Whether what outlasts a reboot is left out: a service is stopped then, not disabled.
    pub reach: Reach,
}

/// Which CPUs are for latency, and which for the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Cores {
    /// For latency: nothing but what is placed there.
    #[serde(with = "cpu_list")]
    pub isolated: CpuSet,
    /// For everything else.
    #[serde(with = "cpu_list")]
    pub housekeeping: CpuSet,
}

impl Cores {
    /// Where something that may be on these CPUs is to be: on the housekeeping CPUs among them, or
    /// on all where none is.
    pub fn kept(&self, now: &CpuSet) -> CpuSet {
        match now.and(&self.housekeeping) {
            inside if inside.is_empty() => self.housekeeping.clone(),
            inside => inside,
        }
    }

    /// The CPUs to be made quick: those for latency, or all where none is set apart.
    pub fn for_latency(&self) -> CpuSet {
        match self.isolated.is_empty() {
            true => self.housekeeping.clone(),
            false => self.isolated.clone(),
        }
    }
}

mod cpu_list {
    use quietcore_measure::CpuSet;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(cpus: &CpuSet, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(cpus)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CpuSet, D::Error> {
        let text = String::deserialize(deserializer)?;
        CpuSet::parse_list(&text).map_err(D::Error::custom)
    }
}

/// A knob by its name in profiles.
pub fn named(id: &str) -> Option<&'static Knob> {
    ALL.iter().copied().find(|knob| knob.id == id)
}

/// The knob that makes a check pass: one that acts at once before one of the boot line.
pub fn mending(check: &str) -> Option<&'static str> {
    ALL.iter().find(|knob| knob.checks.contains(&check)).map(|knob| knob.id)
}

macro_rules! knobs {
    ($($name:ident,)*) => {
        $(mod $name;)*

        /// Every knob, in the order in which they are applied: who would undo a change is stopped
        /// first; a partition resets the CPUs of threads; cards, whose drivers ask for interrupts
        /// anew, come before interrupts, those before the threads that follow them; the boot line
        /// comes last. They are taken back in reverse: what hides or holds another setting (a
        /// governor its preference, turbo the frequencies) comes after it.
        pub const ALL: &[&Knob] = &[$(&$name::KNOB,)*];

        #[cfg(test)]
        const NAMES: &[&str] = &[$(stringify!($name),)*];
    };
}

knobs! {
    stop_services,
    irqbalance_banned,
    energy_performance_preference,
    energy_performance_bias,
    governor,
    max_frequency,
    min_frequency,
    turbo,
    uncore_frequency,
    c_state_latency,
    c_state_qos,
    cpuset,
    workqueue_cpumask,
    nic_runtime_pm,
    nic_rings,
    nic_coalescing,
    gro,
    eee,
    mtu,
    rps,
    xps,
    irq_affinity,
    kernel_threads,
    process_affinity,
    nmi_watchdog,
    watchdog,
    timer_migration,
    sched_rt_runtime,
    fair_server,
    sched_autogroup,
    rcu_expedited,
    mce_poll,
    bpf_stats,
    transparent_hugepages,
    transparent_hugepages_sizes,
    transparent_hugepages_defrag,
    khugepaged,
    huge_pages_2m,
    huge_pages_1g,
    ksm,
    numa_balancing,
    compaction_proactiveness,
    zone_reclaim,
    watermark_scale,
    dirty_limit,
    stat_interval,
    swappiness,
    busy_poll,
    busy_read,
    tcp_slow_start_after_idle,
    at_boot,
    boot_isolcpus,
    boot_nohz_full,
    boot_rcu_nocbs,
    boot_irqaffinity,
    boot_skew_tick,
    boot_transparent_hugepage,
    boot_max_cstate,
    boot_idle,
    boot_tsc,
    boot_nosoftlockup,
    boot_mce,
    boot_audit,
    boot_hugepages,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks;

    #[test]
    fn every_file_of_the_folder_is_in_the_list_under_the_name_of_its_id() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/knobs");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                name.strip_suffix(".rs").map(str::to_owned)
            })
            .filter(|stem| !["mod", "proposal", "setting"].contains(&stem.as_str()))
            .collect();
        files.sort();
        let mut listed = NAMES.to_vec();
        listed.sort_unstable();
        assert_eq!(files, listed);
        for (knob, name) in ALL.iter().zip(NAMES) {
            assert_eq!(knob.id.replace('-', "_"), *name);
        }
    }

    #[test]
    fn every_knob_says_why_and_at_what_price_and_names_checks_that_exist() {
        for knob in ALL {
            assert!(knob.why.len() > 40, "{} explains too little", knob.id);
            assert!(!knob.about.is_empty() && !knob.price.is_empty(), "{}", knob.id);
            for id in knob.checks {
                assert!(checks::ALL.iter().any(|c| c.id == *id), "{}: no check {id}", knob.id);
            }
        }
    }
}
