//! A flame graph in text: the heaviest stacks, each from whom it belongs to, to where it was.

use quietcore_measure::Flame;

use super::page::{Page, Style};
use crate::words;

/// Stacks shown unless all are asked for: a page or two.
const STACKS: usize = 8;

pub(super) fn flame(flame: &Flame, page: &mut Page) {
    page.heading(&flame.title);
    let all: u64 = flame.stacks.values().sum();
    if all == 0 {
        page.line("(no stacks)");
        return;
    }
    let mut stacks: Vec<_> = flame.stacks.iter().collect();
    stacks.sort_by_key(|&(_, weight)| std::cmp::Reverse(*weight));
    let limit = if page.options.verbose { usize::MAX } else { STACKS };
    for &(stack, &weight) in stacks.iter().take(limit) {
        let percent = weight as f64 * 100.0 / all as f64;
        let amount = match flame.unit.as_str() {
            "ns" => words::cell(&(weight as f64 / 1e6).into(), "ms"),
            unit => format!("{} {unit}", words::grouped(weight)),
        };
        let (who, frames) = stack.split_once(';').unwrap_or((stack, ""));
        page.wrapped(&format!("{percent:5.1} %  {amount}  "), who, Style::Bold);
        page.wrapped("         ", &frames.replace(';', " › "), Style::Dim);
    }
    if stacks.len() > limit {
        let (more, rest) = (stacks.len() - limit, &stacks[limit..]);
        let weight: u64 = rest.iter().map(|&(_, weight)| weight).sum();
        let percent = weight as f64 * 100.0 / all as f64;
        page.line(&format!("{percent:5.1} %  in {} more (--verbose)", words::grouped(more as u64)));
    }
}
