use quietcore_facts::Facts;
use quietcore_facts::process::Thread;
use quietcore_measure::{Cause, CpuSet};

use super::sched_rt_throttling::{PERIOD, RUNTIME};
use super::{sched_fair_server, sched_rt_throttling};
use crate::subject::{Subject, names};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.fifo-throttled",
    cause: Cause::Scheduler,
    about: "Nothing takes 50 ms of each second from a real-time thread that spins",
    why: "SCHED_FIFO does not make a spinning thread deterministic by itself: by default the \
          kernel gives real-time tasks 950 ms of every second of a CPU and stops them for the \
          rest (sched_rt_runtime_us of sched_rt_period_us), whether anybody else wants the CPU or \
          not. Kernel 6.12 replaced that by a deadline server, which takes its 50 ms only while \
          an ordinary task waits; debugfs tells its runtime per CPU. Only a thread that hardly \
          ever sleeps meets either limit, so one that is not seen spinning is a warning.",
    cost: Cost {
        us: 500.0,
        text: "50 ms in every second of a thread that spins; ranked at a hundredth where none is seen to",
        origin: "measured with a SCHED_FIFO spinner; sched-rt-group.rst",
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
    let realtime: Vec<&Thread> =
        subject.threads.iter().filter(|t| matches!(t.task.policy, 1 | 2)).collect();
    if realtime.is_empty() {
        return Verdict::not_applicable("no thread of the process is SCHED_FIFO or SCHED_RR");
    }
    match facts.kernel().version() {
        (0, _) => Verdict::unknown("the kernel's version is unknown, and the rule depends on it"),
        version if version >= (6, 12) => fair_server(&subject, &realtime),
        _ => throttling(&subject, &realtime),
    }
}

fn throttling(subject: &Subject, realtime: &[&Thread]) -> Verdict {
    let (runtime, period) = match sched_rt_throttling::limit(subject.facts) {
        Ok(limit) => limit,
        Err(error) => return Verdict::unknown(error.to_string()),
    };
    if sched_rt_throttling::is_off(runtime, period) {
        return Verdict::pass("real-time threads are not throttled").evidence(RUNTIME, runtime);
    }
    let takes = period.saturating_sub(runtime);
    let limit = runtime as f64 / period as f64;
    let near = |t: &&&Thread| subject.share(t).is_some_and(|share| share >= limit - 0.05);
    let spinning: Vec<&Thread> = realtime.iter().filter(near).copied().collect();
    let verdict = match spinning.is_empty() {
        false => Verdict::fail(format!(
            "{} spin in a real-time class and are stopped for {takes} µs of every {period} µs",
            names(&spinning)
        )),
        true => Verdict::warn(format!(
            "{} would be stopped for {takes} µs of every {period} µs once they spin",
            names(realtime)
        )),
    };
    subject
        .evidence(verdict.evidence(RUNTIME, runtime).evidence(PERIOD, period), realtime)
        .costs_us(if spinning.is_empty() { takes as f64 / 100.0 } else { takes as f64 })
        .fix(format!(
            "echo -1 > {RUNTIME}   # a real-time thread that never sleeps then holds its CPU for good: isolate it first"
        ))
}

fn fair_server(subject: &Subject, realtime: &[&Thread]) -> Verdict {
    let cpus = realtime.iter().fold(CpuSet::new(), |all, t| all.or(&t.task.affinity));
    let online = cpus.and(&subject.facts.cpus().online);
    let (serving, longest) = match sched_fair_server::serving(subject.facts, &online) {
        Ok(found) => found,
        Err(error) => {
            return Verdict::unknown(format!("the deadline server's runtime is unknown ({error})"));
        }
    };
    if serving.is_empty() {
        return Verdict::pass(format!("no deadline server takes time on CPUs {online}"));
    }
    let verdict = Verdict::warn(format!(
        "{} may lose {} ms of a second to the deadline server on CPUs {serving} while an ordinary task waits there",
        names(realtime),
        longest / 1_000_000
    ));
    subject.evidence(verdict, realtime).fix(format!(
        "for cpu in {}; do echo 0 > /sys/kernel/debug/sched/fair_server/cpu$cpu/runtime; done",
        serving.iter().map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(" ")
    ))
}
