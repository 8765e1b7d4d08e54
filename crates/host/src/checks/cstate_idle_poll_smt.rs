use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cstate.idle-poll-smt",
    cause: Cause::CState,
    about: "No idle CPU polls on the core of another",
    why: "idle=poll (or every sleep state switched off) makes an idle CPU spin. Where a core runs \
          two threads, the spinning sibling takes its share of the front end all day, and the \
          thread that matters runs slower than beside a sleeping one. All packages also run hot, \
          which lowers turbo and brings throttling closer. Where SMT is off, or siblings are \
          offline, polling costs only power.",
    cost: Cost {
        us: 1.0,
        text: "instructions on the core take longer all the time; the share depends on the program",
        origin: "kernel: admin-guide/kernel-parameters (idle=poll runs hot, \"not recommended\"); \
                 article on C-states (heat)",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let idle = facts.idle();
    let by_boot = facts.boot().value("idle") == Some("poll") && idle.states.is_empty();
    let polls = |cpu: usize| by_boot || idle.only_polls(cpu);
    let shared =
        |cpu: &usize| {
            facts.cpus().topology.get(cpu).is_some_and(|place| {
                place.siblings.iter().any(|other| other != *cpu && polls(other))
            })
        };
    let polling: CpuSet = facts.cpus().online.iter().filter(|cpu| polls(*cpu)).collect();
    if polling.is_empty() && !facts.boot().known {
        return Verdict::unknown("/proc/cmdline could not be read: idle=poll may stand there");
    }
    if polling.is_empty() && !idle.states.is_empty() && !idle.told(&facts.cpus().online) {
        return Verdict::unknown("the idle states of some CPUs could not be read");
    }
    if polling.is_empty() {
        return Verdict::pass("idle CPUs do not poll");
    }
    let slowed: CpuSet = scope.judged(facts).iter().filter(shared).collect();
    let how = match by_boot {
        true => ("/proc/cmdline", "idle=poll".to_owned()),
        false => ("cpuidle/state*/disable and PM QoS", format!("CPUs {polling} may only poll")),
    };
    if slowed.is_empty() {
        return Verdict::pass("idle CPUs poll, and no core has a second thread to slow down")
            .evidence(how.0, how.1);
    }
    Verdict::warn(format!("CPUs {slowed} share their cores with idle threads that poll"))
        .evidence(how.0, how.1)
        .fix(
            "echo off > /sys/devices/system/cpu/smt/control   # at boot: nosmt; or let idle CPUs \
             halt: intel_idle.max_cstate=1 processor.max_cstate=1 instead of idle=poll",
        )
}
