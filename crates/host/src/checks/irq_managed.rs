use quietcore_facts::Facts;
use quietcore_facts::irqs::Irq;
use quietcore_measure::{Cause, Reading};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "irq.managed",
    cause: Cause::Irq,
    about: "Interrupts that only the kernel can move stay off CPUs meant for latency",
    why: "The queues of NVMe disks and of some network cards are spread over all CPUs by the \
          kernel, and a write to smp_affinity is refused. Only \
          isolcpus=managed_irq,… keeps them away, and only as long as a queue's mask holds a \
          housekeeping CPU (best effort, says kernel-parameters.txt): a queue whose CPUs are all \
          isolated fires there, when a task on one of them does I/O. Whether an interrupt is \
          managed is told by debugfs alone (/sys/kernel/debug/irq, CONFIG_GENERIC_IRQ_DEBUGFS); \
          without it this is unknown as soon as an interrupt is sent to such a CPU.",
    cost: Cost {
        us: 30.0,
        text: "10–50 µs per completed disk request of another task",
        origin: "article on determinism, failure 1 (an interrupt on an isolated CPU)",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let hits = |irq: &&Irq| irq.targets().is_none_or(|set| set.intersects(&scope.cpus));
    let touching: Vec<&Irq> = facts.irqs().lines.iter().filter(hits).collect();
    if facts.irqs().lines.is_empty() {
        return Verdict::unknown("/proc/interrupts lists no device interrupt");
    }
    if touching.is_empty() {
        return Verdict::pass(format!(
            "no interrupt, managed or not, is sent to CPUs {}",
            scope.cpus
        ))
        .evidence(
            "/proc/irq/*/effective_affinity_list",
            format!("{} interrupts", facts.irqs().lines.len()),
        );
    }
    let flagged = facts.boot().isolcpus.as_ref().is_some_and(|i| has(&i.flags, "managed_irq"));
    let is_managed = |irq: &&&Irq| irq.managed == Reading::Measured(true);
    let managed: Vec<&Irq> = touching.iter().filter(is_managed).copied().collect();
    if managed.is_empty() {
        let untold = touching.iter().find(|irq| irq.managed.value().is_none());
        return match untold {
            None => Verdict::pass(format!("no managed interrupt is sent to CPUs {}", scope.cpus)),
            Some(irq) => Verdict::unknown(format!(
                "whether interrupt {} is managed is told by debugfs only: {}",
                irq.label(),
                irq.managed.why()
            )),
        };
    }
    let names: Vec<String> = managed.iter().map(|irq| irq.label()).collect();
    let names = names.join(", ");
    let verdict = match flagged {
        true => Verdict::warn(format!("every CPU of {names} is isolated: managed_irq cannot help")),
        false => Verdict::fail(format!("no write moves {names} off CPUs {}", scope.cpus)),
    };
    let verdict = managed.iter().fold(verdict, |verdict, irq| {
        let file = format!("/proc/irq/{}/effective_affinity_list", irq.number);
        verdict.evidence(file, irq.targets().map(ToString::to_string).unwrap_or_default())
    });
    verdict.evidence("/proc/cmdline", isolcpus(facts)).fix(match flagged {
        true => "keep disk I/O off these CPUs, or leave one housekeeping CPU per queue".to_owned(),
        false => {
            format!("isolcpus=managed_irq,domain,{} on the boot line, then reboot", scope.cpus)
        }
    })
}

fn has(flags: &[String], flag: &str) -> bool {
    flags.iter().any(|f| f == flag)
}

fn isolcpus(facts: &Facts) -> String {
    match &facts.boot().isolcpus {
        Some(isolcpus) => {
            let parts = isolcpus.flags.iter().chain([&isolcpus.request.text]);
            format!("isolcpus={}", parts.cloned().collect::<Vec<_>>().join(","))
        }
        None => "no isolcpus=".to_owned(),
    }
}
