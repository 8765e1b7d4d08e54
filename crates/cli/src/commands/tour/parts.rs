//! What the parts of a tour measured, put together.

use quietcore_measure::{Findings, Run, Section, Table, Validity, Verdict};
use quietcore_spike::{Jitter, SpikeError, Wake};

use super::taxonomy::taxonomy;

/// What was measured so far; a part that could not be measured is noted, not left out silently.
#[derive(Debug, Default)]
pub struct Parts {
    pub validity: Validity,
    jitter: Vec<Jitter>,
    causes: Vec<Section>,
    wake: Vec<Wake>,
    feed: Vec<Section>,
}

impl Parts {
    /// Something of a part is missing.
    pub fn note(&mut self, part: &str, what: &str) {
        self.validity.note(Verdict::Incomplete, format!("{part}: {what}"));
    }

    /// A measurement, and the sections that say what its gaps were made of.
    pub fn jitter(&mut self, result: anyhow::Result<(Jitter, Vec<Section>)>) {
        match result {
            Ok((jitter, causes)) => {
                self.trust("jitter", &jitter.validity);
                self.jitter.push(jitter);
                self.causes.extend(causes);
            }
            Err(error) => self.note("jitter", &format!("{error:#}")),
        }
    }

    pub fn wake(&mut self, result: Result<Wake, SpikeError>) {
        match result {
            Ok(wake) => {
                self.trust("wake-ups", &wake.validity);
                self.wake.push(wake);
            }
            Err(error) => self.note("wake-ups", &error.to_string()),
        }
    }

    /// The market-data engine's stages. It is a program of its own and may not be installed.
    pub fn feed(&mut self, result: anyhow::Result<Run>) {
        match result {
            Ok(run) => {
                self.trust("feed", &run.validity);
                let shown =
                    |section: &Section| ["feed_stages", "feed_books"].contains(&section.name());
                self.feed.extend(run.sections.into_iter().filter(shown));
            }
            Err(error) => self.validity.note(Verdict::Valid, format!("feed: {error:#}")),
        }
    }

    fn trust(&mut self, part: &str, own: &Validity) {
        self.validity.verdict = self.validity.verdict.max(own.verdict);
        self.validity.lost_events += own.lost_events;
        for note in own.notes.iter().map(|note| format!("{part}: {note}")) {
            // What holds for every CPU is said once, though CPUs may have been measured in turns.
            if !self.validity.notes.contains(&note) {
                self.validity.notes.push(note);
            }
        }
    }

    /// The sections of the report, the overview first.
    pub fn sections(&self, findings: Findings, power: Vec<Table>) -> Vec<Section> {
        let first = taxonomy(&findings.findings, &self.jitter, &self.wake);
        let mut sections = vec![Section::Table(first), Section::Findings(findings)];
        sections.extend(power.into_iter().map(Section::Table));
        let jitter = self.jitter.iter().flat_map(Jitter::sections);
        let wake = self.wake.iter().flat_map(Wake::sections);
        for section in jitter.chain(self.causes.clone()).chain(wake).chain(self.feed.clone()) {
            join(&mut sections, section);
        }
        sections
    }
}

/// Adds a section; one that is there under this name gets its rows or series instead, so that
/// CPUs measured one after the other stand side by side.
fn join(sections: &mut Vec<Section>, section: Section) {
    let same = sections.iter_mut().find(|there| there.name() == section.name());
    match (same, section) {
        (Some(Section::Table(there)), Section::Table(more)) if there.columns == more.columns => {
            there.rows.extend(more.rows);
        }
        (Some(Section::Timeline(there)), Section::Timeline(more)) => {
            there.span_ns = there.span_ns.max(more.span_ns);
            there.series.extend(more.series);
        }
        (Some(Section::Spikes(there)), Section::Spikes(more)) => there.merge(more),
        (_, section) => sections.push(section),
    }
}

#[cfg(test)]
mod tests {
    use quietcore_measure::{Series, Timeline};

    use super::*;

    #[test]
    fn what_holds_for_every_turn_is_said_once() {
        let mut parts = Parts::default();
        for cpu in 0..2 {
            let mut own = Validity::default();
            own.note(Verdict::Valid, "timer slack was set");
            own.note(Verdict::Disturbed, format!("CPU {cpu}: steal"));
            parts.trust("wake-ups", &own);
        }
        let notes = ["timer slack was set", "CPU 0: steal", "CPU 1: steal"];
        assert_eq!(parts.validity.notes, notes.map(|note| format!("wake-ups: {note}")));
        assert_eq!(parts.validity.verdict, Verdict::Disturbed);
    }

    #[test]
    fn cpus_measured_one_after_the_other_stand_side_by_side() {
        let table = |cpu: i64| {
            let mut table = Table::new("jitter", "Gaps", &["cpu"]);
            table.rows.push(vec![cpu.into()]);
            Section::Table(table)
        };
        let timeline = |span_ns| {
            let series = vec![Series::default()];
            Section::Timeline(Timeline {
                name: "gaps".into(),
                span_ns,
                series,
                ..Timeline::default()
            })
        };
        let mut sections = Vec::new();
        for section in [table(1), timeline(5), table(0), timeline(9)] {
            join(&mut sections, section);
        }
        let [Section::Table(table), Section::Timeline(timeline)] = sections.as_slice() else {
            panic!("{sections:?}")
        };
        assert_eq!(table.rows, [[1i64.into()], [0i64.into()]]);
        assert_eq!((timeline.span_ns, timeline.series.len()), (9, 2));
    }
}
