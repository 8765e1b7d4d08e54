use quietcore_facts::Facts;
use quietcore_facts::cgroups::Quota;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cgroup.throttled-now",
    cause: Cause::Cgroup,
    about: "No group of processes is being stopped by a quota of CPU time now",
    why: "The counts that cgroup.cpu-max reads may be old: a start-up that used up its quota once. \
          Here nr_throttled of cpu.stat is read twice; a group whose count grew in between was \
          stopped while we looked. A group that is idle during the probe proves nothing for its \
          busy hours. (kernel: scheduler/sched-bwc.rst)",
    cost: Cost {
        us: 50_000.0,
        text: "the rest of the period, tens of ms, whenever the quota is used up",
        origin: "scheduler/sched-bwc.rst: the default period of 100 ms",
    },
    kind: Kind::Probe,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let reading = &facts.cgroups().limits;
    let Some(limits) = reading.value() else { return Verdict::unread(reading) };
    let (Some(first), Some(second)) = (&probe.first.quotas, &probe.second.quotas) else {
        return Verdict::unknown("the control groups could not be read twice");
    };
    if second.is_empty() && first.is_empty() {
        return match limits.incomplete() {
            Some(why) => Verdict::unknown(why),
            None => Verdict::pass("no control group has a quota of CPU time"),
        };
    }
    let grew = |now: &Quota| {
        let before = first.iter().find(|quota| quota.folder == now.folder)?;
        let times = now.throttled?.checked_sub(before.throttled?).filter(|times| *times > 0)?;
        let us = now.throttled_us.zip(before.throttled_us);
        let us = us.map_or(0, |(now, before)| now.saturating_sub(before));
        Some((now.folder.clone(), times, us))
    };
    let growing: Vec<(String, u64, u64)> = second.iter().filter_map(grew).collect();
    let Some((folder, times, us)) = growing.first() else {
        let untold = first.iter().chain(second).find(|quota| quota.throttled.is_none());
        if let Some(quota) = untold {
            return Verdict::unknown(format!("{}/cpu.stat does not tell", quota.folder));
        }
        if let Some(why) = limits.incomplete() {
            return Verdict::unknown(why);
        }
        return Verdict::pass(format!("none of {} quotas stopped anyone meanwhile", second.len()));
    };
    let title = format!("{folder} was stopped {times} times while we looked");
    let verdict = Verdict::fail(title).costs_us((us / times).max(1) as f64);
    let verdict = growing.iter().take(8).fold(verdict, |verdict, (folder, times, us)| {
        verdict.evidence(
            format!("{folder}/cpu.stat"),
            format!("nr_throttled grew by {times}, for {} ms", us / 1000),
        )
    });
    verdict.fix("take the limit out where it comes from: CPUQuota= of the unit, --cpus of the container, resources.limits.cpu of the pod")
}
