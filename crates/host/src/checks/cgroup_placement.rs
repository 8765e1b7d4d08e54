use quietcore_facts::{Cgroups, Facts};
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cgroup.placement",
    cause: Cause::Cgroup,
    about: "The cpuset allows the CPUs meant for latency",
    why: "A process can only be pinned to CPUs that its cpuset allows: taskset to others fails, a \
          mixed list is silently cut down, and a change of the cpuset later moves the threads. \
          Container runtimes and AllowedCPUs= of systemd set cpusets. Judged is the group of the \
          process that --pid names; without it the audit's own, which tells of programs started \
          the same way, and is a warning only. Read from cpuset.cpus.effective of the nearest \
          group that has it (version 1: cpuset.effective_cpus). (kernel: \
          admin-guide/cgroup-v2.rst, cpuset)",
    cost: Cost {
        us: 200.0,
        text: "the process shares CPUs with everything else: 50–500 µs per other task",
        origin: "article on isolation, cpusets; article on determinism, taxonomy",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let member = Cgroups::membership(facts, scope.pid);
    let Some(member) = member.value() else { return Verdict::unread(&member) };
    let reading = facts.cgroups().cpus_of(facts, member);
    let Some((file, cpus)) = reading.value() else { return Verdict::unread(&reading) };
    let missing = scope.cpus.minus(cpus);
    let verdict = match missing.is_empty() {
        true => Verdict::pass(format!("the cpuset allows CPUs {}", scope.cpus)),
        false => Verdict::fail_if(
            scope.pid.is_some(),
            format!("the cpuset does not allow CPUs {missing}"),
        ),
    };
    verdict.evidence(file, cpus).fix(format!(
        "allow them where the cpuset comes from: AllowedCPUs= of the unit, --cpuset-cpus of the container ({})",
        cpus.or(&scope.cpus)
    ))
}
