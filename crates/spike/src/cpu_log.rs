//! What one CPU recorded, as far as it has been read.

use std::collections::VecDeque;

use quietcore_bpf::{Batch, Event, What};

/// The events of a CPU by time, and the stretches of which some are missing.
#[derive(Debug, Default)]
pub(crate) struct CpuLog {
    events: VecDeque<Event>,
    holes: Vec<(u64, u64)>,
}

impl CpuLog {
    /// What was read once, with nothing after it.
    pub fn of(batch: Batch, keep: impl Fn(&Event) -> bool) -> Self {
        let unread = batch.events.iter().map(|event| event.ts).max().filter(|_| batch.left > 0);
        let mut log = Self::default();
        log.append(batch, keep);
        log.holes.extend(unread.map(|from| (from, u64::MAX)));
        log
    }

    /// What was read next.
    pub fn append(&mut self, batch: Batch, keep: impl Fn(&Event) -> bool) {
        if batch.lost > 0 {
            let from = self.events.back().map_or(0, |event| event.ts);
            let to = batch.events.first().map_or(u64::MAX, |event| event.ts);
            self.holes.push((from, to));
        }
        let mut events = batch.events;
        events.retain(keep);
        // An interrupt may have overtaken what it interrupted.
        let first = events.iter().map(|event| event.ts).min().unwrap_or(u64::MAX);
        while let Some(late) = self.events.back().copied().filter(|event| event.ts > first) {
            events.push(late);
            self.events.pop_back();
        }
        events.sort_by_key(|event| event.ts);
        self.events.extend(events);
    }

    /// Keeps no more than `most` events.
    pub fn shorten(&mut self, most: usize) {
        while self.events.len() > most {
            let gone = self.events.pop_front().map_or(0, |event| event.ts);
            match self.holes.first_mut() {
                Some(first) if first.0 == 0 => first.1 = first.1.max(gone),
                _ => self.holes.insert(0, (0, gone)),
            }
        }
    }

    /// Drops what was before a moment.
    pub fn forget(&mut self, before: u64) {
        let old = self.events.partition_point(|event| event.ts < before);
        self.events.drain(..old);
        self.holes.retain(|hole| hole.1 >= before);
    }

    /// The events in `[from, until]`, after what says how things stood at `from`: who ran, whether
    /// the CPU idled, and why it ticked; and the next, which may tell of the time before it.
    pub fn between(&self, from: u64, until: u64) -> impl Iterator<Item = &Event> {
        const ENOUGH: usize = 4;
        // A CPU may go without a switch for long.
        const FAR: usize = 1 << 10;
        let first = self.events.partition_point(|event| event.ts < from);
        let is_switch = |event: &Event| matches!(event.what, What::Switch { .. });
        let oldest = first.saturating_sub(FAR);
        let switch = self.events.range(oldest..first).rposition(is_switch);
        let switch = switch.map_or(first, |at| oldest + at);
        let older = self.events.range(switch.min(first.saturating_sub(ENOUGH))..first);
        let end = self.events.partition_point(|event| event.ts <= until).max(first);
        // Not who came next: that says nothing of the time before, and is later on one CPU than on another.
        let next = self.events.get(end).filter(|event| !is_switch(event));
        older.filter(|event| event.what.stands()).chain(self.events.range(first..end)).chain(next)
    }

    /// Whether none of the events between two moments are missing.
    pub fn is_whole(&self, from: u64, until: u64) -> bool {
        !self.holes.iter().any(|&(begin, end)| begin < until && from < end)
    }
}

#[cfg(test)]
mod tests {
    use quietcore_bpf::Name;

    use super::*;

    fn event(ts: u64, what: What) -> Event {
        Event { ts, cpu: 0, what }
    }

    fn switch(ts: u64) -> Event {
        let (from, state, to, tgid, prio) = (1, 1, 2, 2, 120);
        event(
            ts,
            What::Switch { from, state, preempt: false, to, tgid, prio, comm: Name::from("") },
        )
    }

    fn batch(events: &[Event]) -> Batch {
        Batch { events: events.to_vec(), ..Batch::default() }
    }

    fn times(log: &CpuLog, from: u64, until: u64) -> Vec<u64> {
        log.between(from, until).map(|event| event.ts).collect()
    }

    #[test]
    fn what_an_interrupt_overtook_takes_its_place() {
        let nmi = |ts| event(ts, What::Nmi { ns: 1 });
        let mut log = CpuLog::default();
        log.append(batch(&[nmi(10), nmi(30)]), |_| true);
        log.append(batch(&[nmi(40), nmi(20), nmi(50)]), |event| event.ts != 50);
        assert_eq!(times(&log, 0, 99), [10, 20, 30, 40]);
        assert_eq!(times(&log, 20, 30), [20, 30, 40], "the next as well");
    }

    #[test]
    fn how_things_stood_comes_first() {
        let (idle, nmi) =
            (|ts| event(ts, What::Idle { state: Some(1) }), event(40, What::Nmi { ns: 1 }));
        let mut log = CpuLog::default();
        log.append(batch(&[switch(10), switch(20), idle(30), nmi, switch(50)]), |_| true);
        assert_eq!(times(&log, 45, 60), [10, 20, 30, 50], "four before, as far as they stand");
        log.forget(20);
        assert_eq!(times(&log, 45, 49), [20, 30], "but for who came next");
    }

    #[test]
    fn what_is_missing_is_known_by_when_it_was() {
        let mut log = CpuLog::of(Batch { left: 1, ..batch(&[switch(10), switch(20)]) }, |_| true);
        assert!(log.is_whole(0, 20) && !log.is_whole(0, 21));
        log = CpuLog::of(Batch { lost: 3, ..batch(&[switch(10), switch(20)]) }, |_| true);
        assert!(log.is_whole(10, 99) && !log.is_whole(9, 15));
        log.append(Batch { lost: 1, ..batch(&[switch(40), switch(50)]) }, |_| true);
        assert!(log.is_whole(10, 20) && !log.is_whole(25, 30) && log.is_whole(40, 99));
        log.shorten(1);
        assert_eq!(times(&log, 0, 99), [50]);
        assert!(!log.is_whole(30, 45) && log.is_whole(45, 99));
    }
}
