use quietcore_facts::Facts;
use quietcore_measure::{Cause, Reading};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "thermal.headroom",
    cause: Cause::Frequency,
    about: "The CPUs are well below the temperature that slows them down",
    why: "A CPU throttles at its critical temperature, about 100 °C on most servers. Within 10 °C \
          of it a warmer room, a fan that fails or CPUs that no longer sleep are enough. Read are \
          the sensors of whole packages: asking a core's own sensor would interrupt that core.",
    cost: Cost {
        us: 27.0,
        text: "50–500 µs every 30–300 s once it throttles; ranked at a tenth, for it does not yet",
        origin: "article on determinism, thermal throttling; article on C-states (heat once they \
                 are off); 10 °C: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

const MARGIN: f64 = 10.0;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let sensors = &facts.thermal().sensors;
    let whole: Vec<_> = sensors.iter().filter(|sensor| sensor.core.is_none()).collect();
    if whole.is_empty() {
        return match facts.cpus().is_guest() {
            true => Verdict::not_applicable("a guest has no temperature sensors"),
            false => Verdict::unknown(
                "no temperature sensor of the CPU (modprobe coretemp or \
                 k10temp)",
            ),
        };
    }
    let known = whole
        .iter()
        .filter_map(|sensor| Some((*sensor, *sensor.celsius.value()?, sensor.critical?)));
    let Some((sensor, now, critical)) = known.min_by(|a, b| (a.2 - a.1).total_cmp(&(b.2 - b.1)))
    else {
        return Verdict::unknown("the sensors do not say at which temperature the CPU slows down");
    };
    let verdict = match critical - now < MARGIN {
        true => Verdict::fail_if(
            scope.is_declared(),
            format!("{now:.0} °C, and the CPU slows down at {critical:.0} °C"),
        ),
        false if whole.iter().any(|sensor| matches!(sensor.celsius, Reading::Failed(_))) => {
            Verdict::unknown("a temperature sensor of the CPU could not be read")
        }
        false => Verdict::pass(format!("{now:.0} °C, {:.0} below the limit", critical - now)),
    };
    verdict
        .evidence(&sensor.input, format!("{} {now:.1} °C, critical {critical:.0} °C", sensor.label))
        .fix("look after fans, air flow and the firmware's fan profile (maximum)")
}
