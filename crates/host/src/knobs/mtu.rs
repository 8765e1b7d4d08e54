use quietcore_facts::Facts;
use quietcore_sys::lease::{Slot, Value};

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "mtu",
    about: "The largest packet of interfaces, each by its name",
    why: "Larger packets mean fewer per transfer, and fewer trips through the stack. What it gains \
          depends on the path: `quietcore transfer` measures it; a small message gains nothing.",
    price: "memory per packet; a small packet behind a large one waits longer",
    risk: "every device of the same network must carry the size, or large packets are lost \
           without a word; many drivers take the link down for a moment",
    checks: &["net.mtu"],
    takes: Takes::Names("interfaces with bytes, as eth1=9000"),
    propose,
};

/// By name, for one size for every interface of a host would cut off those of other networks.
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    for entry in ask.value.names() {
        match entry.split_once('=').map(|(name, size)| (name, size.parse::<u32>())) {
            Some((name, Ok(size))) if is_interface(name) => {
                proposal.word(facts, format!("/sys/class/net/{name}/mtu"), size);
            }
            _ => proposal.stuck(
                Slot::word("mtu"),
                Value::text(entry),
                format!("`{entry}`: expected an interface with bytes, as eth1=9000"),
            ),
        }
    }
}

/// As the kernel takes it (`dev_valid_name`).
fn is_interface(name: &str) -> bool {
    let bad = |c: char| c == '/' || c == ':' || c.is_whitespace();
    !name.is_empty() && name.len() < 16 && name != "." && name != ".." && !name.contains(bad)
}
