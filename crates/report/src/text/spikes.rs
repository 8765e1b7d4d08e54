//! Spikes: what is to blame, then the longest taken apart.

use quietcore_measure::{Kind, Nanos, Spike, Spikes};

use super::page::{Page, Style};
use super::table;
use crate::{spikes, words};

/// Spikes shown unless all are asked for.
const SHOWN: usize = 10;
/// Characters of a bar: fits the narrowest page that the command line makes.
const BAR: usize = 56;
/// Shares of a spike that get a letter.
const SHARES: usize = 8;

pub(super) fn spikes(section: &Spikes, page: &mut Page) {
    table::table(&spikes::kinds(section), page);
    let mut longest: Vec<&Spike> = section.spikes.iter().collect();
    longest.sort_by_key(|spike| std::cmp::Reverse(spike.len_ns));
    let limit = if page.options.verbose { usize::MAX } else { SHOWN };
    let shown = longest.len().min(limit);
    if shown == 0 {
        return;
    }
    let all = words::grouped(section.spikes.len() as u64 + section.omitted);
    page.blank();
    page.wrapped("", &format!("The {shown} longest of {all}"), Style::Bold);
    for spike in longest.into_iter().take(limit) {
        page.blank();
        one(spike, page);
    }
}

fn one(spike: &Spike, page: &mut Page) {
    let head = format!("{}  {} on CPU {}", spike.len_ns, spikes::thread(&spike.thread), spike.cpu);
    page.wrapped("", &head, Style::Bold);
    let shares = spike.shares();
    page.line(&format!("  {}", bar(spike, &shares)));
    for (index, &(kind, by, len)) in shares.iter().take(SHARES).enumerate() {
        let pct = words::number(share(len, spike.len_ns));
        let text = format!("{} {pct} %  {}", len, spikes::named(kind, by));
        page.wrapped(&format!("  {}  ", letter(index)), &text, Style::Plain);
        let limit = if page.options.verbose { usize::MAX } else { 2 };
        let of_share = spike.segments.iter().find(|s| s.kind == kind && s.by == by);
        for line in of_share.into_iter().flat_map(|s| &s.evidence).take(limit) {
            page.wrapped("       ", line, Style::Dim);
        }
    }
    if shares.len() > SHARES {
        page.wrapped("  ", &format!("… and {} more", shares.len() - SHARES), Style::Dim);
    }
    if let Some(why) = &spike.incomplete {
        page.wrapped("  ! ", &format!("may not be the whole truth: {why}"), Style::Caution);
    }
}

/// Percent, to a tenth.
fn share(part: Nanos, whole: Nanos) -> f64 {
    (part.0 as f64 / whole.0.max(1) as f64 * 1000.0).round() / 10.0
}

fn letter(index: usize) -> char {
    if index < SHARES { char::from(b'a' + index as u8) } else { '.' }
}

/// The spike from left to right: the letter of whatever has most of each character's time.
fn bar(spike: &Spike, shares: &[(Kind, &str, Nanos)]) -> String {
    let place = |at: Nanos| at.0 as f64 / spike.len_ns.0.max(1) as f64 * BAR as f64;
    let mut most = [(0.0, ' '); BAR];
    for segment in &spike.segments {
        let index =
            shares.iter().position(|&(kind, by, _)| (kind, by) == (segment.kind, &segment.by));
        let (from, to) = (place(segment.at_ns), place(segment.at_ns + segment.len_ns));
        for (cell, best) in most.iter_mut().enumerate() {
            let covered = to.min(cell as f64 + 1.0) - from.max(cell as f64);
            if covered > best.0 {
                *best = (covered, letter(index.unwrap_or(SHARES)));
            }
        }
    }
    most.iter().map(|&(_, letter)| letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietcore_measure::Segment;

    #[test]
    fn a_bar_shows_each_share_where_and_as_long_as_it_was() {
        let segment = |at, len, kind| {
            let (by, evidence) = (String::new(), Vec::new());
            Segment { at_ns: Nanos(at), len_ns: Nanos(len), kind, by, evidence }
        };
        let segments = vec![segment(0, 20, Kind::Lock), segment(20, 36, Kind::RunQueue)];
        let spike = Spike { len_ns: Nanos(56), segments, ..Spike::default() };
        assert_eq!(bar(&spike, &spike.shares()), "b".repeat(20) + &"a".repeat(36));
    }
}
