use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "clock.tsc-stable",
    cause: Cause::Clock,
    about: "The kernel trusts the CPUs' time stamp counters",
    why: "The TSC is fit for time if it runs at one rate whatever the clock (constant_tsc), goes on \
          in idle states (nonstop_tsc) and agrees between CPUs. When the kernel finds otherwise it \
          strikes the TSC from available_clocksource and logs why; firmware that writes to the \
          counter in system management mode is the usual culprit. Programs that read the counter \
          themselves get wrong times then. The list of sources is the kernel's own judgement of \
          this moment and needs no log.",
    cost: Cost {
        us: 1.0,
        text: "0.5–5 µs per time stamp once the kernel falls back; wrong stamps for rdtsc users",
        origin: "judgement, as clock.source",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let cpus = facts.cpus();
    if cpus.flags.iter().all(String::is_empty) {
        return Verdict::unknown("/proc/cpuinfo shows no flags");
    }
    if !cpus.has("tsc") {
        return Verdict::not_applicable("this processor has no time stamp counter");
    }
    let available = &facts.clock().available;
    let Some(names) = available.value() else { return Verdict::unread(available) };
    let sources = names.join(" ");
    if !names.iter().any(|name| name == "tsc") {
        let verdict = Verdict::fail_if(
            scope.is_declared(),
            "the kernel does not trust the time stamp counter",
        )
        .evidence(SOURCE, sources);
        let texts = ["Marking TSC unstable", "Marking clocksource 'tsc", "TSC warp"];
        let lines = texts.iter().filter_map(|text| facts.kernel().logged(text).value().copied()?);
        return lines
            .fold(verdict, |verdict, line| verdict.evidence("kernel log", &line.text))
            .fix("update the firmware; clear the TSC's causes in the log before tsc=reliable, which only hides them");
    }
    let lacking: Vec<&str> =
        ["constant_tsc", "nonstop_tsc"].into_iter().filter(|flag| !cpus.has(flag)).collect();
    let verdict = match lacking.is_empty() {
        true => Verdict::pass("the kernel trusts the time stamp counter"),
        false => Verdict::warn(format!("the time stamp counter lacks {}", lacking.join(" and "))),
    };
    verdict
        .evidence(SOURCE, sources)
        .evidence(
            "/proc/cpuinfo",
            match lacking.is_empty() {
                true => "constant_tsc nonstop_tsc".to_owned(),
                false => format!("no {}", lacking.join(", no ")),
            },
        )
        .fix("on a guest: have the hypervisor pass invtsc (QEMU: -cpu host,migratable=off,+invtsc)")
}
