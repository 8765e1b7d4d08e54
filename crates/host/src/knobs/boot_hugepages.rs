use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "boot-hugepages",
    about: "hugepagesz= and hugepages=: huge pages that are reserved at boot",
    why: "Early at boot memory is whole: 1 GiB pages can hardly be had later, and 2 MiB pages come from \
          all nodes. The run-time knobs huge-pages-2m and huge-pages-1g take what is left.",
    price: "the memory is gone for everything else, used or not",
    risk: "needs a reboot; more than the machine can spare leaves it without memory to boot",
    checks: &["mem.hugepages"],
    takes: Takes::Text("SIZE:COUNT with 2M or 1G, as 1G:4"),
    propose,
};

fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let asked = ask.value.word().split_once(':');
    let (size, count) = match asked.map(|(size, count)| (size, count.parse::<u32>())) {
        Some((size @ ("2M" | "1G"), Ok(count))) => (size, count),
        _ => return proposal.absent("hugepages=", "expected 2M:COUNT or 1G:COUNT, as 1G:4"),
    };
    if size == "1G" && !facts.cpus().has("pdpe1gb") {
        return proposal.absent("hugepages=", "this CPU has no pages of 1 GiB (pdpe1gb)");
    }
    proposal.parameter("hugepagesz", Some(size.to_owned()));
    proposal.parameter("hugepages", Some(count.to_string()));
}
