use quietcore_facts::{Facts, Probe};
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "tick.busy-cpu",
    cause: Cause::Tick,
    about: "The tick is silent on busy CPUs meant for latency",
    why: "That a CPU is listed in nohz_full does not stop its tick: a second runnable task, a \
          CPU-time timer, a perf event or RCU keeps it on. The proof is the local timer interrupt \
          count (LOC in /proc/interrupts) of a CPU that was busy all the while: an idle CPU has \
          no tick either way and proves nothing. Silent is below a tenth of CONFIG_HZ a second, \
          ticking above half of it; in between something else sets timers there. A program that \
          arms timers itself counts, too: the interrupts are the same.",
    cost: Cost {
        us: 3.0,
        text: "1–5 µs per tick, 250 or 1000 times a second",
        origin: "article on isolation, noise source 1; its cpuidle test for the tick proves nothing",
    },
    kind: Kind::Probe,
    needs: Needs::Cpus,
    judge,
};

/// Share of the time a CPU must be busy to prove anything.
const BUSY: f64 = 0.9;
/// What a kernel has whose configuration cannot be read: the lowest HZ that is sold.
const LOWEST_HZ: u64 = 100;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let seconds = probe.took().0 as f64 / 1e9;
    if seconds < 0.1 {
        return Verdict::unknown("the time between the two readings is not known");
    }
    let hz = facts.kernel().hz.unwrap_or(LOWEST_HZ) as f64;
    let rates: Vec<(usize, f64)> = scope
        .cpus
        .iter()
        .filter(|cpu| probe.busy(*cpu).is_some_and(|share| share >= BUSY))
        .filter_map(|cpu| Some((cpu, rate(probe, cpu, seconds)?)))
        .collect();
    if rates.is_empty() {
        return Verdict::unknown(format!(
            "none of CPUs {} was busy for {:.0} % of the time: an idle CPU proves nothing",
            scope.cpus,
            BUSY * 100.0
        ));
    }
    let names = |wanted: &dyn Fn(f64) -> bool| {
        let cpus = rates.iter().filter(|(_, rate)| wanted(*rate)).map(|(cpu, _)| *cpu);
        cpus.collect::<quietcore_measure::CpuSet>()
    };
    let ticking = names(&|rate| rate > hz / 2.0);
    let noisy = names(&|rate| rate > hz / 10.0 && rate <= hz / 2.0);
    let busy = names(&|_| true);
    let verdict = if !ticking.is_empty() {
        Verdict::fail(format!("the tick goes on on busy CPUs {ticking}"))
    } else if !noisy.is_empty() {
        Verdict::warn(format!("timers keep interrupting busy CPUs {noisy}"))
    } else {
        Verdict::pass(format!("the tick is silent on busy CPUs {busy}"))
    };
    let idle = scope.cpus.minus(&busy);
    let verdict = rates.iter().take(16).fold(verdict, |verdict, (cpu, rate)| {
        verdict.evidence(format!("LOC on CPU {cpu}"), format!("{rate:.1} a second"))
    });
    let verdict = match idle.is_empty() {
        true => verdict,
        false => verdict.evidence("not busy, nothing proven", idle),
    };
    verdict.fix("leave one thread per CPU: quietcore audit shows who else is there (sched.runnable); timer:tick_stop tells what holds the tick")
}

fn rate(probe: &Probe, cpu: usize, seconds: f64) -> Option<f64> {
    Some(probe.interrupts("LOC", cpu)? as f64 / seconds)
}
