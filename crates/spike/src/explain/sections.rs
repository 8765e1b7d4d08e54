//! An explained tail as sections of a run.

use std::collections::{BTreeMap, BTreeSet};

use quietcore_measure::{
    Cell, Distribution, Flame, Kind, KindCount, Nanos, Section, Spike, Spikes, Table,
};

use super::{Attributed, Explained, LockWait, Part, rank};

/// Spans that are shown one by one.
const SHOWN: usize = 10;
/// Parts of the extra time that are listed; the others are one row.
const PARTS: usize = 12;
/// Places of a lock that are listed.
const LOCKS: usize = 10;

impl Explained {
    /// Distribution `span`, tables `explain` (the extra time, ranked), `locks` (who held what was
    /// waited for) and `explain_probes`, the slowest as `slowest`, and `tail`, their flame graph.
    pub fn sections(&self) -> Vec<Section> {
        let subject = self.subject.name();
        let labels = [("subject", subject.as_str())];
        let mut sections =
            vec![Section::Distribution(Distribution::of("span", "ns", &labels, &self.spans))];
        if self.slow.is_empty() {
            return sections;
        }
        sections.push(Section::Table(self.table()));
        let locks = self.locks();
        if !locks.rows.is_empty() {
            sections.push(Section::Table(locks));
        }
        sections.push(Section::Spikes(self.slowest()));
        sections.push(Section::Flame(self.flame()));
        if let Some(probes) = self.probes() {
            sections.push(Section::Table(probes));
        }
        sections
    }

    /// What the slow spans had that ordinary ones did not, the most first.
    /// Spans of which events are missing are left out, unless there are no others.
    pub fn parts(&self) -> Vec<Part> {
        rank(&self.ranked(), &spikes(&self.ordinary))
    }

    fn ranked(&self) -> Vec<&Spike> {
        let all = spikes(&self.slow);
        let whole: Vec<&Spike> =
            all.iter().copied().filter(|spike| spike.incomplete.is_none()).collect();
        if whole.is_empty() { all } else { whole }
    }

    fn table(&self) -> Table {
        let title = format!(
            "What {} of the slowest of {} spans had that {} ordinary ones had not, per span",
            self.ranked().len(),
            self.spans.count(),
            self.ordinary.len()
        );
        let columns = ["kind", "by", "extra_us", "share_pct", "in_spans", "evidence"];
        let mut table = Table::new("explain", &title, &columns);
        let parts = self.parts();
        let all: f64 = parts.iter().map(|part| part.extra_ns).sum();
        let rest: f64 = parts.iter().skip(PARTS).map(|part| part.extra_ns).sum();
        let others = parts.len().saturating_sub(PARTS);
        for part in parts.into_iter().take(PARTS) {
            let share = part.extra_ns / all * 100.0;
            table.rows.push(vec![
                part.kind.name().into(),
                part.by.into(),
                (part.extra_ns / 1e3).into(),
                share.into(),
                part.spans.into(),
                part.evidence.join("; ").into(),
            ]);
        }
        if others > 0 {
            table.rows.push(vec![
                "others".into(),
                format!("{others} parts").into(),
                (rest / 1e3).into(),
                (rest / all * 100.0).into(),
                Cell::Empty,
                Cell::Empty,
            ]);
        }
        table
    }

    fn locks(&self) -> Table {
        let title = "Locks that the slowest waited for; the holder is who ended the wait";
        let columns = ["waited_us", "waits", "longest_us", "holder", "holder_path", "waiting_path"];
        let mut table = Table::new("locks", title, &columns);
        let mut by_place: BTreeMap<(&str, String, String), Vec<&LockWait>> = BTreeMap::new();
        for lock in self.slow.iter().flat_map(|slow| &slow.locks) {
            let key = (lock.holder.comm.as_str(), path(&lock.holder_path), path(&lock.path));
            by_place.entry(key).or_default().push(lock);
        }
        let total = |waits: &[&LockWait]| waits.iter().map(|wait| wait.len_ns.0).sum::<u64>();
        let mut places: Vec<_> = by_place.into_iter().collect();
        places.sort_by_key(|(_, waits)| std::cmp::Reverse(total(waits)));
        for ((comm, holder_path, waiting_path), waits) in places.into_iter().take(LOCKS) {
            let tids: BTreeSet<u32> = waits.iter().map(|wait| wait.holder.tid).collect();
            let holder = match tids.first() {
                Some(tid) if tids.len() == 1 => format!("{comm} (tid {tid})"),
                _ => format!("{comm} ({} threads)", tids.len()),
            };
            let longest = waits.iter().map(|wait| wait.len_ns.0).max().unwrap_or_default();
            table.rows.push(vec![
                (total(&waits) as f64 / 1e3).into(),
                waits.len().into(),
                (longest as f64 / 1e3).into(),
                holder.into(),
                holder_path.into(),
                waiting_path.into(),
            ]);
        }
        table
    }

    fn slowest(&self) -> Spikes {
        let mut kinds: BTreeMap<Kind, KindCount> = BTreeMap::new();
        let of = |kind| KindCount { kind, spikes: 0, total_ns: Nanos(0), max_ns: Nanos(0) };
        for slow in &self.slow {
            let spike = &slow.spike;
            let named = kinds.entry(spike.kind()).or_insert_with(|| of(spike.kind()));
            named.spikes += 1;
            named.max_ns = named.max_ns.max(spike.len_ns);
            for segment in &spike.segments {
                let kind = kinds.entry(segment.kind).or_insert_with(|| of(segment.kind));
                kind.total_ns += segment.len_ns;
            }
        }
        let mut kinds: Vec<KindCount> = kinds.into_values().collect();
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.total_ns));
        let mut spikes: Vec<Spike> =
            self.slow.iter().take(SHOWN).map(|slow| slow.spike.clone()).collect();
        spikes.sort_by_key(|spike| spike.start_ns);
        Spikes {
            name: "slowest".into(),
            title: format!("The slowest spans of {}", self.subject.name()),
            threshold_ns: self.slow.last().map_or(Nanos(0), |slow| slow.spike.len_ns),
            kinds,
            omitted: (self.slow.len() - spikes.len()) as u64,
            spikes,
        }
    }

    /// The time of the slowest spans: the function, where it waited, and what for.
    fn flame(&self) -> Flame {
        let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
        for Attributed { spike, locks } in &self.slow {
            for segment in &spike.segments {
                let within = |lock: &&LockWait| {
                    lock.at_ns < segment.at_ns + segment.len_ns
                        && segment.at_ns < lock.at_ns + lock.len_ns
                };
                let mut frames = vec![self.subject.name()];
                if let Some(lock) = locks.iter().find(within) {
                    let outer = lock.path.iter().rev();
                    let below = outer.clone().position(|name| *name == frames[0]);
                    frames.extend(outer.skip(below.map_or(0, |at| at + 1)).cloned());
                }
                frames.push(match segment.by.as_str() {
                    "" => format!("[{}]", segment.kind),
                    by => format!("[{}: {by}]", segment.kind),
                });
                *stacks.entry(frames.join(";")).or_default() += segment.len_ns.0;
            }
        }
        let title = format!("The slowest spans of {}, and nothing else", self.subject.name());
        Flame { name: "tail".into(), title, unit: "ns".into(), stacks }
    }

    fn probes(&self) -> Option<Table> {
        let cost = self.cost?;
        let columns = ["what", "value", "text"];
        let mut table = Table::new("explain_probes", "The probes' own doing", &columns);
        let mut row = |what: &str, value: Cell, text: &str| {
            table.rows.push(vec![what.into(), value, text.into()]);
        };
        row("cost_per_call_ns", cost.per_call.0.into(), cost.beginning.about());
        row("cost_inside_ns", cost.inside.0.into(), "part of it that every span above contains");
        row(
            "spans_handed_over",
            self.counts.sent.into(),
            "the slow, and some of the ordinary ones",
        );
        row("spans_lost", self.counts.dropped.into(), "counted in the distribution, not explained");
        row("paths_lost", self.counts.paths_dropped.into(), "waits whose path is cut to one frame");
        row("calls_abandoned", self.counts.abandoned.into(), "left by longjmp or an exception");
        Some(table)
    }
}

fn spikes(spans: &[Attributed]) -> Vec<&Spike> {
    spans.iter().map(|span| &span.spike).collect()
}

/// Outermost first, as one reads it.
fn path(innermost_first: &[String]) -> String {
    innermost_first.iter().rev().map(String::as_str).collect::<Vec<_>>().join(" > ")
}

#[cfg(test)]
mod tests {
    use quietcore_bpf::SpanCounts;
    use quietcore_measure::{Hist, HistConfig, Segment, Thread, Validity};

    use super::*;
    use crate::explain::Subject;

    fn slow() -> Attributed {
        let segment = |at, len, kind| Segment {
            at_ns: Nanos(at),
            len_ns: Nanos(len),
            kind,
            by: String::new(),
            evidence: vec!["seen".into()],
        };
        let segments = vec![segment(0, 10, Kind::User), segment(10, 90, Kind::Lock)];
        let spike = Spike { len_ns: Nanos(100), segments, ..Spike::default() };
        let lock = LockWait {
            at_ns: Nanos(10),
            len_ns: Nanos(90),
            holder: Thread { tid: 7, pid: 1, comm: "trimmer".into() },
            holder_path: vec!["malloc_trim".into(), "main".into()],
            path: vec!["malloc".into(), "on_error".into(), "packet".into(), "main".into()],
        };
        Attributed { spike, locks: vec![lock] }
    }

    fn explained() -> Explained {
        let mut spans = Hist::new(HistConfig::default());
        spans.record_n(10, 999);
        spans.record(100);
        Explained {
            subject: Subject::Function(
                quietcore_bpf::Target { pid: 1, path: "/x".into(), offset: 0 },
                "packet".into(),
            ),
            tail: 0.001,
            spans,
            slow: vec![slow()],
            ordinary: Vec::new(),
            cost: None,
            counts: SpanCounts::default(),
            validity: Validity::default(),
        }
    }

    #[test]
    fn a_lock_names_its_holder_and_both_paths() {
        let rows = explained().locks().rows;
        let row: Vec<Cell> = vec![
            0.09.into(),
            1usize.into(),
            0.09.into(),
            "trimmer (tid 7)".into(),
            "main > malloc_trim".into(),
            "main > packet > on_error > malloc".into(),
        ];
        assert_eq!(rows, [row]);
    }

    #[test]
    fn the_flame_graph_is_rooted_in_the_function_and_weighs_as_much_as_the_tail() {
        let flame = explained().flame();
        let keys: Vec<_> = flame.stacks.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        assert_eq!(keys, [("packet;[user]", 10), ("packet;on_error;malloc;[lock]", 90)]);
    }

    #[test]
    fn without_a_slow_span_there_is_only_the_distribution() {
        let nothing = Explained { slow: Vec::new(), ..explained() };
        assert_eq!(nothing.sections().len(), 1);
        let names: Vec<_> = explained().sections().iter().map(|s| s.name().to_owned()).collect();
        assert_eq!(names, ["span", "explain", "locks", "slowest", "tail"]);
    }
}
