use std::collections::BTreeSet;

use quietcore_facts::cgroups::{Membership, Quota, Version};
use quietcore_facts::{Cgroups, Facts};
use quietcore_measure::Cause;

use crate::remedy::quoted;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cgroup.cpu-max",
    cause: Cause::Cgroup,
    about: "No group of processes is stopped by a quota of CPU time",
    why: "A limit on CPU (Docker's --cpus, a Kubernetes limit, systemd's CPUQuota=) lets all \
          threads of a group run for a quota per period, and stops them all until the period \
          ends once it is used up, however idle the CPUs are: a process with 8 threads and a \
          quota of 2 CPUs uses up 200 ms in 25 ms, and then waits 75. It is the commonest cause \
          of tails in containers. Read from cpu.max (version 1: cpu.cfs_quota_us) and the count \
          of stops in cpu.stat of every group up to a bound of 1000 per hierarchy; real-time \
          threads are not counted. Stops fail if they hit the group of the audit (a container's \
          own), of the process named or of programs put on latency CPUs; those of others warn. \
          From within a container, limits above it are out of sight. (kernel: \
          scheduler/sched-bwc.rst)",
    cost: Cost {
        us: 500.0,
        text: "the rest of the period, tens of ms, whenever the quota is used up; ranked at a hundredth where it never was, at a tenth where it was since boot",
        origin: "scheduler/sched-bwc.rst: the default period of 100 ms; the mean stop is this host's own",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let reading = &facts.cgroups().limits;
    let Some(limits) = reading.value() else { return Verdict::unread(reading) };
    let member = Cgroups::membership(facts, scope.pid);
    let within = |quota: &&Quota| member.value().is_some_and(|m| m.is_within(&quota.folder));
    let mut stopped: Vec<&Quota> =
        limits.quotas.iter().filter(|quota| quota.throttled.is_some_and(|n| n > 0)).collect();
    if !stopped.is_empty() {
        let tasks = on_latency_cpus(facts, scope);
        let matters = |quota: &Quota| {
            within(&quota) || tasks.iter().any(|member| member.is_within(&quota.folder))
        };
        // What matters goes first, then what was stopped for longest.
        stopped.sort_by_key(|quota| std::cmp::Reverse((matters(quota), quota.throttled_us)));
        return judge_stopped(&stopped, stopped.first().is_some_and(|quota| matters(quota)));
    }
    let own: Vec<&Quota> = limits.quotas.iter().filter(within).collect();
    if let Some(first) = own.first() {
        let verdict = Verdict::warn(format!(
            "a quota of {} ms per {} ms is waiting for a busy moment",
            first.quota_us / 1000,
            first.period_us / 1000
        ));
        return with_quotas(verdict, &own).fix(fix(first));
    }
    if let Some(quota) = limits.quotas.iter().find(|quota| quota.throttled.is_none()) {
        let title = format!("{}/cpu.stat does not tell whether it was stopped", quota.folder);
        return Verdict::unknown(title);
    }
    if let Some(why) = limits.incomplete() {
        return Verdict::unknown(why);
    }
    let all: Vec<&Quota> = limits.quotas.iter().collect();
    let verdict = match all.is_empty() {
        true => Verdict::pass(format!("none of {} control groups has a quota", limits.seen)),
        false => Verdict::pass(format!("none of {} quotas has stopped anyone", all.len())),
    };
    with_quotas(verdict, &all)
}

/// Where the programs stand that were put on latency CPUs.
fn on_latency_cpus(facts: &Facts, scope: &Scope) -> Vec<Membership> {
    let pids: BTreeSet<u32> = facts.tasks().confined_to(&scope.cpus).map(|task| task.pid).collect();
    let members = pids.iter().map(|pid| Cgroups::membership(facts, Some(*pid)));
    members.filter_map(|member| member.value().cloned()).collect()
}

/// On the quotas that stopped someone; whether the first is one of a group that matters here.
fn judge_stopped(stopped: &[&Quota], matters: bool) -> Verdict {
    let Some(worst) = stopped.first() else { return Verdict::unknown("no quota was given") };
    let title = format!(
        "{} stopped {} times by its quota{}",
        worst.folder,
        worst.throttled.unwrap_or_default(),
        match stopped.len() {
            1 => String::new(),
            more => format!(", and {} groups more", more - 1),
        }
    );
    let verdict = Verdict::fail_if(matters, title).costs_us(mean_us(worst) / 10.0);
    with_quotas(verdict, stopped).fix(fix(worst))
}

/// Mean time of one stop in microseconds. Time is summed over CPUs, so a stop of a group that ran
/// on several counts several times: the period bounds it.
fn mean_us(quota: &Quota) -> f64 {
    let stopped = quota.throttled.unwrap_or_default().max(1);
    let mean = quota.throttled_us.unwrap_or_default() as f64 / stopped as f64;
    mean.clamp(1.0, quota.period_us.max(1) as f64)
}

fn with_quotas(verdict: Verdict, quotas: &[&Quota]) -> Verdict {
    quotas.iter().take(8).fold(verdict, |verdict, quota| {
        verdict.evidence(
            &quota.folder,
            format!(
                "{} µs per {} µs, stopped {} times for {} ms",
                quota.quota_us,
                quota.period_us,
                quota.throttled.map_or("?".to_owned(), |times| times.to_string()),
                quota.throttled_us.map_or("?".to_owned(), |us| (us / 1000).to_string())
            ),
        )
    })
}

fn fix(quota: &Quota) -> String {
    let (file, value) = match quota.version {
        Version::One => ("cpu.cfs_quota_us", "-1"),
        Version::Two => ("cpu.max", "max"),
    };
    format!(
        "echo {value} > {}   # and take the limit out where it comes from: CPUQuota=, --cpus, resources.limits.cpu",
        quoted(&format!("{}/{file}", quota.folder))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_version_2_keeps_its_file_whatever_its_name() {
        let quota = Quota {
            folder: r"/sys/fs/cgroup/cpu\x2dhog.slice".to_owned(),
            version: Version::Two,
            ..Quota::default()
        };
        assert!(fix(&quota).starts_with(r"echo max > '/sys/fs/cgroup/cpu\x2dhog.slice/cpu.max' "));
    }

    #[test]
    fn the_mean_stop_is_no_longer_than_a_period() {
        let quota = |throttled, throttled_us| Quota {
            period_us: 100_000,
            throttled: Some(throttled),
            throttled_us: Some(throttled_us),
            ..Quota::default()
        };
        assert_eq!(mean_us(&quota(10, 400_000)), 40_000.0);
        assert_eq!(mean_us(&quota(1, u64::MAX)), 100_000.0);
        assert_eq!(mean_us(&quota(0, 0)), 1.0);
    }
}
