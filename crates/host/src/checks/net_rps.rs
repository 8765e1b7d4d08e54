use quietcore_facts::Facts;
use quietcore_facts::nics::{Nic, Queue};
use quietcore_measure::{Cause, CpuSet, Reading};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.rps",
    cause: Cause::Irq,
    about: "Received packets are not handed to CPUs meant for latency",
    why: "RPS spreads received packets over the CPUs of a queue's rps_cpus mask: the CPU that took \
          the interrupt sends another one to each of them, which then carries the packets through \
          the stack in a softirq. isolcpus= does not keep that away; net.core.rps_default_mask \
          and the scripts of virtual machines set wide masks. An empty mask is off.",
    cost: Cost {
        us: 30.0,
        text: "an interrupt and a softirq of 5–50 µs per burst",
        origin: "Documentation/networking/scaling.rst for the mechanism; size as irq.effective-affinity",
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
    let queues: Vec<(&Nic, &Queue)> =
        nics.iter().flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue))).collect();
    let mask = |queue: &Queue| queue.cpus.value().cloned().unwrap_or_default();
    let touching: Vec<_> =
        queues.iter().filter(|(_, queue)| mask(queue).intersects(&scope.cpus)).collect();
    if touching.is_empty() {
        let failed = queues.iter().find(|(_, q)| matches!(q.cpus, Reading::Failed(_)));
        if let Some((_, queue)) = failed {
            return Verdict::unread(&queue.cpus);
        }
        let read = queues.iter().filter(|(_, q)| q.cpus.value().is_some());
        let all = read.clone().fold(CpuSet::new(), |all, (_, q)| all.or(&mask(q)));
        return match read.count() {
            0 => Verdict::not_applicable("this kernel does not steer received packets (no RPS)"),
            count => Verdict::pass(format!("no packet is handed to CPUs {}", scope.cpus)).evidence(
                "/sys/class/net/*/queues/rx-*/rps_cpus",
                if all.is_empty() { format!("{count} empty masks") } else { all.to_string() },
            ),
        };
    }
    let names: Vec<String> =
        touching.iter().map(|(nic, queue)| format!("{} {}", nic.name, queue.name)).collect();
    let verdict = Verdict::fail(format!(
        "received packets are handed to CPUs {}: {}",
        scope.cpus,
        names.join(", ")
    ));
    let file = |nic: &Nic, queue: &Queue| {
        format!("/sys/class/net/{}/queues/{}/rps_cpus", nic.name, queue.name)
    };
    let files: Vec<String> = touching.iter().map(|(nic, queue)| file(nic, queue)).collect();
    touching
        .iter()
        .fold(verdict, |v, (nic, queue)| v.evidence(file(nic, queue), mask(queue)))
        .fix(format!("for f in {}; do echo 0 > $f; done", files.join(" ")))
}
