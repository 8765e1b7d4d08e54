use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::remedy::add_to_boot_line;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "boot.skew-tick",
    cause: Cause::Tick,
    about: "Ticks of different CPUs do not come at the same moment",
    why: "Without skew_tick=1 the tick comes on all CPUs at the same moment, and they queue for the \
          same locks (jiffies, RCU). It matters where the tick goes on: CPUs of nohz_full= have \
          none while one task runs. The kernel shows the value nowhere but on its boot line. \
          (kernel: admin-guide/kernel-parameters.txt, skew_tick)",
    cost: Cost {
        us: 2.0,
        text: "some µs of lock wait on top of a tick, growing with the number of CPUs",
        origin: "judgement: kernel-parameters.txt names the contention and gives no figure",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    if !facts.boot().known {
        return Verdict::unknown("/proc/cmdline could not be read");
    }
    let value = facts.boot().value("skew_tick");
    let ticking = scope.cpus.minus(&facts.isolation().tickless);
    let verdict = match (value, ticking.is_empty()) {
        (Some("1"), _) => Verdict::pass("ticks are spread over time (skew_tick=1)"),
        (_, true) => {
            Verdict::pass(format!("the tick can stop on CPUs {}: nothing to spread", scope.cpus))
        }
        _ if facts.cpus().online.len() < 2 => {
            Verdict::not_applicable("one CPU has no other to wait for")
        }
        _ => Verdict::warn(format!(
            "CPUs {ticking} take their tick at the same moment as all others"
        )),
    };
    verdict
        .evidence(
            "/proc/cmdline",
            value.map_or("no skew_tick=".to_owned(), |v| format!("skew_tick={v}")),
        )
        .fix(add_to_boot_line(facts, "skew_tick=1"))
}
