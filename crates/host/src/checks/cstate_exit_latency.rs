use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cstate.exit-latency",
    cause: Cause::CState,
    about: "No idle state is slow to leave",
    why: "An idle CPU sleeps, and the deeper it sleeps the longer the first instruction after a \
          wake-up takes: 2 µs out of C1, 200 µs out of C8 on the article's server. A thread that \
          waits for a packet pays it with every packet. Listed are the states that may be entered: \
          not switched off in sysfs and not slower than PM QoS allows. The figures are the \
          driver's, worst case; what is entered shows with --probe (cstate.entered). In a guest \
          they are not the hardware's: there a halt gives the CPU back to the hypervisor.",
    cost: Cost {
        us: 100.0,
        text: "2 µs (C1) to 200 µs (C8) at the first wake-up after idling",
        origin: "article on C-states: median 50 to 27 µs once they were off; the host's own exit \
                 latencies",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

/// C1 of every current CPU leaves within this.
const QUICK_US: i64 = 2;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let idle = facts.idle();
    let cpus = scope.judged(facts);
    if facts.boot().value("idle") == Some("poll") && idle.states.is_empty() {
        return Verdict::pass("idle=poll: idle CPUs do not sleep")
            .evidence("/proc/cmdline", "idle=poll");
    }
    let slow = idle.slower_than(QUICK_US, &cpus);
    let Some(((worst, _), _)) = slow.iter().next_back() else { return no_slow_state(facts, &cpus) };
    let names: Vec<String> = slow.keys().map(|(us, name)| format!("{name} ({us} µs)")).collect();
    let title = format!("idle CPUs may sleep in {}", names.join(", "));
    let verdict = match idle.limit_us.value() {
        // Nobody but root may ask for the limit, and it could forbid every one of these.
        None if scope.is_declared() => {
            Verdict::unknown(format!("{title}, unless PM QoS forbids it: {}", idle.limit_us.why()))
        }
        _ => Verdict::fail_if(scope.is_declared(), title),
    };
    let verdict = slow.iter().rev().fold(verdict, |verdict, ((us, name), cpus)| {
        verdict.evidence(format!("cpuidle of CPUs {cpus}"), format!("{name}: {us} µs to leave"))
    });
    verdict.costs_us(*worst as f64).fix(format!(
        "for cpu in {}; do for s in /sys/devices/system/cpu/cpu$cpu/cpuidle/state*; do \
         [ $(cat $s/latency) -gt {QUICK_US} ] && echo 1 > $s/disable; done; done   \
         # at boot: intel_idle.max_cstate=1 processor.max_cstate=1",
        spelled(&cpus)
    ))
}

fn no_slow_state(facts: &Facts, cpus: &CpuSet) -> Verdict {
    let idle = facts.idle();
    let sleeps = |cpu: &usize| !idle.only_polls(*cpu);
    if facts.cpus().is_guest() && cpus.iter().any(|cpu| sleeps(&cpu)) {
        return Verdict::unknown(
            "a halt gives the CPU back to the hypervisor, and how long it takes to come back only a \
             measurement tells: quietcore jitter --wake 1ms",
        );
    }
    let unread = |cpu: usize| idle.reachable(cpu).any(|state| state.latency_us.is_none());
    if let Some(cpu) = cpus.iter().find(|cpu| unread(*cpu)) {
        return Verdict::unknown(format!("the exit latencies of CPU {cpu} could not be read"));
    }
    if idle.states.is_empty() {
        return match idle.driver.value().map(String::as_str) {
            Some("none") => Verdict::pass("no idle driver: idle CPUs only halt (C1)")
                .evidence("/sys/devices/system/cpu/cpuidle/current_driver", "none"),
            Some(driver) => Verdict::unknown(format!("the states of {driver} could not be read")),
            None => Verdict::unread(&idle.driver),
        };
    }
    if let Some(cpu) = cpus.iter().find(|cpu| !idle.states.contains_key(cpu)) {
        return Verdict::unknown(format!("the idle states of CPU {cpu} could not be read"));
    }
    let verdict = Verdict::pass(format!(
        "no idle state of CPUs {cpus} takes over {QUICK_US} µs to \
         leave"
    ));
    let first = cpus.iter().next().unwrap_or_default();
    idle.reachable(first).fold(verdict, |verdict, state| {
        let latency = state.latency_us.map_or("unknown".to_owned(), |us| format!("{us} µs"));
        verdict.evidence(format!("cpuidle of CPU {first}"), format!("{}: {latency}", state.name))
    })
}

/// A CPU list for a shell's `for`.
fn spelled(cpus: &CpuSet) -> String {
    format!("$(echo {cpus} | tr , '\\n' | while IFS=- read a b; do seq $a ${{b:-$a}}; done)")
}
