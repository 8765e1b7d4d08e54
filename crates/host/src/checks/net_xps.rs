use quietcore_facts::Facts;
use quietcore_facts::nics::{Nic, Queue};
use quietcore_measure::{Cause, Reading};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.xps",
    cause: Cause::Network,
    about: "CPUs meant for latency share no send queue with the others",
    why: "xps_cpus names the CPUs that send by a queue. It puts no work on them; but a queue that \
          both sides use has one lock and one order: a packet that matters waits behind a \
          backup's, and its sender spins while another CPU holds the lock. Queues without a mask \
          are chosen by flow, from all. Sockets that are served by a bypass stack do not use these \
          queues.",
    cost: Cost {
        us: 5.0,
        text: "up to a few µs of waiting per packet while another CPU sends",
        origin: "Documentation/networking/scaling.rst for the mechanism; judgement for the size",
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
    // A card with one queue has nothing to choose from.
    let several = nics.iter().filter(|nic| nic.tx.len() > 1);
    let queues: Vec<(&Nic, &Queue)> =
        several.flat_map(|nic| nic.tx.iter().map(move |queue| (nic, queue))).collect();
    let set = |queue: &Queue| queue.cpus.value().is_some_and(|cpus| !cpus.is_empty());
    if !queues.iter().any(|(_, queue)| set(queue)) {
        return Verdict::not_applicable("no card with several send queues has them given to CPUs");
    }
    let keep = scope.housekeeping(facts);
    let shared: Vec<_> = queues
        .iter()
        .filter_map(|(nic, queue)| {
            let cpus = queue.cpus.value()?;
            let both = cpus.intersects(&scope.cpus) && cpus.intersects(&keep);
            both.then(|| (format!("{} {}", nic.name, queue.name), nic, queue, cpus))
        })
        .collect();
    let failed = queues.iter().find(|(_, queue)| matches!(queue.cpus, Reading::Failed(_)));
    if let (true, Some((_, queue))) = (shared.is_empty(), failed) {
        return Verdict::unread(&queue.cpus);
    }
    if shared.is_empty() {
        let verdict = Verdict::pass("CPUs meant for latency have send queues of their own");
        return queues.iter().take(8).fold(verdict, |v, (nic, queue)| {
            let cpus = queue.cpus.value().map(ToString::to_string).unwrap_or_default();
            v.evidence(file(nic, queue), cpus)
        });
    }
    let names: Vec<&str> = shared.iter().map(|(name, ..)| name.as_str()).collect();
    let verdict = Verdict::warn(format!(
        "CPUs {} share send queues with the others: {}",
        scope.cpus,
        names.join(", ")
    ));
    let width = facts.cpus().possible.highest().map_or(1, |top| top + 1);
    let first = shared.first().map(|(_, nic, queue, _)| file(nic, queue)).unwrap_or_default();
    shared
        .iter()
        .fold(verdict, |v, (_, nic, queue, cpus)| v.evidence(file(nic, queue), cpus))
        .fix_onto(&keep, |keep| {
            format!(
                "echo {} > {first}   # and give another queue to {}",
                keep.to_mask(width),
                scope.cpus.to_mask(width)
            )
        })
}

fn file(nic: &Nic, queue: &Queue) -> String {
    format!("/sys/class/net/{}/queues/{}/xps_cpus", nic.name, queue.name)
}
