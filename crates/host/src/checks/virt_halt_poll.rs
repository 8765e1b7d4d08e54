use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "virt.halt-poll",
    cause: Cause::Virtualisation,
    about: "An idle CPU of this guest does not leave it at once",
    why: "A guest's CPU that halts exits to the hypervisor, which may sleep the processor or run \
          another guest; to wake up it must be scheduled, entered and interrupted again. The driver \
          cpuidle-haltpoll polls inside the guest first, for up to guest_halt_poll_ns; idle=poll \
          never leaves; a hypervisor that passes MWAIT through shows native idle states instead, \
          which are judged as such. Without any idle driver the guest halts at once. A hypervisor \
          may poll on its own side (halt_poll_ns), which cannot be seen in here. haltpoll loads \
          itself only where the host promises dedicated CPUs, else with force=1.",
    cost: Cost {
        us: 20.0,
        text: "5–50 µs per wake-up from idle",
        origin: "Documentation/virt/guest-halt-polling.rst for the mechanism; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    const FOLDER: &str = "/sys/devices/system/cpu/cpuidle";
    const POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
    if facts.cpus().hypervisor.is_none() {
        return Verdict::unknown("whether this is a guest is not known");
    }
    if !facts.cpus().is_guest() {
        return Verdict::not_applicable("this is no guest");
    }
    if facts.boot().value("idle") == Some("poll") {
        return Verdict::pass("idle CPUs poll and never halt")
            .evidence("/proc/cmdline", "idle=poll");
    }
    let host = facts.host();
    let file = format!("{FOLDER}/current_driver");
    let driver = match host.line(&file) {
        Ok(driver) => driver,
        Err(error) => return Verdict::unanswered(&error),
    };
    let fix = "modprobe cpuidle-haltpoll force=1   # `options cpuidle_haltpoll force=1` in /etc/modprobe.d keeps it";
    match driver.as_str() {
        "none" => Verdict::warn("idle CPUs halt, and leave the guest, at once")
            .evidence(file, driver)
            .fix(fix),
        "haltpoll" => match host.number(POLL) {
            Ok(0) => Verdict::warn("haltpoll is loaded and told not to poll")
                .evidence(POLL, 0)
                .fix(format!("echo 200000 > {POLL}")),
            Ok(ns) => Verdict::pass(format!("idle CPUs poll for up to {} µs first", ns / 1000))
                .evidence(file, driver)
                .evidence(POLL, ns),
            Err(error) => Verdict::unanswered(&error),
        },
        _ => {
            Verdict::pass(format!("idle CPUs stay in the guest ({driver})")).evidence(file, driver)
        }
    }
}
