//! What the slowest spans had that ordinary ones did not. Pure.

use std::collections::{BTreeMap, BTreeSet};

use quietcore_measure::{Kind, Segment, Spike};

/// Lines of evidence that are kept of each part.
const EVIDENCE: usize = 2;

/// A part of the extra time.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What it was.
    pub kind: Kind,
    /// Who or what exactly; may be empty. Those who took the CPU are named without their numbers.
    pub by: String,
    /// How much more of it a slow span had than an ordinary one, on average, in nanoseconds. Below 0
    /// where ordinary ones had more.
    pub extra_ns: f64,
    /// In how many of the slow spans.
    pub spans: usize,
    /// What says so, of the span that had the most of it.
    pub evidence: Vec<String>,
}

/// The parts of the extra time, the most first. They add up to the difference of the mean lengths.
pub fn rank(slow: &[&Spike], ordinary: &[&Spike]) -> Vec<Part> {
    let (of_slow, of_ordinary) = (means(slow), means(ordinary));
    let keys: BTreeSet<&(Kind, &str)> = of_slow.keys().chain(of_ordinary.keys()).collect();
    let mean = |means: &BTreeMap<(Kind, &str), f64>, key| means.get(key).copied().unwrap_or(0.0);
    let mut parts: Vec<Part> = keys
        .into_iter()
        .map(|key| {
            let &(kind, by) = key;
            let (spans, evidence) = evidence(slow, kind, by);
            let extra_ns = mean(&of_slow, key) - mean(&of_ordinary, key);
            Part { kind, by: by.to_owned(), extra_ns, spans, evidence }
        })
        .collect();
    parts.sort_by(|a, b| b.extra_ns.total_cmp(&a.extra_ns));
    parts
}

/// Nanoseconds per span, by kind and by whom.
fn means<'a>(spikes: &[&'a Spike]) -> BTreeMap<(Kind, &'a str), f64> {
    let mut sums: BTreeMap<_, f64> = BTreeMap::new();
    for spike in spikes {
        for segment in &spike.segments {
            let key = (segment.kind, whom(segment));
            *sums.entry(key).or_default() += segment.len_ns.0 as f64 / spikes.len() as f64;
        }
    }
    sums
}

/// A compiler's many processes are one neighbour.
fn whom(segment: &Segment) -> &str {
    let by = segment.by.as_str();
    match segment.kind {
        Kind::Preempted | Kind::RunQueue => by.split(" (tid ").next().unwrap_or(by),
        _ => by,
    }
}

fn evidence(spikes: &[&Spike], kind: Kind, by: &str) -> (usize, Vec<String>) {
    let matching = spikes.iter().map(|spike| {
        spike.segments.iter().filter(move |s| s.kind == kind && whom(s) == by).collect::<Vec<_>>()
    });
    let with: Vec<_> = matching.filter(|segments| !segments.is_empty()).collect();
    let longest = with.iter().flatten().max_by_key(|segment| segment.len_ns);
    let lines = longest.map_or(&[][..], |segment| &segment.evidence);
    (with.len(), lines.iter().take(EVIDENCE).cloned().collect())
}

#[cfg(test)]
mod tests {
    use quietcore_measure::Nanos;

    use super::*;

    fn spike(parts: &[(Kind, &str, u64)]) -> Spike {
        let mut at = 0;
        let mut segments = Vec::new();
        for &(kind, by, len) in parts {
            let evidence = vec![format!("{len} ns")];
            let (at_ns, len_ns) = (Nanos(at), Nanos(len));
            segments.push(Segment { at_ns, len_ns, kind, by: by.to_owned(), evidence });
            at += len;
        }
        Spike { len_ns: Nanos(at), segments, ..Spike::default() }
    }

    #[test]
    fn what_only_slow_spans_have_comes_first_and_all_parts_add_up() {
        let slow = [
            spike(&[(Kind::User, "", 100), (Kind::Lock, "b", 900)]),
            spike(&[(Kind::User, "", 120), (Kind::Lock, "b", 500), (Kind::Tick, "", 4)]),
        ];
        let ordinary = [spike(&[(Kind::User, "", 90)]), spike(&[(Kind::User, "", 94)])];
        let (slow, ordinary): (Vec<_>, Vec<_>) = (slow.iter().collect(), ordinary.iter().collect());
        let parts = rank(&slow, &ordinary);
        assert_eq!((parts[0].kind, parts[0].extra_ns, parts[0].spans), (Kind::Lock, 700.0, 2));
        assert_eq!(parts[0].evidence, ["900 ns"]);
        assert_eq!((parts[1].kind, parts[1].extra_ns), (Kind::User, 18.0));
        assert_eq!((parts[2].kind, parts[2].spans), (Kind::Tick, 1));
        let mean = |spikes: &[&Spike]| {
            spikes.iter().map(|s| s.len_ns.0 as f64).sum::<f64>() / spikes.len() as f64
        };
        let sum: f64 = parts.iter().map(|part| part.extra_ns).sum();
        assert!((sum - (mean(&slow) - mean(&ordinary))).abs() < 1e-6);
    }

    #[test]
    fn neighbours_of_one_name_are_one_and_holders_are_not() {
        let slow = spike(&[
            (Kind::Preempted, "cc1 (tid 1)", 10),
            (Kind::Preempted, "cc1 (tid 2)", 10),
            (Kind::Lock, "a (tid 3)", 9),
            (Kind::Lock, "a (tid 4)", 8),
        ]);
        let names: Vec<String> = rank(&[&slow], &[]).into_iter().map(|part| part.by).collect();
        assert_eq!(names, ["cc1", "a (tid 3)", "a (tid 4)"]);
    }

    #[test]
    fn without_ordinary_spans_everything_is_extra() {
        let slow = spike(&[(Kind::User, "", 100)]);
        assert_eq!(rank(&[&slow], &[])[0].extra_ns, 100.0);
        assert!(rank(&[], &[]).is_empty());
    }
}
