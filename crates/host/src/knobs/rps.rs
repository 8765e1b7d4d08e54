use quietcore_facts::Facts;
use quietcore_measure::CpuSet;

use super::{Ask, Knob, Proposal, Takes};

const NET: &str = "/sys/class/net";
const DEFAULT: &str = "/proc/sys/net/core/rps_default_mask";

pub const KNOB: Knob = Knob {
    id: "rps",
    about: "Received packets that are handed to other CPUs go to housekeeping CPUs",
    why: "RPS hands packets to the CPUs of a queue's mask, each by an interrupt of its own and a \
          softirq of 5 to 50 µs; isolcpus= does not keep that away.",
    price: "housekeeping CPUs carry all packets through the stack",
    risk: "",
    checks: &["net.rps"],
    takes: Takes::Words(&["housekeeping"]),
    propose,
};

/// Only where it is on: an empty mask stays empty. Every interface counts, those without a device
/// behind them, too: a bridge or a container's interface steers as a card does.
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let host = facts.host();
    let mut masks = vec![DEFAULT.to_owned()];
    for interface in host.list(NET).unwrap_or_default() {
        let queues = host.list(&format!("{NET}/{interface}/queues")).unwrap_or_default();
        let queues = queues.iter().filter(|queue| queue.starts_with("rx-"));
        masks.extend(queues.map(|queue| format!("{NET}/{interface}/queues/{queue}/rps_cpus")));
    }
    for path in masks {
        let now = host.cpu_mask(&path).unwrap_or_else(|_| CpuSet::new());
        if !now.is_empty() {
            proposal.mask(facts, path, &ask.cpus.kept(&now));
        }
    }
}
