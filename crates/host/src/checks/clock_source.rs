use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "clock.source",
    cause: Cause::Clock,
    about: "Reading the time needs no system call and no device",
    why: "clock_gettime reads the processor's own counter in user space if that is the kernel's \
          clock source. hpet, acpi_pm and jiffies cannot be read there: every time stamp becomes a \
          system call, hpet and acpi_pm add a read across the bus, and many CPUs that read hpet \
          queue for it. kvm-clock and Hyper-V's page are read in user space, with a loop around a \
          shared page; where the guest's TSC is on offer as well it is faster. The kernel falls \
          back by itself when it distrusts the TSC (clock.tsc-stable).",
    cost: Cost {
        us: 1.0,
        text: "0.5–5 µs per time stamp instead of 0.02",
        origin: "judgement: an uncached device read takes about a microsecond, more under a hypervisor that emulates it",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

/// Counters of the processor itself, and pages of a hypervisor that turn one into time.
const FAST: [&str; 3] = ["tsc", "arch_sys_counter", "riscv_clocksource"];
const PAGES: [&str; 3] = ["kvm-clock", "hyperv_clocksource_tsc_page", "xen"];

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0";
    let clock = facts.clock();
    let Some(source) = clock.source.value() else { return Verdict::unread(&clock.source) };
    let available = clock.available.value().cloned().unwrap_or_default();
    let has_tsc = available.iter().any(|name| name == "tsc");
    let fast = FAST.contains(&source.as_str());
    let page = PAGES.contains(&source.as_str());
    let verdict = match (fast, page) {
        (true, _) => Verdict::pass(format!("time is read from {source}, in user space")),
        (_, true) if has_tsc && scope.is_declared() => {
            Verdict::warn(format!("time is read from {source}, though the TSC is on offer"))
                .costs_us(0.03)
        }
        (_, true) => Verdict::pass(format!("time is read from {source}, in user space")),
        _ => Verdict::fail_if(
            scope.is_declared(),
            format!("time is read from {source}: a system call and a device each"),
        ),
    };
    verdict
        .evidence(format!("{SOURCE}/current_clocksource"), source)
        .evidence(format!("{SOURCE}/available_clocksource"), available.join(" "))
        .fix(match has_tsc {
            true => format!("echo tsc > {SOURCE}/current_clocksource   # and clocksource=tsc on the boot line"),
            false => "find out why the kernel distrusts the TSC: journalctl -k | grep -iE 'tsc|clocksource'".to_owned(),
        })
}
