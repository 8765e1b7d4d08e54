use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::subject::{java, java_flags, maybe_elsewhere};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "jvm.pretouch",
    cause: Cause::Memory,
    about: "The heap is touched at the start, not on the way",
    why: "Without AlwaysPreTouch the heap is address space only: the first use of each page is a \
          fault in the middle of the program, zeroing memory, in the collector's pause as well. \
          Fragmented memory makes it slower the longer the host is up. With it the machine starts \
          slower, by some seconds per 10 GiB.",
    cost: Cost {
        us: 1.0,
        text: "0.5–2 µs per 4 KiB page, some 100 µs per huge page, until all of the heap was used once",
        origin: "article on determinism, the flags for Java; the figure: judgement, one zeroed page",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

const NAME: &str = "AlwaysPreTouch";

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let flags = match java(facts).and_then(java_flags) {
        Ok(flags) => flags,
        Err(verdict) => return verdict,
    };
    let verdict = match flags.switch(NAME) {
        Some(true) => Verdict::pass("the heap was touched at the start"),
        Some(false) => Verdict::fail_if(scope.is_declared(), "AlwaysPreTouch is switched off"),
        None if !flags.complete => return maybe_elsewhere(flags, NAME),
        None => Verdict::fail_if(
            scope.is_declared(),
            "the heap's pages are touched for the first time on the way",
        ),
    };
    let state = flags.switch(NAME).map_or_else(|| "not given".to_owned(), |on| on.to_string());
    verdict.evidence(&flags.source, format!("{NAME}: {state}")).fix(format!("-XX:+{NAME}"))
}
