use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cstate.driver",
    cause: Cause::CState,
    about: "The idle driver is the one that was meant",
    why: "intel_idle.max_cstate=0 does not keep CPUs awake: it switches intel_idle off, and \
          acpi_idle takes over with the states of the firmware's table, C6 and deeper among them, \
          unless processor.max_cstate=1 is given as well. idle=poll leaves no idle driver at all: \
          then there is nothing in cpuidle's folders, CPUs never sleep, and the price is heat, a \
          lower turbo and a sibling thread that never gets the core for itself.",
    cost: Cost {
        us: 100.0,
        text: "the exit latency of the states that came back, up to 200 µs",
        origin: "kernel: admin-guide/kernel-parameters (intel_idle.max_cstate), \
                 admin-guide/pm/intel_idle; article on C-states",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
    let idle = facts.idle();
    let boot = facts.boot();
    if boot.value("idle") == Some("poll") && idle.states.is_empty() {
        return Verdict::pass(
            "idle=poll: no idle driver, no wake-up latency; the price is full power and heat on \
             every CPU",
        )
        .evidence("/proc/cmdline", "idle=poll");
    }
    let Some(driver) = idle.driver.value() else { return Verdict::unread(&idle.driver) };
    let switched_off = boot.value("intel_idle.max_cstate") == Some("0");
    let deep = idle.slower_than(2, &scope.judged(facts));
    if driver == "acpi_idle" && switched_off && !deep.is_empty() {
        let names: Vec<&str> = deep.keys().map(|(_, name)| name.as_str()).collect();
        return Verdict::fail_if(
            scope.is_declared(),
            format!("intel_idle.max_cstate=0 brought acpi_idle with {} instead", names.join(", ")),
        )
        .evidence(SOURCE, driver)
        .evidence("/proc/cmdline", "intel_idle.max_cstate=0")
        .fix(
            "boot with intel_idle.max_cstate=1 processor.max_cstate=1 instead of \
             intel_idle.max_cstate=0",
        );
    }
    let title = match driver.as_str() {
        "none" => "no idle driver: idle CPUs only halt".to_owned(),
        _ => format!("{driver} puts idle CPUs to sleep"),
    };
    Verdict::pass(title).evidence(SOURCE, driver)
}
