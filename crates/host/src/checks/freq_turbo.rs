use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "freq.turbo",
    cause: Cause::Frequency,
    about: "No turbo comes and goes on latency CPUs",
    why: "How far a core may go beyond its rated frequency depends on how many other cores work, \
          on heat, on power and on the width of the vectors in use: a neighbour that wakes up \
          changes the clock of the core that matters. Without turbo the frequency is the rated one \
          always. Many prefer the higher average nonetheless; whoever does waives this with that \
          reason.",
    cost: Cost {
        us: 15.0,
        text: "10–20 µs per change, when other cores start or stop working",
        origin: "article on determinism, thermal throttling (\"no turbo, no power saving\"); \
                 size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let frequency = facts.frequency();
    let source = frequency.turbo_file;
    let Some(on) = frequency.turbo.value() else { return Verdict::unread(&frequency.turbo) };
    let (off, on_value) = match source.ends_with("no_turbo") {
        true => ("1", "0"),
        false => ("0", "1"),
    };
    match on {
        true => Verdict::warn("turbo is on: the frequency depends on what other cores do")
            .evidence(source, on_value)
            .fix(format!("echo {off} > {source}")),
        false => Verdict::pass("turbo is off").evidence(source, off),
    }
}
