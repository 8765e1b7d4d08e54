use quietcore_facts::Facts;
use quietcore_facts::memory::chosen;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "kernel.lockdown",
    cause: Cause::Smi,
    about: "Whether the kernel lets root measure the hardware",
    why: "With Secure Boot most distributions lock the kernel down. Integrity: root may not write \
          MSRs or load unsigned modules, out-of-tree drivers of bypass stacks among them. \
          Confidentiality: nor use tracefs, kprobes, perf or BPF programs that read the kernel. \
          It costs no latency, so it never fails. It is said here because what cannot be measured under it (causes \
          of spikes, trace events) is reported as unknown elsewhere.",
    cost: Cost {
        us: 0.01,
        text: "no latency of its own: causes stay unknown",
        origin: "kernel: security/lockdown (kernel_lockdown(7)); judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    const SOURCE: &str = "/sys/kernel/security/lockdown";
    let text = match facts.host().line(SOURCE) {
        Ok(text) => text,
        Err(error) => return Verdict::unanswered(&error),
    };
    match chosen(&text) {
        Some("none") => Verdict::pass("the kernel is not locked down").evidence(SOURCE, text),
        Some("integrity") => Verdict::not_applicable(
            "locked down (integrity): MSRs and unsigned modules are out of reach",
        )
        .evidence(SOURCE, &text),
        Some(mode) => Verdict::not_applicable(format!(
            "locked down ({mode}): tracefs, kprobes, perf and BPF tracing are out of reach, too"
        ))
        .evidence(SOURCE, &text),
        None => {
            Verdict::unknown(format!("{SOURCE}: expected a choice in brackets, found `{text}`"))
        }
    }
}
