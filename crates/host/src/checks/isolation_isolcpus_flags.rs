use quietcore_facts::Facts;
use quietcore_facts::irqs::Irq;
use quietcore_measure::Cause;

use crate::remedy::edit_boot_line;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "isolation.isolcpus-flags",
    cause: Cause::Scheduler,
    about: "The flags of isolcpus= say what is meant",
    why: "isolcpus= takes flags before its list. Without any it means `domain`: keep the CPUs out \
          of the scheduler's domains. Once one flag is given, only the given ones count, so \
          isolcpus=managed_irq,2-5 isolates from no task at all. Without managed_irq, interrupts \
          whose affinity the kernel manages (queues of NVMe disks and of some network cards) \
          still come to isolated CPUs, and no write to /proc/irq moves them. A flag the kernel \
          does not know is skipped, and named in the boot log. Whether a managed interrupt comes \
          there now is read from debugfs; where that is closed, a missing managed_irq is only a \
          warning. (kernel: admin-guide/kernel-parameters.txt, isolcpus)",
    cost: Cost {
        us: 200.0,
        text: "50–500 µs per task that is placed there; 10–50 µs per managed interrupt",
        origin: "article on determinism, taxonomy and failure 1",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

const KNOWN: [&str; 3] = ["domain", "managed_irq", "nohz"];

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(isolcpus) = &facts.boot().isolcpus else {
        return Verdict::not_applicable("no isolcpus= on the boot line");
    };
    let list = &isolcpus.request.text;
    let written: Vec<&str> = isolcpus.flags.iter().map(String::as_str).collect();
    let token = isolcpus.text();
    let fix = edit_boot_line(facts, &format!("write isolcpus=managed_irq,domain,{list}"));
    let source = "/proc/cmdline";
    if let Some(flag) = written.iter().find(|flag| !KNOWN.contains(flag)) {
        return Verdict::fail(format!("the kernel skips `{flag}` in {token}"))
            .evidence(source, &token)
            .fix(fix);
    }
    if list.is_empty() {
        return Verdict::fail(format!("{token} names no CPU"))
            .evidence(source, &token)
            .fix("write isolcpus=managed_irq,domain,LIST in /etc/default/grub, then update-grub and reboot");
    }
    if !written.is_empty() && !written.contains(&"domain") {
        let title = format!("{token} isolates from no task: the flag `domain` is missing");
        return Verdict::fail(title).evidence(source, &token).fix(fix);
    }
    if written.contains(&"managed_irq") {
        return Verdict::pass(format!("{token} keeps tasks and managed interrupts away"))
            .evidence(source, &token);
    }
    without_managed_irq(facts, scope, &token).evidence(source, &token).fix(fix)
}

fn without_managed_irq(facts: &Facts, scope: &Scope, token: &str) -> Verdict {
    let lines = &facts.irqs().lines;
    let is_managed = |irq: &&Irq| irq.managed.value() == Some(&true);
    let here = |irq: &&Irq| irq.targets().is_some_and(|set| set.intersects(&scope.cpus));
    let come: Vec<String> = lines.iter().filter(is_managed).filter(here).map(Irq::label).collect();
    if !come.is_empty() {
        let names = come.join(", ");
        return Verdict::fail(format!("{token} lets managed interrupts in: {names}"));
    }
    if !facts.irqs().known() {
        return Verdict::unknown_interrupts();
    }
    if lines.iter().any(|irq| irq.managed.value().is_none()) {
        return Verdict::warn(format!("{token} lets managed interrupts in, if there are any"));
    }
    Verdict::pass(format!("{token} isolates from tasks, and no managed interrupt comes there"))
}
