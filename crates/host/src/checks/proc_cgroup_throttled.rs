use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::CpuLimit;

use crate::remedy::quoted;
use crate::subject::unread;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.cgroup-throttled",
    cause: Cause::Cgroup,
    about: "No control group of the process runs out of CPU time",
    why: "cpu.max (cpu.cfs_quota_us in version 1) gives a group so much CPU time per period, \
          usually 100 ms, for all its threads together; when it is used up they all stop until \
          the next period begins. A few busy threads use up a container's limit in a part of the \
          period and then stand still, with the CPUs idle beside them. The limit of any group \
          above counts as well. nr_throttled says how often it happened since the group was made; \
          with --probe, whether it happens now.",
    cost: Cost {
        us: 500.0,
        text: "up to a whole period, 100 ms, each time; ranked at a hundredth where it never happened, at a tenth where it did once",
        origin: "scheduler/sched-bwc.rst",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let process = facts.process();
    let Some(groups) = process.cpu_limits.value() else { return unread(&process.cpu_limits) };
    let limited: Vec<&CpuLimit> = groups.iter().filter(|group| group.quota_us.is_some()).collect();
    let nested = facts.cgroups().limits.value().is_some_and(|limits| limits.nested);
    let Some(tightest) = limited.first() else {
        if nested {
            return Verdict::unknown(
                "no limit within this container; those above it are out of sight",
            );
        }
        return Verdict::pass(match groups.len() {
            0 => "the process is in no group that could limit its CPU time".to_owned(),
            count => format!("none of {count} control groups limits its CPU time"),
        });
    };
    let now = |group: &&&CpuLimit| {
        let probe = facts.probe()?;
        let find =
            |limits: &[CpuLimit]| limits.iter().find(|limit| limit.group == group.group)?.throttled;
        let [first, second] = [&probe.first, &probe.second].map(|c| find(&c.process.cpu_limits));
        second?.checked_sub(first?)
    };
    let stopped_now = limited.iter().filter_map(|group| now(&group)).fold(0, u64::saturating_add);
    let count = |group: &CpuLimit| group.throttled.unwrap_or_default();
    let stopped: Vec<&&CpuLimit> = limited.iter().filter(|group| count(group) > 0).collect();
    let verdict = match stopped.first() {
        _ if stopped_now > 0 => Verdict::fail(format!(
            "its control group ran out of CPU time {stopped_now} times while watched"
        ))
        .costs_us(stopped.first().map_or(50_000.0, |group| mean_us(group))),
        Some(group) => Verdict::fail(format!(
            "its control group ran out of CPU time {} times since it was made",
            count(group)
        ))
        .costs_us(mean_us(group) / 10.0),
        None if limited.iter().any(|group| group.throttled.is_none()) => Verdict::fail_if(
            scope.is_declared(),
            "its control group limits CPU time, and cpu.stat does not tell whether it ran out",
        ),
        None => Verdict::fail_if(
            scope.is_declared(),
            "its control group limits CPU time, though it never ran out",
        ),
    };
    let verdict = limited.iter().fold(verdict, |verdict, group| {
        verdict.evidence(
            &group.group,
            format!(
                "{} of {} µs, throttled {} times for {} µs in all",
                group.quota_us.unwrap_or_default(),
                group.period_us,
                told(group.throttled),
                told(group.throttled_us)
            ),
        )
    });
    let group = stopped.first().map_or(&tightest.group, |group| &group.group);
    verdict.fix(format!(
        "echo max > {}   # version 1: echo -1 > {}; in Kubernetes: no CPU limit, or the static CPU manager",
        quoted(&format!("{group}/cpu.max")),
        quoted(&format!("{group}/cpu.cfs_quota_us"))
    ))
}

fn told(count: Option<u64>) -> String {
    count.map_or("?".to_owned(), |count| count.to_string())
}

/// Mean time of one stop in microseconds; time is summed over CPUs, so the period bounds it.
fn mean_us(group: &CpuLimit) -> f64 {
    let times = group.throttled.unwrap_or_default().max(1);
    let mean = group.throttled_us.unwrap_or_default() as f64 / times as f64;
    mean.clamp(1.0, group.period_us.max(1) as f64)
}
