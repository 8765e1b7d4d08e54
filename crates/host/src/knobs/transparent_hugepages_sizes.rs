use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";

pub const KNOB: Knob = Knob {
    id: "transparent-hugepages-sizes",
    about: "The switches that each size of large pages has of its own (Linux 6.8 and later)",
    why: "A size that says always assembles large pages for every program even where the common \
          switch says never.",
    price: "programs that gained from large pages must ask for them",
    risk: "inherit makes a size follow the common switch: with always there it is switched on",
    checks: &["mem.thp"],
    takes: Takes::Words(&["never", "inherit", "madvise"]),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let host = facts.host();
    let names = host.list(FOLDER).unwrap_or_default();
    let sizes = names.iter().filter(|name| name.starts_with("hugepages-"));
    let switches = sizes.map(|name| format!("{FOLDER}/{name}/enabled"));
    // A size only for files and shared memory has no such switch.
    let switches: Vec<String> = switches.filter(|path| host.read(path).is_ok()).collect();
    if switches.is_empty() {
        return proposal.absent(FOLDER, "no size has a switch of its own here");
    }
    for path in switches {
        proposal.word(facts, path, ask.value);
    }
}
