use quietcore_facts::Facts;
use quietcore_measure::{Cause, Reading};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.gro",
    cause: Cause::Network,
    about: "The kernel does not hold merged packets back",
    why: "Generic receive offload merges packets that arrived together and, by default, hands them \
          on at the end of the same round: it costs no wait. gro_flush_timeout changes that: \
          merged packets, and with napi_defer_hard_irqs all packets whose interrupt is put off, \
          may wait so many nanoseconds. That is meant for programs that busy-poll and fetch them \
          themselves (SO_PREFER_BUSY_POLL); every other reader pays the wait.",
    cost: Cost {
        us: 20.0,
        text: "up to gro_flush_timeout per packet",
        origin: "Documentation/networking/napi.rst (IRQ mitigation)",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let nics = match interfaces::in_use(facts) {
        Ok(nics) => nics,
        Err(verdict) => return verdict,
    };
    let failed = nics.iter().find(|n| matches!(n.gro_flush_timeout_ns, Reading::Failed(_)));
    if let Some(nic) = failed {
        return Verdict::unread(&nic.gro_flush_timeout_ns);
    }
    let waits: Vec<_> =
        nics.iter().filter_map(|nic| Some((nic, *nic.gro_flush_timeout_ns.value()?))).collect();
    if waits.is_empty() {
        return Verdict::not_applicable("this kernel cannot hold merged packets back");
    }
    let held: Vec<_> = waits.iter().filter(|(_, ns)| *ns > 0).collect();
    let worst = held.iter().map(|(_, ns)| *ns).max().unwrap_or_default() as f64 / 1e3;
    let verdict = match held.is_empty() {
        true => Verdict::pass("merged packets are handed on at once"),
        false => Verdict::fail_if(
            scope.is_declared(),
            format!(
                "packets of {} may be held back for {worst:.0} µs",
                interfaces::names(held.iter().map(|(nic, _)| *nic))
            ),
        )
        .costs_us(worst),
    };
    let commands: Vec<String> = held
        .iter()
        .map(|(nic, _)| format!("echo 0 > /sys/class/net/{}/gro_flush_timeout", nic.name))
        .collect();
    waits
        .iter()
        .fold(verdict, |verdict, (nic, ns)| {
            verdict.evidence(format!("/sys/class/net/{}/gro_flush_timeout", nic.name), ns)
        })
        .fix(commands.join("; "))
}
