use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cstate.pm-qos",
    cause: Cause::CState,
    about: "A request for short wake-ups is as tight as it must be",
    why: "A program may hold the wake-up latency of all CPUs down by writing microseconds to \
          /dev/cpu_dma_latency; the request ends when it closes the file. A single CPU is held by \
          power/pm_qos_resume_latency_us, where 0 means \"no limit\" and n/a means \"no latency \
          at all\": a trap for whoever writes 0 and means none. Judged is the request that is in \
          force now; who made it is not recorded anywhere.",
    cost: Cost {
        us: 50.0,
        text: "exit latencies up to the one requested",
        origin: "kernel: power/pm_qos_interface, ABI/testing/sysfs-devices-power",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let idle = facts.idle();
    if idle.states.is_empty() {
        return Verdict::not_applicable("there are no idle states to hold off");
    }
    let Some(request) = idle.limit_us.value() else { return Verdict::unread(&idle.limit_us) };
    let cpus = scope.judged(facts);
    let own = idle.cpu_limits_us.iter().filter(|(cpu, _)| cpus.contains(**cpu)).count();
    let spoken = request.map_or("no request".to_owned(), |us| format!("{us} µs"));
    let with = |verdict: Verdict| {
        verdict.evidence("/dev/cpu_dma_latency", &spoken).evidence(
            "power/pm_qos_resume_latency_us",
            format!("set on {own} of {} CPUs", cpus.len()),
        )
    };
    let slow = idle.slower_than(2, &cpus);
    if slow.is_empty() && !idle.told(&cpus) {
        return with(Verdict::unknown("the idle states of some CPUs could not be read"));
    }
    if request.is_none() && own == 0 {
        return with(match slow.is_empty() && !facts.cpus().is_guest() {
            true => Verdict::pass("nobody asks for short wake-ups, and no idle state is slow"),
            false => Verdict::not_applicable(
                "nobody asks for short wake-ups (see \
                 cstate.exit-latency)",
            ),
        });
    }
    let Some(((worst, name), slept)) = slow.iter().next_back() else {
        return with(Verdict::pass(format!(
            "PM QoS keeps CPUs {cpus} out of slow idle states \
             ({spoken})"
        )));
    };
    with(Verdict::warn(format!(
        "the request ({spoken}) still lets CPUs {slept} sleep in {name} \
         ({worst} µs)"
    )))
    .costs_us(*worst as f64)
    .fix(
        "ask for less: exec 3> /dev/cpu_dma_latency; printf '\\002\\000\\000\\000' >&3   # the \
         file must stay open: the request ends with that shell",
    )
}
