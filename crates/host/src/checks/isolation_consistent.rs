use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};

use crate::remedy::edit_boot_line;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "isolation.consistent",
    cause: Cause::Scheduler,
    about: "isolcpus=, nohz_full= and rcu_nocbs= name the same CPUs",
    why: "Each of the three removes one source of noise, and a CPU that one of them forgets keeps \
          that source. Before Linux 5.18 the kernel also drops the whole second parameter where \
          isolcpus= and nohz_full= differ (`Housekeeping: nohz_full= must match isolcpus=`). What \
          is compared is what took effect, and what was asked for where the kernel does not show \
          it. More CPUs in rcu_nocbs= than elsewhere do no harm, and nohz_full= brings rcu_nocbs= \
          along. CPUs that the boot line leaves out but a cpuset partition isolates count as \
          isolated.",
    cost: Cost {
        us: 30.0,
        text: "ticks of 1–5 µs, RCU callbacks of 10–50 µs on the CPUs that were forgotten",
        origin: "article on isolation, production failure 4",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let boot = facts.boot();
    let isolation = facts.isolation();
    let asked =
        |set: Option<&Result<CpuSet, String>>| set.and_then(|set| set.as_ref().ok().cloned());
    let (kept, isolated) = match isolation.domain.is_empty() {
        true => ("named by isolcpus=", asked(boot.isolcpus.as_ref().map(|i| &i.request.cpus))),
        false => ("isolated", Some(isolation.domain.clone())),
    };
    let tickless = match isolation.tickless.is_empty() {
        true => asked(boot.nohz_full.as_ref().map(|request| &request.cpus)),
        false => Some(isolation.tickless.clone()),
    };
    let nocbs = asked(boot.rcu_nocbs.as_ref().map(|request| &request.cpus));
    let mut gaps: Vec<String> = Vec::new();
    if let (Some(isolated), Some(tickless)) = (&isolated, &tickless) {
        gaps.extend(gap(kept, isolated, "in nohz_full", tickless));
        gaps.extend(gap("in nohz_full", tickless, kept, isolated));
    }
    if let Some(nocbs) = &nocbs {
        let all = nocbs.or(tickless.as_ref().unwrap_or(&CpuSet::new()));
        let wanted = isolated.as_ref().unwrap_or(&all);
        gaps.extend(gap(kept, wanted, "in rcu_nocbs", &all));
    }
    let refused = isolation.complaints.iter().find(|line| line.contains("must match"));
    if let Some(line) = refused {
        gaps.push(format!("the kernel dropped one of them ({line})"));
    }
    let compared = [isolated.is_some(), tickless.is_some(), nocbs.is_some()];
    if gaps.is_empty() && compared.iter().filter(|there| **there).count() < 2 {
        return Verdict::not_applicable(
            "fewer than two of isolcpus=, nohz_full= and rcu_nocbs= are there",
        );
    }
    let verdict = match gaps.is_empty() {
        true => Verdict::pass("isolcpus=, nohz_full= and rcu_nocbs= name the same CPUs"),
        false => Verdict::fail(format!("the boot line is not of one mind: {}", gaps.join("; "))),
    };
    let show = |set: &Option<CpuSet>| set.as_ref().map_or("-".to_owned(), ToString::to_string);
    let cpus = scope.cpus.to_string();
    verdict
        .evidence(kept, show(&isolated))
        .evidence("nohz_full", show(&tickless))
        .evidence("rcu_nocbs", show(&nocbs))
        .fix(edit_boot_line(
            facts,
            &format!("write isolcpus=managed_irq,domain,{cpus} nohz_full={cpus} rcu_nocbs={cpus}"),
        ))
}

fn gap(what: &str, set: &CpuSet, lacks: &str, other: &CpuSet) -> Option<String> {
    let missing = set.minus(other);
    (!missing.is_empty()).then(|| format!("CPUs {missing} are {what}, but not {lacks}"))
}
