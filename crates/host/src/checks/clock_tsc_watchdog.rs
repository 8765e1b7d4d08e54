use std::collections::BTreeSet;

use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "clock.tsc-watchdog",
    cause: Cause::Clock,
    about: "The TSC is not compared with another clock twice a second",
    why: "Where the kernel is not sure of the TSC, a timer reads it beside hpet or acpi_pm every \
          half second, on one online CPU after the other, isolated ones too. It is left out for \
          tsc=reliable or tsc=nowatchdog, for counters a hypervisor vouches for (tsc_reliable), \
          and since 5.16 for processors with constant_tsc, nonstop_tsc and tsc_adjust on at most \
          two nodes (later four sockets). AMD's before Zen 5 lack tsc_adjust. No file shows the \
          timer: this is concluded from the kernel's version, and older kernels may carry the \
          change as well, so it is unknown there. tsc=reliable also hides a counter that is \
          really bad: check clock.tsc-stable first.",
    cost: Cost {
        us: 5.0,
        text: "2–10 µs per CPU every (CPUs / 2) seconds",
        origin: "kernel/time/clocksource.c, arch/x86/kernel/tsc.c for the mechanism; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let source = &facts.clock().source;
    match source.value().map(String::as_str) {
        None => return Verdict::unread(source),
        Some("tsc") => {}
        Some(other) => return Verdict::not_applicable(format!("time is read from {other}")),
    }
    let (boot, cpus) = (facts.boot(), facts.cpus());
    if let Some(token) = boot.values("tsc").find(|v| ["reliable", "nowatchdog"].contains(v)) {
        return Verdict::pass("no watchdog compares the TSC")
            .evidence("/proc/cmdline", format!("tsc={token}"));
    }
    if cpus.has("tsc_reliable") {
        return Verdict::pass("no watchdog compares the TSC")
            .evidence("/proc/cpuinfo", "tsc_reliable");
    }
    let version = facts.kernel().version();
    let missing: Vec<&str> = ["constant_tsc", "nonstop_tsc", "tsc_adjust"]
        .into_iter()
        .filter(|flag| !cpus.has(flag))
        .collect();
    let nodes = cpus.nodes_of(&cpus.online).len();
    let sockets =
        cpus.topology.values().filter_map(|place| place.package).collect::<BTreeSet<_>>().len();
    let release = &facts.kernel().release;
    let seen = |verdict: Verdict| {
        verdict
            .evidence("/proc/sys/kernel/osrelease", release)
            .evidence(
                "/proc/cpuinfo",
                match missing.is_empty() {
                    true => "constant_tsc nonstop_tsc tsc_adjust".to_owned(),
                    false => format!("no {}", missing.join(", no ")),
                },
            )
            .evidence("topology", format!("{sockets} sockets, {nodes} nodes"))
    };
    let fix = "tsc=nowatchdog on the boot line (tsc=reliable where the kernel does not know it), then reboot";
    if !missing.is_empty() || sockets > 4 {
        let title = "a watchdog compares the TSC with another clock, on every CPU in turn";
        return seen(Verdict::warn(title)).fix(fix);
    }
    match version >= (5, 16) && nodes <= 2 {
        true => seen(Verdict::pass("no watchdog compares the TSC")),
        false => seen(Verdict::unknown(
            "whether a watchdog compares the TSC depends on this kernel's patches: tsc=nowatchdog settles it",
        )),
    }
}
