use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, power};

pub const CHECK: Check = Check {
    id: "freq.busy-vs-base",
    cause: Cause::Frequency,
    about: "A busy CPU runs at its rated frequency",
    why: "The only proof of a frequency is to count cycles while work is done. APERF counts what \
          the core really ran, MPERF what it would have run at its rated frequency, both only \
          while it is not idle: their growth compared is the frequency over base. Below 0.9 of \
          base while busy, something holds the core down: a governor, a power limit, heat, wide \
          vectors. An idle CPU is below it by right, so only CPUs that were busy at least half of \
          the probe count, and a probe without one decides nothing.",
    cost: Cost {
        us: 30.0,
        text: "all work takes longer, in proportion; when throttled 50–80 %",
        origin: "article on determinism, thermal throttling and failure 4 (alert below 0.9 of \
                 base)",
    },
    kind: Kind::Probe,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let cpus = scope.judged(facts);
    let ratio = |cpu: usize| {
        let find = |list: &[(usize, u64, u64)]| {
            list.iter().find(|(c, _, _)| *c == cpu).map(|(_, aperf, mperf)| (*aperf, *mperf))
        };
        power::over_base(find(&probe.first.aperf_mperf)?, find(&probe.second.aperf_mperf)?)
    };
    let busy = |cpu: &usize| probe.busy(*cpu).is_some_and(|busy| busy >= power::BUSY);
    let busy: CpuSet = cpus.iter().filter(busy).collect();
    if busy.is_empty() {
        return Verdict::unknown(
            "no CPU was busy during the probe: run it while the program works",
        );
    }
    let ratios: Vec<(usize, f64)> =
        busy.iter().filter_map(|cpu| Some((cpu, ratio(cpu)?))).collect();
    let Some((cpu, least)) = ratios.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Verdict::unknown(
            "APERF and MPERF cannot be read here (modprobe msr as root; a \
             hypervisor hides them)",
        );
    };
    let rated = facts.frequency().base(cpu).value().map_or(String::new(), |base| {
        format!(", {:.0} of {} MHz", least * base.khz as f64 / 1000.0, base.khz / 1000)
    });
    let evidence = format!("{least:.2} of base on CPU {cpu}{rated}");
    let slow: CpuSet =
        ratios.iter().filter(|(_, r)| *r < power::ALERT_BELOW).map(|(cpu, _)| *cpu).collect();
    let uncounted = busy.len() - ratios.len();
    match slow.is_empty() {
        true if uncounted > 0 => {
            Verdict::unknown(format!("the cycles of {uncounted} busy CPUs could not be counted"))
        }
        true => Verdict::pass(format!("busy CPUs {busy} run at {least:.2} of base or more")),
        false => Verdict::fail_if(
            scope.is_declared(),
            format!("busy CPUs {slow} run below 0.9 of base, at {least:.2}"),
        ),
    }
    .evidence("APERF/MPERF, grown", evidence)
    .fix(
        "see freq.governor, freq.limit, freq.powercap and thermal.throttling-now for what holds \
         it down",
    )
}
