use quietcore_facts::Facts;
use quietcore_facts::nics::Nic;
use quietcore_measure::{Cause, Reading};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.rfs",
    cause: Cause::Irq,
    about: "Packets do not follow their reader onto a CPU meant for latency",
    why: "Receive flow steering hands a packet's softirq to the CPU on which its reader last ran, \
          which for a latency-critical reader is the CPU kept quiet: an interrupt from another CPU \
          and the whole stack run there. It gains cache locality for blocking readers and costs a \
          spinning one its quiet. It is on where net.core.rps_sock_flow_entries and a queue's \
          rps_flow_cnt are both above 0. Steering by the card itself (ntuple filters, aRFS) shows \
          as interrupts instead.",
    cost: Cost {
        us: 10.0,
        text: "an interrupt and a softirq of 5–20 µs per burst",
        origin: "Documentation/networking/scaling.rst for the mechanism; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/sys/net/core/rps_sock_flow_entries";
    let entries = match facts.host().number(SOURCE) {
        Ok(entries) => entries,
        Err(error) => return Verdict::unanswered(&error),
    };
    if entries <= 0 {
        return Verdict::pass("packets do not follow their reader").evidence(SOURCE, entries);
    }
    let nics = match interfaces::in_use(facts) {
        Ok(nics) => nics,
        Err(verdict) => return verdict,
    };
    let queues = || nics.iter().flat_map(|nic| &nic.rx);
    if let Some(queue) = queues().find(|queue| matches!(queue.flows, Reading::Failed(_))) {
        return Verdict::unread(&queue.flows);
    }
    let steered: Vec<&Nic> = nics
        .iter()
        .filter(|nic| nic.rx.iter().any(|queue| queue.flows.value() > Some(&0)))
        .collect();
    if steered.is_empty() {
        return Verdict::pass("no queue steers its flows")
            .evidence(SOURCE, entries)
            .evidence("/sys/class/net/*/queues/rx-*/rps_flow_cnt", 0);
    }
    let names = interfaces::names(steered);
    Verdict::warn(format!("packets of {names} follow their reader, onto CPUs {} too", scope.cpus))
        .evidence(SOURCE, entries)
        .fix("sysctl -w net.core.rps_sock_flow_entries=0   # and the line in /etc/sysctl.d that sets it")
}
