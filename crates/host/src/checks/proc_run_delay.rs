use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::Cause;
use quietcore_sys::host::ThreadCounters;

use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.run-delay",
    cause: Cause::Scheduler,
    about: "The threads that matter do not wait for a CPU",
    why: "/proc/T/schedstat adds up how long a thread was runnable and did not run. It is the \
          time that a profiler of CPU time cannot show. Judged while probed, else since the \
          thread's start; more than 1 % of the time it wanted a CPU is too much for one that has \
          a CPU of its own. The mean per turn is in the evidence; the worst is not recorded \
          anywhere and needs a trace.",
    cost: Cost {
        us: 200.0,
        text: "50–500 µs per wait; the mean of this host is in the evidence",
        origin: "article on profiling, the off-CPU gap; the limit of 1 %: judgement",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

const LIMIT: f64 = 0.01;

/// What a thread ran, waited, and how often it got a CPU.
struct Waits {
    ran_ns: u64,
    waited_ns: u64,
    slices: u64,
}

impl Waits {
    fn of(first: Option<&ThreadCounters>, last: &ThreadCounters) -> Option<Self> {
        let grew = |counter: fn(&ThreadCounters) -> Option<u64>| {
            counter(last)?.checked_sub(first.map_or(Some(0), counter)?)
        };
        Some(Self {
            ran_ns: grew(|c| c.ran_ns)?,
            waited_ns: grew(|c| c.waited_ns)?,
            slices: grew(|c| c.slices)?,
        })
    }

    fn share(&self) -> f64 {
        let all = self.ran_ns as f64 + self.waited_ns as f64;
        if all > 0.0 { self.waited_ns as f64 / all } else { 0.0 }
    }

    fn mean_us(&self) -> f64 {
        self.waited_ns as f64 / self.slices.max(1) as f64 / 1e3
    }
}

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let subject = match Subject::of(facts, scope) {
        Ok(subject) => subject,
        Err(verdict) => return verdict,
    };
    let critical = match subject.critical_or() {
        Ok(critical) => critical,
        Err(verdict) => return verdict,
    };
    let waits = |thread: &Thread| match facts.probe() {
        Some(probe) => {
            let [first, second] = probe.thread(thread.task.tid)?;
            Waits::of(Some(&first), &second)
        }
        None => Waits::of(None, thread.counters.as_ref()?),
    };
    let known: Vec<(&Thread, Waits)> =
        critical.iter().filter_map(|thread| Some((*thread, waits(thread)?))).collect();
    if known.is_empty() {
        return Verdict::unknown("the kernel does not count run-queue waits (CONFIG_SCHED_INFO)");
    }
    let waiting: Vec<&Thread> =
        known.iter().filter(|(_, w)| w.share() > LIMIT).map(|(thread, _)| *thread).collect();
    let worst = known.iter().map(|(_, waits)| waits.mean_us()).fold(0.0, f64::max);
    let verdict = match waiting.is_empty() {
        true => Verdict::pass(format!(
            "{} threads that matter wait for a CPU less than 1 % of the time they want one",
            known.len()
        )),
        false => Verdict::fail_if(
            scope.is_declared(),
            format!("waiting for a CPU, {worst:.0} µs a turn: {}", names(&waiting)),
        )
        .costs_us(worst),
    };
    let verdict = known.iter().fold(verdict, |verdict, (thread, waits)| {
        verdict.evidence(
            format!("/proc/{}/schedstat", thread.task.tid),
            format!(
                "{}: waited {:.2} % of the time it wanted a CPU, {:.1} µs a turn",
                thread.task.name,
                waits.share() * 100.0,
                waits.mean_us()
            ),
        )
    });
    verdict.fix("give each of these threads a CPU of its own: isolcpus=, then taskset -pc CPU TID")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_between_two_readings_or_since_the_start() {
        let at = |ran, waited, slices| ThreadCounters {
            ran_ns: Some(ran),
            waited_ns: Some(waited),
            slices: Some(slices),
            ..ThreadCounters::default()
        };
        let waits = Waits::of(Some(&at(100, 10, 1)), &at(400, 110, 3)).unwrap();
        assert_eq!((waits.share(), waits.mean_us()), (0.25, 0.05));
        assert_eq!(Waits::of(None, &at(0, 0, 0)).unwrap().share(), 0.0);
        assert!(Waits::of(Some(&at(9, 9, 9)), &at(1, 1, 1)).is_none(), "backwards");
        assert!(Waits::of(None, &ThreadCounters::default()).is_none(), "not counted");
    }
}
