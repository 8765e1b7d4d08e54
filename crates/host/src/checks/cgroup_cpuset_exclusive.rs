use quietcore_facts::Facts;
use quietcore_facts::cgroups::Cpuset;
use quietcore_measure::Cause;

use crate::remedy::quoted;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cgroup.cpuset-exclusive",
    cause: Cause::Cgroup,
    about: "A cpuset for latency (version 1) has its CPUs to itself",
    why: "A cpuset of version 1 keeps its own tasks in, not others out: without \
          cpuset.cpu_exclusive another set may name the same CPUs, and everything that stayed in \
          the root set may run there, too. So the set for latency should be exclusive, no set \
          beside it may share its CPUs, and the scheduler must not balance across them: \
          isolcpus=, or sched_load_balance=0 in the root set and in the set for latency. A \
          hierarchy that is mounted elsewhere than /sys/fs/cgroup/cpuset is not seen. (kernel: \
          admin-guide/cgroup-v1/cpusets.rst)",
    cost: Cost {
        us: 200.0,
        text: "50–500 µs whenever the scheduler places another task there",
        origin: "article on isolation, cpusets; article on determinism, taxonomy",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let reading = &facts.cgroups().limits;
    let Some(limits) = reading.value() else { return Verdict::unread(reading) };
    let Some((root, below)) = limits.cpusets.split_first() else {
        return Verdict::not_applicable("no cpuset hierarchy of version 1");
    };
    let for_latency = |set: &&Cpuset| !set.cpus.is_empty() && set.cpus.is_subset(&scope.cpus);
    let own: Vec<&Cpuset> = below.iter().filter(for_latency).collect();
    if own.is_empty() {
        return Verdict::not_applicable("no cpuset is for latency CPUs alone");
    }
    let isolated = scope.cpus.is_subset(&facts.isolation().domain);
    let mut wrong = Vec::new();
    for set in &own {
        if !set.exclusive {
            wrong.push(format!("{} is not exclusive", set.folder));
        }
        if !isolated && (root.balanced || (set.balanced && set.cpus.len() > 1)) {
            wrong.push(format!("tasks are balanced to the CPUs of {}", set.folder));
        }
        let other = |other: &&Cpuset| {
            other.cpus.intersects(&set.cpus) && !within(other, set) && !within(set, other)
        };
        wrong.extend(below.iter().filter(other).map(|other| {
            format!("{} shares CPUs {} with it", other.folder, other.cpus.and(&set.cpus))
        }));
    }
    let verdict = match (wrong.is_empty(), limits.incomplete()) {
        (true, Some(why)) => Verdict::unknown(why),
        (true, None) => Verdict::pass("cpusets for latency have their CPUs to themselves"),
        (false, _) => Verdict::fail(wrong.join("; ")),
    };
    let verdict = own.iter().take(8).fold(verdict, |verdict, set| {
        verdict.evidence(
            &set.folder,
            format!(
                "cpus {}, cpu_exclusive {}, sched_load_balance {}",
                set.cpus,
                u8::from(set.exclusive),
                u8::from(set.balanced)
            ),
        )
    });
    let folder = own.first().map_or("", |set| set.folder.as_str());
    verdict.fix_onto(&scope.housekeeping(facts), |keep| {
        format!(
            "keep other sets to CPUs {keep}, then: echo 1 > {}; echo 0 > {}",
            quoted(&format!("{folder}/cpuset.cpu_exclusive")),
            quoted(&format!("{}/cpuset.sched_load_balance", root.folder))
        )
    })
}

/// Whether a set is below another, or the same.
fn within(set: &Cpuset, above: &Cpuset) -> bool {
    let rest = set.folder.strip_prefix(&above.folder);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
