use quietcore_facts::Facts;

use super::{Ask, Knob, Proposal, Takes};

pub const KNOB: Knob = Knob {
    id: "dirty-limit",
    about: "MiB of written data that may wait for the disk before writers are made to wait",
    why: "By default a fifth of memory: minutes of a disk's time. When it is full, every thread \
          that writes a file is stopped until the disk has caught up, one that logs from the hot \
          path among them.",
    price: "programs that write large files are slowed to the disk's speed sooner",
    risk: "",
    checks: &["mem.dirty"],
    takes: Takes::Number { min: 16, max: 65_536, unit: "MiB" },
    propose,
};

/// Writing one of bytes and ratio sets the other to 0, and 0 bytes cannot be written: on the way
/// back, in reverse, the ratio comes first and takes the bytes with it. Writing out begins at a
/// quarter of the limit.
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let bytes = ask.value.number() << 20;
    for (name, bytes) in [("dirty_background", bytes / 4), ("dirty", bytes)] {
        proposal.word(facts, format!("/proc/sys/vm/{name}_bytes"), bytes);
        proposal.word(facts, format!("/proc/sys/vm/{name}_ratio"), 0);
    }
}
