//! Taking turns, and what comes of it: rows of a table.

use quietcore_measure::{Cell, Table};

/// One of those that are compared: does its next turn and returns nanoseconds for each thing done.
pub type Side<'a> = Box<dyn FnMut() -> anyhow::Result<f64> + 'a>;

/// Lets all take turns in so many rounds, forwards and backwards by turns, so that whatever else
/// the machine does hits them alike. Nanoseconds by side and round. The first round is not counted.
pub fn take_turns(rounds: usize, sides: &mut [Side<'_>]) -> anyhow::Result<Vec<Vec<f64>>> {
    let mut times = vec![Vec::with_capacity(rounds); sides.len()];
    for round in 0..=rounds {
        for place in 0..sides.len() {
            let side = if round % 2 == 0 { place } else { sides.len() - 1 - place };
            let time = sides[side]()?;
            if round > 0 {
                times[side].push(time);
            }
        }
    }
    Ok(times)
}

/// The better of two in each round.
pub fn better(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a.min(*b)).collect()
}

/// The value below which `q` of them lie.
fn at(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len().saturating_sub(1)) as f64 * q;
    sorted.get(place.round() as usize).copied().unwrap_or(f64::NAN)
}

/// What is to be reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// At most so much of the peer's time.
    Ratio(f64),
    /// At most so many nanoseconds more than the other side.
    More(f64),
    /// Shown for comparison.
    None,
}

/// Ours and a peer's.
#[derive(Clone, Debug)]
pub struct Row {
    what: String,
    peer: &'static str,
    ours_ns: f64,
    peer_ns: f64,
    ratios: Vec<f64>,
    /// By how much ours takes longer, the median of the rounds.
    more_ns: f64,
    target: Target,
    is_reached: Option<bool>,
    is_disturbed: bool,
}

impl Row {
    /// Of times by round.
    pub fn of(
        what: impl Into<String>,
        ours: &[f64],
        peer: &'static str,
        theirs: &[f64],
        target: Target,
    ) -> Self {
        let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, peer)| ours / peer).collect();
        let (ours_ns, peer_ns) = (at(ours, 0.5), at(theirs, 0.5));
        let more: Vec<f64> = ours.iter().zip(theirs).map(|(ours, peer)| ours - peer).collect();
        let more_ns = at(&more, 0.5);
        let is_reached = match target {
            Target::Ratio(most) => Some(at(&ratios, 0.5) <= most),
            Target::More(most) => Some(more_ns <= most),
            Target::None => None,
        };
        Self {
            what: what.into(),
            peer,
            ours_ns,
            peer_ns,
            ratios,
            more_ns,
            target,
            is_reached,
            is_disturbed: false,
        }
    }

    /// Whether its target is missed.
    pub fn is_missed(&self) -> bool {
        self.is_reached == Some(false)
    }

    /// Its target says nothing: something else than the two shaped the figures.
    pub fn disturbed(self) -> Self {
        Self { is_reached: None, is_disturbed: true, ..self }
    }

    fn cells(&self) -> Vec<Cell> {
        let rounded = |value: f64, to: f64| Cell::from((value * to).round() / to);
        let ratio = |q| rounded(at(&self.ratios, q), 1000.0);
        let target = match self.target {
            Target::Ratio(most) => format!("x {most}").into(),
            Target::More(most) => format!("+ {most} ns").into(),
            Target::None => Cell::Empty,
        };
        let is_reached = match self.is_reached {
            Some(true) => "met".into(),
            Some(false) => "not met".into(),
            None if self.is_disturbed && self.target != Target::None => "disturbed".into(),
            None => Cell::Empty,
        };
        vec![
            self.what.as_str().into(),
            self.peer.into(),
            rounded(self.ours_ns, 10.0),
            rounded(self.peer_ns, 10.0),
            ratio(0.5),
            ratio(0.1),
            ratio(0.9),
            rounded(self.more_ns, 10.0),
            target,
            is_reached,
        ]
    }
}

/// The table of all rows.
pub fn table(rows: &[Row]) -> Table {
    let columns = ["what", "peer", "ours_ns", "peer_ns", "ratio", "ratio_p10", "ratio_p90"];
    let columns = [&columns[..], &["more_ns", "target", "reached"]].concat();
    let title =
        "The engine beside its peers: medians of rounds, of each round's ratio and difference";
    let mut table = Table::new("feed_bench", title, &columns);
    table.rows = rows.iter().map(Row::cells).collect();
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_round_is_not_counted_and_every_side_has_its_turn_in_each() {
        let mut calls = [0.0, 10.0];
        let [a, b] = &mut calls;
        let mut next = [a, b].map(|calls| -> Side<'_> {
            Box::new(move || {
                *calls += 1.0;
                Ok(*calls)
            })
        });
        let times = take_turns(3, &mut next).unwrap();
        assert_eq!(times, [[2.0, 3.0, 4.0], [12.0, 13.0, 14.0]]);
    }

    #[test]
    fn the_median_of_the_ratios_is_held_against_the_target() {
        let row = |target| Row::of("a", &[1.0, 2.0, 9.0], "b", &[10.0, 10.0, 10.0], target);
        assert!(!row(Target::Ratio(0.2)).is_missed());
        assert!(row(Target::Ratio(0.19)).is_missed());
        assert!(row(Target::More(-8.1)).is_missed());
        assert!(!row(Target::More(-8.0)).is_missed());
        assert!(!row(Target::None).is_missed());
        assert!(!row(Target::Ratio(0.1)).disturbed().is_missed());
    }
}
