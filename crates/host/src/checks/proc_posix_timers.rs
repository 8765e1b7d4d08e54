use quietcore_facts::Facts;
use quietcore_facts::process::TimerClock;
use quietcore_measure::{Cause, CpuSet};

use crate::subject::{Subject, unread};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.posix-timers",
    cause: Cause::Tick,
    about: "No timer on CPU time keeps the tick of nohz_full CPUs on",
    why: "A POSIX timer on CPU time (CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID: what \
          profilers set) is counted by the tick, so while one is armed the tick stays on for every \
          thread it covers. A timer on real time, SIGALRM among them, is a high-resolution timer: \
          it fires on time without a tick. /proc/P/timers tells the clocks, not whether a timer \
          is armed, so one on CPU time is a warning; with --probe the ticks that arrive decide. \
          Timers of setitimer(ITIMER_PROF) are listed nowhere. A limit on CPU time (ulimit -t) \
          works the same way.",
    cost: Cost {
        us: 3.0,
        text: "1–5 µs per tick, 250 or 1000 times a second",
        origin: "article on isolation, noise source 1 (its failure 3 is about these timers)",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let subject = match Subject::of(facts, scope) {
        Ok(subject) => subject,
        Err(verdict) => return verdict,
    };
    let none = CpuSet::new();
    let nohz_full = facts.cpus().nohz_full.value().unwrap_or(&none);
    let threads = subject.threads.iter().filter(|t| t.task.affinity.intersects(nohz_full));
    let on = threads.fold(CpuSet::new(), |all, t| all.or(&t.task.affinity.and(nohz_full)));
    if on.is_empty() {
        return Verdict::not_applicable("no thread of the process may run on a nohz_full CPU");
    }
    let reading = &subject.process.timers;
    let Some(timers) = reading.value() else { return unread(reading) };
    let source = format!("/proc/{}/timers", facts.pid().unwrap_or_default());
    let of_cpu = timers.iter().filter(|clock| matches!(clock, TimerClock::Cpu(_))).count();
    let limit = subject.process.cpu_seconds.value().copied().flatten();
    if of_cpu == 0 && limit.is_none() {
        return Verdict::pass(format!("none of {} POSIX timers counts CPU time", timers.len()))
            .evidence(source, format!("{} timers on real time", timers.len()));
    }
    let what = match limit {
        Some(seconds) if of_cpu == 0 => format!("a limit of {seconds} s of CPU time"),
        _ => format!("{of_cpu} of {} POSIX timers count CPU time", timers.len()),
    };
    let (verdict, ticks) = match ticking(facts, &on) {
        None => {
            (Verdict::warn(format!("{what}: while armed, the tick stays on (CPUs {on})")), None)
        }
        Some(ticks) if ticks.is_empty() => {
            (Verdict::pass(format!("{what}, and yet no tick arrives on CPUs {on}")), None)
        }
        Some(ticks) => {
            let cpus: CpuSet = ticks.iter().map(|(cpu, _)| *cpu).collect();
            (Verdict::fail(format!("{what}, and the tick stays on (CPUs {cpus})")), Some(ticks))
        }
    };
    let verdict = verdict.evidence(source, &what);
    let verdict = ticks.into_iter().flatten().fold(verdict, |verdict, (cpu, rate)| {
        verdict.evidence("/proc/interrupts LOC", format!("{rate:.0} per second on CPU {cpu}"))
    });
    verdict.fix(
        "in the program: timer_create() or timerfd_create() with CLOCK_MONOTONIC; stop the profiler; ulimit -t unlimited",
    )
}

/// CPUs that got more than 50 local timer interrupts a second, of those that were busy; `None`
/// without a probe, or where it saw none of them busy.
fn ticking(facts: &Facts, cpus: &CpuSet) -> Option<Vec<(usize, f64)>> {
    let probe = facts.probe()?;
    let seconds = probe.took().0 as f64 / 1e9;
    let busy = cpus.iter().filter(|cpu| probe.busy(*cpu).is_some_and(|busy| busy >= 0.5));
    let rates: Vec<(usize, f64)> = busy
        .filter_map(|cpu| Some((cpu, probe.interrupts("LOC", cpu)? as f64 / seconds)))
        .collect();
    (!rates.is_empty()).then(|| rates.into_iter().filter(|(_, rate)| *rate > 50.0).collect())
}
