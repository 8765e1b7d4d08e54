use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "virt.dedicated",
    cause: Cause::Virtualisation,
    about: "The hypervisor promises processors of its own to this guest",
    why: "KVM can tell a guest that its CPUs are never preempted for long (KVM_HINTS_REALTIME, bit 0 \
          of EDX of CPUID 0x40000001; QEMU: kvm-hint-dedicated=on). The guest then drops the \
          paravirtual detours made for crowded hosts: native spinlocks, native TLB flushes, halt \
          polling. Many hosts dedicate processors and do not say so; hence a warning. Other \
          hypervisors have no such bit.",
    cost: Cost {
        us: 5.0,
        text: "some µs per contended kernel lock or TLB flush, ms where the host is crowded in fact",
        origin: "Documentation/virt/kvm/x86/cpuid.rst for the mechanism; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    const SOURCE: &str = "CPUID 0x40000001 EDX";
    match facts.cpus().hypervisor.as_deref() {
        None => return Verdict::unknown("whether this is a guest is not known"),
        Some("KVM") => {}
        Some("none") => return Verdict::not_applicable("this is no guest"),
        Some(name) => return Verdict::not_applicable(format!("{name} makes no such promise")),
    }
    let hints = facts.virt().kvm_hints.unwrap_or_default();
    match facts.virt().is_dedicated() {
        None => Verdict::unknown(format!("{SOURCE} could not be read")),
        Some(true) => Verdict::pass("KVM promises processors of its own")
            .evidence(SOURCE, format!("{hints:#x}")),
        Some(false) => Verdict::warn("KVM does not promise processors of its own")
            .evidence(SOURCE, format!("{hints:#x}"))
            .fix("on the host: pin vCPUs one to one, then -cpu host,kvm-hint-dedicated=on"),
    }
}
