use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::Trouble;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cstate.c1e-promotion",
    cause: Cause::CState,
    about: "The CPU does not turn C1 into C1E by itself",
    why: "Firmware can let an Intel CPU make C1E of every C1: it then also lowers voltage and \
          frequency, and leaving takes about 10 µs instead of 2. The kernel asked for C1 and \
          cpuidle still says C1. intel_idle switches this off on the CPUs whose table has C1E as a \
          state of its own; acpi_idle leaves it as the firmware set it. Bit 1 of MSR 0x1FC tells; \
          it needs the msr module.",
    cost: Cost {
        us: 10.0,
        text: "about 8 µs more at each wake-up",
        origin: "Intel SDM volume 4 (MSR_POWER_CTL); exit latencies in the article on C-states \
                 (C1 2 µs, C1E 10 µs)",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

const POWER_CTL: u32 = 0x1fc;
const C1E_ENABLE: u64 = 1 << 1;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let cpus = facts.cpus();
    if cpus.vendor != "GenuineIntel" || cpus.is_guest() {
        return Verdict::not_applicable(
            "only Intel CPUs do this, and only they themselves can tell",
        );
    }
    if facts.boot().value("idle") == Some("poll") {
        return Verdict::not_applicable("idle=poll: C1 is not used");
    }
    if !scope.is_declared() {
        return Verdict::no_intent();
    }
    let cpu = scope.judged(facts).lowest().unwrap_or_default();
    let source = format!("MSR {POWER_CTL:#x} of CPU {cpu}");
    match facts.host().msr(cpu, POWER_CTL) {
        Ok(value) if value & C1E_ENABLE == 0 => {
            Verdict::pass("C1 stays C1").evidence(source, format!("{value:#x}"))
        }
        Ok(value) => Verdict::fail("the CPU makes C1E of every C1")
            .evidence(source, format!("{value:#x}"))
            .fix(format!(
                "switch C1E off in the firmware's setup; until then: wrmsr -a \
                 {POWER_CTL:#x} {:#x}",
                value & !C1E_ENABLE
            )),
        Err(error) if error.trouble == Trouble::Missing => {
            Verdict::unknown("MSRs cannot be read: modprobe msr (as root), then run again")
        }
        Err(error) => Verdict::unknown(error.to_string()),
    }
}
