//! Where threads ran, as sections of a run.

use std::collections::{BTreeMap, BTreeSet};

use quietcore_bpf::{ProfileCounts, Sampled, Symbols};
use quietcore_measure::{Flame, Nanos, Section, Table};

use crate::fold;

/// Functions in the table: a page.
const FUNCTIONS: usize = 25;

/// Names what can be named while the process lives; [`Symbols`] remembers it.
pub fn flame(samples: &[Sampled], symbols: &mut Symbols) -> Flame {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for sampled in samples {
        let frames = fold::frames(symbols, sampled.tgid, &sampled.user, &sampled.kernel);
        let who = format!("{} ({})", sampled.comm, sampled.tid);
        *stacks.entry(fold::line(&who, &frames)).or_default() += sampled.count;
    }
    Flame {
        name: "profile".to_owned(),
        title: "Where threads ran, by stack".to_owned(),
        unit: "samples".to_owned(),
        stacks,
    }
}

/// Tables `profile_functions` and `profile_counts` around the flame graph.
pub fn sections(
    measured: Nanos,
    samples: &[Sampled],
    counts: &ProfileCounts,
    symbols: &mut Symbols,
) -> Vec<Section> {
    let flame = flame(samples, symbols);
    vec![
        Section::Table(functions(measured, &flame)),
        Section::Flame(flame),
        Section::Table(table_of_counts(counts)),
    ]
}

/// Functions by the samples that hit them, and those that hit what they called.
fn functions(measured: Nanos, flame: &Flame) -> Table {
    let columns = ["function", "self", "self_pct", "with_callees", "with_callees_pct"];
    let title = format!("Functions that ran most, within {measured}");
    let mut table = Table::new("profile_functions", &title, &columns);
    let mut found: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (stack, &count) in &flame.stacks {
        // The first is the thread.
        let frames: Vec<&str> = stack.split(';').skip(1).collect();
        if let Some(innermost) = frames.last() {
            found.entry(innermost).or_default().0 += count;
        }
        // A function that calls itself is counted once.
        for frame in frames.into_iter().collect::<BTreeSet<_>>() {
            found.entry(frame).or_default().1 += count;
        }
    }
    let all: u64 = flame.stacks.values().sum();
    let percent = |count: u64| count as f64 * 100.0 / all.max(1) as f64;
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|&(_, counts)| std::cmp::Reverse(counts));
    for (function, (own, with_callees)) in found.into_iter().take(FUNCTIONS) {
        table.rows.push(vec![
            function.into(),
            own.into(),
            percent(own).into(),
            with_callees.into(),
            percent(with_callees).into(),
        ]);
    }
    table
}

fn table_of_counts(counts: &ProfileCounts) -> Table {
    let title = "What was counted, and what was lost";
    let mut table = Table::new("profile_counts", title, &["what", "count"]);
    let losses = &counts.losses;
    let rows = [
        ("samples of watched threads", counts.samples),
        ("samples of others", counts.others),
        ("samples of idle CPUs", counts.idle),
        ("stacks lost for want of room", losses.stacks),
        ("samples lost for want of room", losses.sums),
        ("stacks taken for another", losses.collisions),
        ("stacks cut at 127 frames", losses.cut),
    ];
    table.rows.extend(rows.map(|(what, count)| vec![what.into(), count.into()]));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_calls_itself_is_counted_once() {
        let stacks = [("t;main;f;f".to_owned(), 3), ("t;main;g".to_owned(), 1)];
        let table = functions(Nanos(1), &Flame { stacks: stacks.into(), ..Flame::default() });
        let row = |name: &str| table.rows.iter().find(|row| row[0] == name.into()).cloned();
        assert_eq!(row("f").unwrap()[1..4], [3_u64.into(), 75.0.into(), 3_u64.into()]);
        assert_eq!(row("main").unwrap()[1..4], [0_u64.into(), 0.0.into(), 4_u64.into()]);
    }
}
