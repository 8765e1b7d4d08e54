use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cstate.entered",
    cause: Cause::CState,
    about: "No CPU slept deeply while it was watched",
    why: "Which idle states exist is one thing, which are used another: a CPU that never idles \
          never pays. The kernel counts every time a state is left (cpuidle's usage). Grown \
          counters of slow states prove that the CPU slept and woke up from them during the \
          probe. A sleep that lasted the whole probe is not counted until it ends: a probe in \
          which nothing was counted proves nothing for a CPU that was idle throughout.",
    cost: Cost {
        us: 100.0,
        text: "the state's exit latency at every such wake-up",
        origin: "article on C-states, the turbostat tables; the host's own exit latencies",
    },
    kind: Kind::Probe,
    needs: Needs::Intent,
    judge,
};

/// C1 of every current CPU leaves within this.
const QUICK_US: i64 = 2;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let idle = facts.idle();
    if idle.states.is_empty() {
        return Verdict::not_applicable("there are no idle states to enter");
    }
    let mut left: BTreeMap<(i64, &str), u64> = BTreeMap::new();
    let (mut counted, mut asleep) = (0, 0);
    for cpu in scope.judged(facts).iter() {
        let (Some(states), Some(first), Some(second)) =
            (idle.states.get(&cpu), probe.first.idle.get(&cpu), probe.second.idle.get(&cpu))
        else {
            continue;
        };
        counted += 1;
        let mut woke = false;
        // A state may come or go between the readings: they are matched by number.
        for after in second {
            let (Some(before), Some(state)) = (
                first.iter().find(|before| before.index == after.index),
                states.iter().find(|state| state.index == after.index),
            ) else {
                continue;
            };
            let times = after.usage.saturating_sub(before.usage);
            woke |= times > 0;
            let slow = state.latency_us.filter(|us| *us > QUICK_US);
            if let (Some(us), true) = (slow, times > 0) {
                let sum = left.entry((us, &state.name)).or_default();
                *sum = sum.saturating_add(times);
            }
        }
        let idle_all_along = probe.busy(cpu).is_some_and(|busy| busy < 0.01);
        asleep += usize::from(
            !woke
                && idle_all_along
                && !idle.slower_than(QUICK_US, &CpuSet::from_iter([cpu])).is_empty(),
        );
    }
    if left.is_empty() && facts.cpus().is_guest() {
        return Verdict::unknown(
            "a guest: how deeply a halted CPU sleeps is the hypervisor's choice",
        );
    }
    if counted == 0 {
        return Verdict::unknown("no CPU's use of idle states could be read twice");
    }
    let Some(((worst, _), _)) = left.iter().next_back() else {
        if counted < scope.judged(facts).len() || !idle.told(&scope.judged(facts)) {
            return Verdict::unknown("the idle states of some CPUs could not be read");
        }
        return match asleep {
            0 => Verdict::pass(format!("none of {counted} CPUs came out of a slow idle state")),
            _ => Verdict::unknown(format!(
                "{asleep} CPUs slept through the whole probe: in which \
                 state is counted when they wake up"
            )),
        };
    };
    let names: Vec<String> =
        left.iter().map(|((us, name), times)| format!("{name} ({us} µs) {times} times")).collect();
    Verdict::fail(format!("CPUs {} woke up from {}", scope.judged(facts), names.join(", ")))
        .evidence("cpuidle/state*/usage, grown", names.join(", "))
        .costs_us(*worst as f64)
        .fix(
            "see cstate.exit-latency; for one program: hold /dev/cpu_dma_latency open with 0 \
             written to it",
        )
}
