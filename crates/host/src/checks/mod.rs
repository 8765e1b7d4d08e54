//! Every check, one file each.
//!
//! To add one: write `checks/<group>_<name>.rs` with a `pub const CHECK: Check`, add its name to
//! the list below, and add a host where it fails and one where it passes to
//! `testdata/mutations/`. Tests fail when folder, list, reference pages and test hosts drift apart.

use crate::Check;

macro_rules! checks {
    ($($name:ident,)*) => {
        $(mod $name;)*

        /// Every check.
        pub const ALL: &[&Check] = &[$(&$name::CHECK,)*];

        #[cfg(test)]
        const NAMES: &[&str] = &[$(stringify!($name),)*];
    };
}

checks! {
    boot_duplicate_tokens,
    boot_loader_files,
    boot_skew_tick,
    boot_timer_hz,
    boot_unknown_tokens,
    cgroup_cpu_max,
    cgroup_cpuset_exclusive,
    cgroup_cpuset_partition,
    cgroup_memory_high,
    cgroup_placement,
    cgroup_throttled_now,
    clock_phc,
    clock_source,
    clock_sync,
    clock_sync_conflict,
    clock_tsc_stable,
    clock_tsc_watchdog,
    cstate_boot_tokens,
    cstate_c1e_promotion,
    cstate_driver,
    cstate_entered,
    cstate_exit_latency,
    cstate_governor,
    cstate_idle_poll_smt,
    cstate_pm_qos,
    freq_busy_vs_base,
    freq_driver,
    freq_epb,
    freq_epp,
    freq_governor,
    freq_limit,
    freq_locked,
    freq_powercap,
    freq_turbo,
    freq_uncore,
    go_gogc,
    go_memlimit,
    irq_acpi_storm,
    irq_arriving,
    irq_default_affinity,
    irq_effective_affinity,
    irq_errors,
    irq_ipi,
    irq_irqaffinity_token,
    irq_irqbalance,
    irq_managed,
    irq_nic_queues,
    irq_since_boot,
    irq_spurious,
    irq_threads,
    isolation_consistent,
    isolation_cpus_exist,
    isolation_housekeeping,
    isolation_isolcpus,
    isolation_isolcpus_flags,
    isolation_nohz_full,
    isolation_rcu_nocbs,
    jvm_collector,
    jvm_conc_threads,
    jvm_explicit_gc,
    jvm_heap_fixed,
    jvm_pause_target,
    jvm_pauses,
    jvm_perf_data,
    jvm_pretouch,
    jvm_region_size,
    kernel_bpf_stats,
    kernel_debug_options,
    kernel_hardware_errors,
    kernel_io_pressure,
    kernel_lockdown,
    kernel_lockups,
    kernel_mitigations,
    kernel_pcie_aspm,
    kernel_perf_sampling,
    kernel_serial_console,
    kernel_tracing,
    mem_allocation_failures,
    mem_compaction_proactiveness,
    mem_dirty,
    mem_edac,
    mem_hugepages,
    mem_hugepages_on_node,
    mem_khugepaged,
    mem_ksm,
    mem_mce_poll,
    mem_memlock_limit,
    mem_min_free,
    mem_pressure,
    mem_reclaim,
    mem_reclaim_now,
    mem_swap,
    mem_swapping,
    mem_thp,
    mem_thp_defrag,
    mem_zone_reclaim,
    net_busy_poll,
    net_bypass,
    net_coalescing,
    net_conntrack,
    net_drops,
    net_eee,
    net_gro,
    net_ifcfg_name,
    net_jumbo,
    net_lro,
    net_mtu,
    net_numa_node,
    net_pause,
    net_pcie_link,
    net_rfs,
    net_rings,
    net_rps,
    net_runtime_pm,
    net_softnet,
    net_softnet_growth,
    net_taps,
    net_tcp_slow_start_after_idle,
    net_udp_drops,
    net_xps,
    numa_balancing,
    numa_latency_cpus_span,
    numa_remote_memory,
    proc_affinity,
    proc_allocator,
    proc_cgroup_throttled,
    proc_class_mix,
    proc_core_count,
    proc_cpu_busy,
    proc_fifo_throttled,
    proc_garbage_collector,
    proc_hugepages,
    proc_involuntary,
    proc_involuntary_now,
    proc_locked_memory,
    proc_major_faults,
    proc_minor_faults,
    proc_numa_maps,
    proc_posix_timers,
    proc_rt_priority,
    proc_run_delay,
    proc_swapped,
    proc_threads_share_cpu,
    proc_timer_slack,
    proc_traced,
    proc_unbalanced,
    rcu_expedited,
    rcu_rcuo_placement,
    rcu_stalls,
    sched_autogroup,
    sched_cpu_pressure,
    sched_fair_server,
    sched_kernel_threads,
    sched_nmi_watchdog,
    sched_preempt_model,
    sched_rt_throttling,
    sched_runnable,
    sched_systemd_cpuaffinity,
    sched_tasks_on_isolated,
    sched_timer_migration,
    sched_watchdog,
    sched_workqueue_cpumask,
    sched_workqueue_writeback,
    service_apt_timers,
    service_auditd,
    service_cpufreq_daemon,
    service_cron_heavy,
    service_kernel_audit,
    service_ksmtuned,
    service_numad,
    service_power_profiles,
    service_thermald,
    service_tuned,
    smi_count,
    smi_rising,
    smt_isolated_siblings,
    smt_shared_core,
    thermal_headroom,
    thermal_log,
    thermal_throttle_count,
    thermal_throttling_now,
    tick_busy_cpu,
    tick_vmstat,
    virt_balloon,
    virt_dedicated,
    virt_halt_poll,
    virt_hypervisor,
    virt_steal,
    virt_steal_since_boot,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_in_the_list_under_the_name_of_its_id() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/checks");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                name.strip_suffix(".rs").filter(|stem| *stem != "mod").map(str::to_owned)
            })
            .collect();
        files.sort();
        let mut listed = NAMES.to_vec();
        listed.sort_unstable();
        assert_eq!(files, listed);
        for (check, name) in ALL.iter().zip(NAMES) {
            assert_eq!(check.id.replace(['.', '-'], "_"), *name);
        }
    }

    #[test]
    fn every_check_says_what_it_costs_and_how_that_is_known() {
        for check in ALL {
            assert!(check.cost.us > 0.0 && !check.cost.text.is_empty(), "{}", check.id);
            assert!(!check.cost.origin.is_empty() && !check.about.is_empty(), "{}", check.id);
            assert!(check.why.len() > 80, "{} explains too little", check.id);
        }
    }
}
