//! A flame graph: every function as wide as the time below it, what it called under it.
//!
//! Frames are text in the page, not pixels: what is too narrow for its name tells it to whoever
//! points at it, and the table of stacks beneath has all of them.

use quietcore_measure::Flame;

use super::markup::{Esc, put};
use crate::words;

/// Frames narrower than this share of the whole are not drawn.
const NARROWEST: f64 = 0.001;

/// The height of a row, in rem.
const ROW: f64 = 1.5;

/// One function in one place of the picture.
#[derive(Debug, PartialEq)]
struct Frame<'a> {
    name: &'a str,
    /// How many called each other to get here.
    depth: usize,
    before: u64,
    weight: u64,
}

pub(super) fn render(flame: &Flame, out: &mut String) {
    let whole: u64 = flame.stacks.values().sum();
    if whole == 0 {
        return;
    }
    let share = |weight: u64| weight as f64 / whole as f64;
    let mut drawn = frames(flame);
    drawn.retain(|frame| share(frame.weight) >= NARROWEST);
    let rows = drawn.iter().map(|frame| frame.depth + 1).max().unwrap_or(0);
    put!(
        out,
        "<div class=\"flame\" role=\"img\" aria-label=\"Flame graph of {}; the table below has \
         every stack\" style=\"height:{}rem\">\n",
        Esc(&words::value(whole as f64, &flame.unit)),
        rows as f64 * ROW,
    );
    for Frame { name, depth, before, weight } in drawn {
        put!(
            out,
            "<i class=\"{}\" style=\"left:{:.3}%;width:{:.3}%;top:{}rem\" title=\"{name}: {}, \
             {:.1} %\">{name}</i>\n",
            colour(name),
            share(before) * 100.0,
            share(weight) * 100.0,
            depth as f64 * ROW,
            Esc(&words::value(weight as f64, &flame.unit)),
            share(weight) * 100.0,
            name = Esc(name),
        );
    }
    out.push_str("</div>\n");
}

/// Frames, each once beside its neighbours of the same name and callers.
fn frames(flame: &Flame) -> Vec<Frame<'_>> {
    let stacks = flame.stacks.iter();
    let mut stacks: Vec<(Vec<&str>, u64)> =
        stacks.map(|(stack, &weight)| (stack.split(';').collect(), weight)).collect();
    stacks.sort();
    let (mut all, mut open): (Vec<Frame<'_>>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut before = 0;
    for (names, weight) in stacks {
        let shared = open.iter().zip(&names).take_while(|(at, name)| all[**at].name == **name);
        open.truncate(shared.count());
        for at in &open {
            all[*at].weight += weight;
        }
        for (depth, name) in names.iter().enumerate().skip(open.len()) {
            open.push(all.len());
            all.push(Frame { name, depth, before, weight });
        }
        before += weight;
    }
    all
}

/// The program's functions, the kernel's, and what is no function but a cause.
fn colour(name: &str) -> &'static str {
    match name {
        cause if cause.starts_with('[') => "k1",
        kernel if kernel.ends_with("_[k]") => "k4",
        _ => "k0",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flame(stacks: &[(&str, u64)]) -> Flame {
        let stacks = stacks.iter().map(|&(stack, n)| (stack.to_owned(), n)).collect();
        Flame { unit: "ns".into(), stacks, ..Flame::default() }
    }

    #[test]
    fn a_caller_is_as_wide_as_what_it_called() {
        // As text "a b" comes between "a;c" and "a;d"; as functions it does not.
        let flame = flame(&[("a;c", 3), ("a b", 5), ("a;d;[lock]", 2)]);
        let frame = |name, depth, before, weight| Frame { name, depth, before, weight };
        assert_eq!(
            frames(&flame),
            [
                frame("a", 0, 0, 5),
                frame("c", 1, 0, 3),
                frame("d", 1, 3, 2),
                frame("[lock]", 2, 3, 2),
                frame("a b", 0, 5, 5),
            ]
        );
    }

    #[test]
    fn what_would_not_be_seen_is_not_drawn_and_names_are_inert() {
        let mut out = String::new();
        render(&flame(&[("<b>;read_[k]", 9_999), ("tiny", 1)]), &mut out);
        assert!(out.contains("&lt;b&gt;: 10.00 µs, 100.0 %") && !out.contains("tiny"), "{out}");
        assert!(out.contains("class=\"k4\"") && out.contains("height:3rem"), "{out}");
        out.clear();
        render(&flame(&[]), &mut out);
        assert_eq!(out, "");
    }
}
