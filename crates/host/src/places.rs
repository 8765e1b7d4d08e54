//! Places that differ in one number, told as one: `/proc/irq/{24-26,30}/smp_affinity`.
//!
//! A machine with eighty CPUs has eighty governors; a table of them hides what changes. The numbers
//! stand in the kernel's own list format; of very many (threads) only the first are named.

use std::collections::BTreeSet;
use std::fmt;

/// Folds neighbours whose `key` is the same and whose places differ in one number.
pub fn fold<K: PartialEq + Clone>(rows: impl IntoIterator<Item = (K, String)>) -> Vec<Folded<K>> {
    let one = |(key, place): (K, String)| Folded { key, parts: split(&place), places: 1 };
    let mut rows: Vec<Folded<K>> = rows.into_iter().map(one).collect();
    loop {
        let before = rows.len();
        rows = pass(rows);
        if rows.len() == before {
            return rows;
        }
    }
}

/// Some places as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded<K> {
    /// What they have in common.
    pub key: K,
    /// How many they are.
    pub places: usize,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Number(u64),
    Numbers(BTreeSet<u64>),
}

impl<K> fmt::Display for Folded<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(text),
            Part::Number(number) => number.fmt(f),
            Part::Numbers(numbers) => write!(f, "{{{}}}", shortened(&list(numbers))),
        })
    }
}

/// Threads are many, and their numbers tell nobody anything.
fn shortened(list: &str) -> String {
    const LONGEST: usize = 40;
    match list.len() > LONGEST {
        true => format!("{},…", &list[..list[..LONGEST].rfind(',').unwrap_or(LONGEST)]),
        false => list.to_owned(),
    }
}

/// `24-26,30`
fn list(numbers: &BTreeSet<u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// One round: what was folded in one number may be folded in another in the next.
fn pass<K: PartialEq>(rows: Vec<Folded<K>>) -> Vec<Folded<K>> {
    let mut folded: Vec<Folded<K>> = Vec::with_capacity(rows.len());
    // Where the last row is growing.
    let mut growing = None;
    for row in rows {
        if let Some(last) = folded.last_mut().filter(|last| last.key == row.key) {
            let place = differs(&last.parts, &row.parts);
            if let Some(at) = place.filter(|at| growing.is_none_or(|growing| growing == *at)) {
                growing = Some(at);
                last.parts[at] = joined(&last.parts[at], &row.parts[at]);
                last.places += row.places;
                continue;
            }
        }
        growing = None;
        folded.push(row);
    }
    folded
}

/// The only place in which two differ, where that is a number in both.
fn differs(a: &[Part], b: &[Part]) -> Option<usize> {
    if a.len() != b.len() {
        return None;
    }
    let mut places = (0..a.len()).filter(|at| a[*at] != b[*at]);
    let (first, second) = (places.next()?, places.next());
    let number = |part: &Part| !matches!(part, Part::Text(_));
    let lists = |part: &Part| matches!(part, Part::Numbers(_));
    // A list is met by a single number only: two lists may overlap.
    let fits = number(&a[first]) && number(&b[first]) && !lists(&b[first]);
    (second.is_none() && fits).then_some(first)
}

fn joined(a: &Part, b: &Part) -> Part {
    let set = |part: &Part| match part {
        Part::Number(number) => BTreeSet::from([*number]),
        Part::Numbers(numbers) => numbers.clone(),
        Part::Text(_) => BTreeSet::new(),
    };
    Part::Numbers(&set(a) | &set(b))
}

/// Numbers as the kernel writes them: without zeros before, and not too long to be one.
fn split(place: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = place;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        let number = part.parse().ok().filter(|n: &u64| n.to_string() == part);
        parts.push(match number {
            Some(number) if digits => Part::Number(number),
            _ => Part::Text(part.to_owned()),
        });
        rest = behind;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(places: &[&str]) -> Vec<String> {
        fold(places.iter().map(|place| ((), (*place).to_owned())))
            .iter()
            .map(|row| format!("{row} x{}", row.places))
            .collect()
    }

    #[test]
    fn neighbours_that_differ_in_one_number_become_one() {
        assert_eq!(folded(&["/irq/24/a", "/irq/25/a", "/irq/30/a"]), ["/irq/{24-25,30}/a x3"]);
        assert_eq!(folded(&["/irq/24/a", "/irq/24/b"]), ["/irq/24/a x1", "/irq/24/b x1"]);
        assert_eq!(folded(&["/a", "/irq/1/a", "/b"]).len(), 3);
    }

    #[test]
    fn two_numbers_fold_one_after_the_other() {
        let places = ["/cpu2/state1", "/cpu2/state2", "/cpu3/state1", "/cpu3/state2"];
        assert_eq!(folded(&places), ["/cpu{2-3}/state{1-2} x4"]);
        assert_eq!(folded(&places[..3]), ["/cpu2/state{1-2} x2", "/cpu3/state1 x1"]);
    }

    #[test]
    fn what_differs_otherwise_stays_apart() {
        let rows = [(1, "/p0".to_owned()), (2, "/p1".to_owned())];
        assert_eq!(fold(rows).len(), 2, "another key");
        assert_eq!(folded(&["/0000:00:02.0/x", "/0000:00:03.0/x"]).len(), 2, "no plain numbers");
        assert_eq!(folded(&["thread 16385", "thread 4194303"]), ["thread {16385,4194303} x2"]);
        assert_eq!(folded(&["/p99999999999999999999", "/p1"]).len(), 2);
        assert!(folded(&[]).is_empty());
    }
}
