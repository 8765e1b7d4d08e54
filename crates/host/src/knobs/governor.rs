use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";

pub const KNOB: Knob = Knob {
    id: "governor",
    about: "Frequency governor of every CPU",
    why: "Every governor but performance lets a CPU slow down while it waits; work that arrives \
          begins at the low frequency until the governor has noticed.",
    price: "watts and heat: idle CPUs stay at a high frequency; less turbo headroom for the others",
    risk: "",
    checks: &["freq.governor"],
    takes: Takes::Words(&["performance", "schedutil", "ondemand", "powersave"]),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let names = facts.host().list(POLICIES).unwrap_or_default();
    let policies: Vec<&String> = names.iter().filter(|n| n.starts_with("policy")).collect();
    if policies.is_empty() {
        return proposal.absent(POLICIES, "no frequency driver");
    }
    for policy in policies {
        proposal.word(facts, format!("{POLICIES}/{policy}/scaling_governor"), ask.value);
    }
}
