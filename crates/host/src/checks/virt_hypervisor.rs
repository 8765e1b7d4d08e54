use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "virt.hypervisor",
    cause: Cause::Virtualisation,
    about: "No hypervisor stands between this host and the processor",
    why: "In a guest the host's scheduler decides when a CPU of ours runs, timers and interrupts \
          leave the guest and come back, and no setting in here reaches that. Isolation inside \
          still pays, and its floor is what the host does. The processor's hypervisor flag tells; \
          some clouds' metal instances do not set it and are none. A hypervisor that hides itself \
          is not found.",
    cost: Cost {
        us: 20.0,
        text: "1–2 µs per exit to the hypervisor, ms when it runs something else",
        origin: "judgement: exits of current processors; preemption lasts a scheduler's slice",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/cpuinfo, CPUID 0x40000000";
    match facts.cpus().hypervisor.as_deref() {
        None => {
            Verdict::unknown("/proc/cpuinfo shows no flags: whether this is a guest is not known")
        }
        Some("none") => Verdict::pass("this is no guest").evidence(SOURCE, "no hypervisor flag"),
        Some(name) if !scope.is_declared() => {
            Verdict::warn(format!("this is a guest of {name}")).evidence(SOURCE, name)
        }
        Some(name) => {
            let cpus = &scope.cpus;
            Verdict::warn(format!("CPUs {cpus} belong to a guest of {name}"))
                .evidence(SOURCE, name)
                .fix("a bare-metal instance; else vCPUs pinned one to one, idle polling and huge pages on the hypervisor's side")
        }
    }
}
