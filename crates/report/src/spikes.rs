//! Spikes and stacks as tables.

use quietcore_measure::{Cell, Flame, Spikes, Table};

/// What is to blame, the most time first.
pub fn kinds(spikes: &Spikes) -> Table {
    let columns = ["kind", "spikes", "total_us", "longest_us"];
    let mut table = Table::new(&spikes.name, &spikes.title, &columns);
    for of in &spikes.kinds {
        let us = |ns: u64| Cell::from(ns as f64 / 1e3);
        table.rows.push(vec![
            of.kind.name().into(),
            of.spikes.into(),
            us(of.total_ns.0),
            us(of.max_ns.0),
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
