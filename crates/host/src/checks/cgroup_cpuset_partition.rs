use quietcore_facts::Facts;
use quietcore_facts::cgroups::Partition;
use quietcore_measure::Cause;

use crate::remedy::quoted;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cgroup.cpuset-partition",
    cause: Cause::Cgroup,
    about: "Cpuset partitions that were asked for are valid",
    why: "Writing `isolated` to cpuset.cpus.partition takes a group's CPUs out of the scheduler's \
          domains at run time, as isolcpus= does at boot. The write succeeds even where the \
          partition cannot be: the file then reads `isolated invalid (…)` with the reason, and \
          nothing is isolated. `root` gives a group its own domain, in which tasks are still \
          balanced. A partition may turn invalid later, by CPU hotplug or a change above it. Making \
          one moves every thread of the groups around it to the CPUs that are left, those of \
          isolcpus= included: sched.tasks-on-isolated and rcu.rcuo-placement find them. (kernel: admin-guide/cgroup-v2.rst, cpuset)",
    cost: Cost {
        us: 200.0,
        text: "no isolation: 50–500 µs whenever the scheduler places another task there",
        origin: "article on determinism, taxonomy",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let reading = &facts.cgroups().limits;
    let Some(limits) = reading.value() else { return Verdict::unread(reading) };
    let partitions = &limits.partitions;
    if partitions.is_empty() {
        return match limits.incomplete() {
            Some(why) => Verdict::unknown(why),
            None => Verdict::not_applicable("no control group is a cpuset partition"),
        };
    }
    let invalid: Vec<&Partition> =
        partitions.iter().filter(|partition| partition.state.contains("invalid")).collect();
    let balanced: Vec<&Partition> = partitions
        .iter()
        .filter(|p| p.state == "root" && p.cpus.len() > 1 && p.cpus.intersects(&scope.cpus))
        .collect();
    let names = |list: &[&Partition]| {
        list.iter().map(|partition| partition.folder.as_str()).collect::<Vec<_>>().join(", ")
    };
    let verdict = if !invalid.is_empty() {
        Verdict::fail(format!("{} is no valid partition", names(&invalid)))
    } else if !balanced.is_empty() {
        Verdict::warn(format!("tasks are still balanced within {}", names(&balanced)))
    } else {
        Verdict::pass(format!("valid cpuset partitions: {}", partitions.len()))
    };
    let verdict = partitions.iter().take(8).fold(verdict, |verdict, partition| {
        verdict.evidence(
            format!("{}/cpuset.cpus.partition", partition.folder),
            format!("{} (CPUs {})", partition.state, partition.cpus),
        )
    });
    let folder = invalid.first().or(balanced.first()).map_or("", |p| p.folder.as_str());
    let file = quoted(&format!("{folder}/cpuset.cpus.partition"));
    verdict.fix(format!(
        "give no other group CPUs of this one, then: echo isolated > {file}; cat {file}"
    ))
}
