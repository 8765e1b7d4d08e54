use quietcore_facts::Facts;
use quietcore_facts::irqs::Irq;
use quietcore_facts::nics::Nic;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "irq.nic-queues",
    cause: Cause::Irq,
    about: "No queue of a network card fires on a CPU meant for latency",
    why: "A queue's interrupt runs the driver, then the softirq that carries every packet of the \
          burst through the stack, on the CPU it is sent to: the caches of the thread there are \
          gone afterwards. A driver that udev loads late, or a link that goes down and up, gets \
          fresh vectors that irqaffinity= does not reach. The queues are named by the device's own \
          list (msi_irqs) and by their handlers; where they go is effective_affinity_list. A card \
          that is polled by its owner (DPDK, onload) has no interrupt here and is not judged.",
    cost: Cost {
        us: 50.0,
        text: "10–50 µs per burst of packets; P99 of 340 µs with P50 untouched in the article",
        origin: "article on isolation, the production story",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let nics = match interfaces::in_use(facts) {
        Ok(nics) => nics,
        Err(verdict) => return verdict,
    };
    let lines = &facts.irqs().lines;
    let of_cards: Vec<(&Nic, &Irq)> = nics
        .iter()
        .flat_map(|nic| nic.irqs.iter().map(move |number| (nic, *number)))
        .filter_map(|(nic, number)| Some((nic, lines.iter().find(|irq| irq.number == number)?)))
        .collect();
    if !facts.irqs().known() {
        return Verdict::unknown_interrupts();
    }
    if of_cards.is_empty() {
        let names = interfaces::names(nics);
        return Verdict::not_applicable(format!("no interrupt belongs to {names}"));
    }
    let hits = |irq: &Irq| irq.targets().is_some_and(|set| set.intersects(&scope.cpus));
    let touching: Vec<_> = of_cards.iter().filter(|(_, irq)| hits(irq)).collect();
    if touching.is_empty() {
        if let Some((_, irq)) = of_cards.iter().find(|(_, irq)| irq.targets().is_none()) {
            return Verdict::unread(&irq.affinity);
        }
        let verdict = Verdict::pass(format!(
            "none of {} network card interrupts is sent to CPUs {}",
            of_cards.len(),
            scope.cpus
        ));
        return of_cards.iter().fold(verdict, describe);
    }
    let names: Vec<String> = touching.iter().map(|(_, irq)| irq.label()).collect();
    let numbers: Vec<String> = touching.iter().map(|(_, irq)| irq.number.to_string()).collect();
    let verdict = Verdict::fail(format!(
        "{} of {} network card interrupts are sent to CPUs {}: {}",
        touching.len(),
        of_cards.len(),
        scope.cpus,
        names.join(", ")
    ));
    touching.into_iter().fold(verdict, describe).fix_onto(&scope.housekeeping(facts), |keep| {
        let numbers = numbers.join(" ");
        format!("for irq in {numbers}; do echo {keep} > /proc/irq/$irq/smp_affinity_list; done")
    })
}

fn describe(verdict: Verdict, (nic, irq): &(&Nic, &Irq)) -> Verdict {
    let targets = irq.targets().map(ToString::to_string).unwrap_or_default();
    verdict.evidence(
        format!("/proc/irq/{}/effective_affinity_list", irq.number),
        format!("{targets} {} of {} ({})", irq.actions, nic.name, nic.driver()),
    )
}
