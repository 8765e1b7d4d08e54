//! Cutting a stretch of time among what claims parts of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use quietcore_measure::{Kind, Nanos};

/// More pieces than these are no picture any more: neighbours of one kind become one.
const MANY: usize = 128;

/// A stretch of time with a cause; times are CLOCK_MONOTONIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub start: u64,
    pub end: u64,
    pub kind: Kind,
    pub by: String,
    pub evidence: Vec<String>,
    /// When what interrupted was due, or was asked for, where that is known.
    pub due: Option<u64>,
}

impl Piece {
    pub fn new(start: u64, end: u64, kind: Kind, by: impl Into<String>) -> Self {
        Self { start, end, kind, by: by.into(), evidence: Vec::new(), due: None }
    }

    pub fn with(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    pub fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// Lays `layers` over `base`, which covers a stretch without a hole: at each moment the layer wins
/// that began last, and of those the one that ends first. Of nested ones that is the innermost.
pub(super) fn paint(base: Vec<Piece>, mut layers: Vec<Piece>) -> Vec<Piece> {
    layers.retain(|layer| layer.start < layer.end);
    if layers.is_empty() {
        return base;
    }
    layers.sort_by_key(|layer| layer.start);
    let ends = |pieces: &[Piece]| -> Vec<u64> {
        pieces.iter().flat_map(|piece| [piece.start, piece.end]).collect()
    };
    let mut cuts = [ends(&base), ends(&layers)].concat();
    cuts.sort_unstable();
    cuts.dedup();

    let mut painted: Vec<(usize, u64, u64)> = Vec::new();
    let (mut next, mut under) = (0, 0);
    let mut active = BinaryHeap::new();
    for cut in cuts.windows(2) {
        let (from, to) = (cut[0], cut[1]);
        while layers.get(next).is_some_and(|layer| layer.start <= from) {
            active.push((layers[next].start, Reverse(layers[next].end), next));
            next += 1;
        }
        while active.peek().is_some_and(|(_, end, _)| end.0 <= from) {
            active.pop();
        }
        while base.get(under).is_some_and(|piece| piece.end <= from) {
            under += 1;
        }
        // Layers may reach beyond the stretch.
        if base.get(under).is_none_or(|piece| piece.start > from) {
            continue;
        }
        let what = active.peek().map_or(layers.len() + under, |&(.., layer)| layer);
        match painted.last_mut() {
            Some(last) if last.0 == what && last.2 == from => last.2 = to,
            _ => painted.push((what, from, to)),
        }
    }
    let piece = |(what, start, end): (usize, u64, u64)| {
        let source = layers.get(what).unwrap_or_else(|| &base[what - layers.len()]);
        Piece { start, end, ..source.clone() }
    };
    painted.into_iter().map(piece).collect()
}

/// Without empty pieces, and with neighbours of the same cause as one. Where that leaves very many,
/// neighbours of one kind become one that names who took most.
pub(super) fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            _ if piece.start == piece.end => {}
            Some(last) if (last.kind, &last.by) == (piece.kind, &piece.by) => {
                last.end = piece.end;
                for line in piece.evidence {
                    if !last.evidence.contains(&line) && last.evidence.len() < MANY {
                        last.evidence.push(line);
                    }
                }
            }
            _ => joined.push(piece),
        }
    }
    if joined.len() <= MANY {
        return joined;
    }
    joined.chunk_by(|a, b| a.kind == b.kind).map(together).collect()
}

/// Neighbours of one kind as one piece.
fn together(pieces: &[Piece]) -> Piece {
    let (first, last) = (&pieces[0], &pieces[pieces.len() - 1]);
    if pieces.len() == 1 {
        return first.clone();
    }
    let mut shares: BTreeMap<&str, u64> = BTreeMap::new();
    for piece in pieces {
        *shares.entry(&piece.by).or_default() += piece.len();
    }
    let mut shares: Vec<_> = shares.into_iter().collect();
    shares.sort_by_key(|&(_, ns)| Reverse(ns));
    let by = match &shares[..] {
        [(by, _)] => (*by).to_owned(),
        [(by, _), others @ ..] => format!("{by} and {} others", others.len()),
        [] => String::new(),
    };
    let line = |&(by, ns): &(&str, u64)| format!("{} altogether: {by}", Nanos(ns));
    let evidence = shares.iter().take(MANY).map(line).collect();
    Piece { start: first.start, end: last.end, kind: first.kind, by, evidence, due: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start: u64, end: u64, by: &str) -> Piece {
        Piece::new(start, end, Kind::User, by)
    }

    fn shown(pieces: &[Piece]) -> Vec<(u64, u64, &str)> {
        pieces.iter().map(|p| (p.start, p.end, p.by.as_str())).collect()
    }

    #[test]
    fn the_innermost_wins() {
        let layers = vec![piece(2, 8, "softirq"), piece(4, 5, "irq"), piece(4, 6, "vector")];
        let painted = paint(vec![piece(0, 10, "base")], layers);
        let expected = [
            (0, 2, "base"),
            (2, 4, "softirq"),
            (4, 5, "irq"),
            (5, 6, "vector"),
            (6, 8, "softirq"),
            (8, 10, "base"),
        ];
        assert_eq!(shown(&painted), expected);
    }

    #[test]
    fn layers_do_not_reach_beyond_the_base() {
        let base = vec![piece(10, 20, "a"), piece(20, 30, "b")];
        let painted = paint(base, vec![piece(0, 12, "x"), piece(18, 99, "y")]);
        assert_eq!(shown(&painted), [(10, 12, "x"), (12, 18, "a"), (18, 30, "y")]);
    }

    #[test]
    fn very_many_neighbours_of_one_kind_become_one_that_says_who_took_most() {
        let pieces: Vec<_> = (0..300u64)
            .map(|i| {
                piece(
                    i * 10,
                    i * 10 + 10,
                    if i % 3 == 0 { "a" } else { ["b", "c"][(i % 2) as usize] },
                )
            })
            .collect();
        let joined = joined(pieces);
        assert_eq!(shown(&joined), [(0, 3000, "a and 2 others")]);
        assert_eq!(joined[0].evidence.len(), 3);
    }
}
