use quietcore_facts::Facts;
use quietcore_facts::process::Flags;
use quietcore_measure::Cause;

use crate::subject::{java, java_flags, maybe_elsewhere};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "jvm.heap-fixed",
    cause: Cause::Gc,
    about: "The heap has one size from start to end",
    why: "A heap that may grow does so in a collection's pause, and gives memory back to touch it \
          anew later. -Xms equal to -Xmx (InitialHeapSize and MaxHeapSize, or the same percentage \
          of memory for both) rules that out. Without either, it starts at a 64th of the memory \
          and may grow to a quarter.",
    cost: Cost {
        us: 500.0,
        text: "some ms whenever the heap is resized; ranked at a tenth, for it soon settles",
        origin: "article on determinism, the flags for Java",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let flags = match java(facts).and_then(java_flags) {
        Ok(flags) => flags,
        Err(verdict) => return verdict,
    };
    let (first, most) = ends(flags);
    let text = |end: &Option<String>| end.clone().unwrap_or_else(|| "not given".to_owned());
    let verdict = match (&first, &most) {
        (Some(first), Some(most)) if first == most => {
            Verdict::pass(format!("the heap has {first} from the start"))
        }
        (Some(first), Some(most)) => {
            Verdict::fail_if(scope.is_declared(), format!("the heap grows from {first} to {most}"))
        }
        _ if !flags.complete => return maybe_elsewhere(flags, "-Xms or -Xmx"),
        (Some(first), None) => Verdict::fail_if(
            scope.is_declared(),
            format!("the heap starts at {first} and may grow"),
        ),
        // How much memory the machine saw is not known here: in a container, less than the host has.
        (None, Some(most)) if starts_full(flags, facts.kernel().memory_bytes) => Verdict::unknown(
            format!("the heap has up to {most}, and may have all of it from the start"),
        ),
        (None, Some(most)) => Verdict::fail_if(
            scope.is_declared(),
            format!("the heap starts small and may grow to {most}"),
        ),
        (None, None) => Verdict::fail_if(
            scope.is_declared(),
            "the heap starts at a 64th of the memory and may grow to a quarter",
        ),
    };
    verdict
        .evidence(&flags.source, format!("initial {}, maximum {}", text(&first), text(&most)))
        .fix(format!("-Xms{0} -Xmx{0}", flags.value("MaxHeapSize").unwrap_or("4g")))
}

/// Whether a 64th of the memory, where the heap starts by default, is as much as its maximum.
fn starts_full(flags: &Flags, memory: u64) -> bool {
    flags.bytes("MaxHeapSize").is_some_and(|most| most <= memory / 64)
}

/// Both ends of the heap's size, comparable as texts.
fn ends(flags: &Flags) -> (Option<String>, Option<String>) {
    let size = |bytes: &str, percent: &str| {
        let bytes = flags.bytes(bytes).map(|size| match size % (1 << 20) {
            0 => format!("{} MiB", size >> 20),
            _ => format!("{size} bytes"),
        });
        let number = || flags.value(percent)?.parse::<f64>().ok();
        bytes.or_else(|| Some(format!("{} % of the memory", number()?)))
    };
    (size("InitialHeapSize", "InitialRAMPercentage"), size("MaxHeapSize", "MaxRAMPercentage"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_heap_may_start_at_its_maximum() {
        let of = |line: &str| starts_full(&Flags::parse(line.split(' ')), 6 << 30);
        assert!(of("-Xmx64m") && !of("-Xmx128m") && !of("-Xms64m"));
    }

    #[test]
    fn sizes_are_equal_whatever_their_unit() {
        let of = |line: &str| {
            let (first, most) = ends(&Flags::parse(line.split(' ')));
            first.is_some() && first == most
        };
        assert!(of("-Xms4g -XX:MaxHeapSize=4096m"));
        assert!(of("-Xms1073741824 -Xmx1g"));
        assert!(of("-XX:InitialRAMPercentage=50 -XX:MaxRAMPercentage=50.0"));
        assert!(!of("-Xms1g -Xmx1g -Xmx2g"));
        assert!(!of("-Xmx2g") && !of(""));
    }
}
