use quietcore_facts::Facts;
use quietcore_facts::process::Flags;
use quietcore_measure::Cause;

use crate::subject::{g1_flags, maybe_elsewhere};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "jvm.region-size",
    cause: Cause::Gc,
    about: "G1's regions are large enough for the program's buffers",
    why: "An object of half a region or more takes whole regions of its own, outside of the young \
          generation, and a large array then costs a search for neighbours and sooner or later a \
          full collection. Without G1HeapRegionSize a region is the heap's 2048th part, 1 to 32 \
          MiB. 16 MiB is the article's figure for a heap of 4 GiB; a program without objects of \
          a megabyte needs no more than the default, hence a warning only.",
    cost: Cost {
        us: 500.0,
        text: "some ms per collection that large arrays bring about; ranked at a tenth, for few programs have them",
        origin: "article on determinism, the flags for Java",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

const NAME: &str = "G1HeapRegionSize";
const WANTED: u64 = 16 << 20;

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let flags = match g1_flags(facts) {
        Ok(flags) => flags,
        Err(verdict) => return verdict,
    };
    if flags.bytes(NAME).is_none() && !flags.complete {
        return maybe_elsewhere(flags, NAME);
    }
    let Some((size, how)) = size(flags) else {
        return Verdict::unknown(format!("neither {NAME} nor the heap's size was given"));
    };
    let mib = size >> 20;
    let verdict = match size >= WANTED {
        true => Verdict::pass(format!("G1's regions have {mib} MiB")),
        false => Verdict::warn(format!("G1's regions have {mib} MiB, {how}")),
    };
    verdict.evidence(&flags.source, format!("{mib} MiB, {how}")).fix(format!("-XX:{NAME}=16m"))
}

/// As given, or as the machine would choose for a heap of this size.
fn size(flags: &Flags) -> Option<(u64, &'static str)> {
    if let Some(given) = flags.bytes(NAME) {
        return Some((given, "as told"));
    }
    let heap = flags.bytes("MaxHeapSize")?;
    let part = (heap / 2048).clamp(1 << 20, 32 << 20);
    Some((1 << part.ilog2(), "the 2048th part of the heap"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_as_told_or_a_power_of_two_below_the_heaps_2048th_part() {
        let of = |line: &str| size(&Flags::parse(line.split(' '))).map(|(size, _)| size >> 20);
        assert_eq!(of("-XX:G1HeapRegionSize=16m -Xmx1g"), Some(16));
        assert_eq!(of("-Xmx4g"), Some(2));
        assert_eq!(of("-Xmx7g"), Some(2));
        assert_eq!(of("-Xmx1m"), Some(1));
        assert_eq!(of("-Xmx900g"), Some(32));
        assert_eq!(of("-Xms1g"), None);
    }
}
