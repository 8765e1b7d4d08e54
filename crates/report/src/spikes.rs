//! Spikes and stacks in words and as tables.

use quietcore_measure::{Cell, Flame, Kind, Spike, Spikes, Table, Thread};

use crate::words;

/// A kind in words, as `run queue`.
pub(crate) fn kind(kind: Kind) -> String {
    kind.name().replace('_', " ")
}

/// A kind and who it was, as `run queue: rustc (tid 99)`.
pub(crate) fn named(of: Kind, by: &str) -> String {
    match by {
        "" => kind(of),
        by => format!("{}: {}", kind(of), words::tame(by)),
    }
}

/// A thread, as `tx-0 (tid 815 of 812)`.
pub(crate) fn thread(thread: &Thread) -> String {
    let name = words::tame(&thread.comm);
    match thread.tid == thread.pid {
        true => format!("{name} (tid {})", thread.tid),
        false => format!("{name} (tid {} of {})", thread.tid, thread.pid),
    }
}

/// A spike in one line, however long: its length, whom it hit, what it was made of.
pub fn line(spike: &Spike) -> String {
    let shares = spike.shares();
    let parts: Vec<_> =
        shares.iter().map(|&(kind, by, len)| format!("{len} {}", named(kind, by))).collect();
    let length = spike.len_ns.to_string();
    format!("{length:>9}  {} on CPU {}: {}", thread(&spike.thread), spike.cpu, parts.join(" · "))
}

/// What is to blame, the most time first.
pub fn kinds(spikes: &Spikes) -> Table {
    let columns = ["kind", "spikes", "total_ns", "longest_ns"];
    let mut table = Table::new(&spikes.name, &spikes.title, &columns);
    for of in &spikes.kinds {
        table.rows.push(vec![
            of.kind.name().into(),
            of.spikes.into(),
            of.total_ns.0.into(),
            // What names none has no longest.
            if of.spikes == 0 { Cell::Empty } else { of.max_ns.0.into() },
        ]);
    }
    table
}

/// Every stack, the heaviest first.
pub fn stacks(flame: &Flame) -> Table {
    let mut table = Table::new(&flame.name, &flame.title, &["stack", &flame.unit]);
    let mut stacks: Vec<_> = flame.stacks.iter().collect();
    stacks.sort_by_key(|&(_, weight)| std::cmp::Reverse(*weight));
    table.rows = stacks
        .into_iter()
        .map(|(stack, &weight)| vec![stack.as_str().into(), weight.into()])
        .collect();
    table
}
