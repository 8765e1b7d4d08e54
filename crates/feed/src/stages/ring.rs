//! From the hot thread to whoever counts, without waiting for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::{Kind, Way};

/// A message's way takes half a line of the cache: the hot thread's writes go through its caches, and what
/// they push out are the books. Half words, the first of which says whose way it is.
#[derive(Debug, Default)]
#[repr(align(32))]
struct Line([AtomicU64; 4]);

const UNKNOWN: u32 = u32::MAX;

/// From here on a time is kept in units of 2^16: half a second and more to within 20 µs.
const LONG: u64 = 1 << 31;

fn short(time: u64) -> u32 {
    match time < LONG {
        true => time as u32,
        false => (LONG | (time >> 16).min(LONG - 2)) as u32,
    }
}

fn long(kept: u32) -> u64 {
    let kept = u64::from(kept);
    if kept < LONG { kept } else { (kept - LONG) << 16 }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn halves(pair: u64) -> [u32; 2] {
    [pair as u32, (pair >> 32) as u32]
}

/// The writing end of a ring of ways; for one thread.
#[derive(Debug)]
pub struct Recorder {
    lines: Arc<[Line]>,
    mask: u64,
    written: u64,
}

/// The reading end.
#[derive(Debug)]
pub struct Drain {
    lines: Arc<[Line]>,
    mask: u64,
    taken: u64,
    missed: u64,
}

/// What the ring holds of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// What it was.
    pub kind: Kind,
    /// Its way.
    pub way: Way,
}

/// A ring for so many messages (rounded up to a power of two). The oldest are overwritten; the
/// reader counts what it missed.
pub fn ring(messages: usize) -> (Recorder, Drain) {
    let slots = messages.clamp(2, 1 << 24).next_power_of_two();
    // The first line is the head: how many were written.
    let lines: Arc<[Line]> = (0..1 + slots).map(|_| Line::default()).collect();
    let mask = slots as u64 - 1;
    let recorder = Recorder { lines: Arc::clone(&lines), mask, written: 0 };
    (recorder, Drain { lines, mask, taken: 0, missed: 0 })
}

fn line(lines: &[Line], mask: u64, number: u64) -> Option<&[AtomicU64; 4]> {
    lines.get(1 + (number & mask) as usize).map(|line| &line.0)
}

/// The first half word of a line: whose it is, counted round after 2^30, and what the message was.
fn head(number: u64, kind: Kind) -> u32 {
    (number as u32) << 2 | kind as u32
}

impl Recorder {
    /// Stores one message's way: six stores.
    #[inline]
    pub fn record(&mut self, passed: &Passed) {
        let Some(line) = line(&self.lines, self.mask, self.written) else { return };
        // The number of the message before: that one lies in another line.
        line[0].store(u64::from(head(self.written, Kind::Depth)), Ordering::Relaxed);
        self.written += 1;
        // A reader that sees any of what follows must see that the line is being written.
        fence(Ordering::Release);
        let way = &passed.way;
        line[1].store(pair(short(way.read), short(way.tls)), Ordering::Relaxed);
        line[2].store(pair(short(way.websocket), short(way.json)), Ordering::Relaxed);
        line[3].store(pair(short(way.book), short(way.since_read)), Ordering::Relaxed);
        let first = pair(head(self.written, passed.kind), way.wake_ns.map_or(UNKNOWN, short));
        line[0].store(first, Ordering::Release);
        self.lines[0].0[0].store(self.written, Ordering::Release);
    }
}

impl Drain {
    /// Hands over what was recorded since the last call, oldest first.
    pub fn drain(&mut self, mut each: impl FnMut(Passed)) {
        let head = self.lines[0].0[0].load(Ordering::Acquire);
        let oldest = head.saturating_sub(self.mask + 1);
        self.missed += oldest.saturating_sub(self.taken);
        for number in self.taken.max(oldest)..head {
            match self.line(number) {
                Some(passed) => each(passed),
                None => self.missed += 1,
            }
        }
        self.taken = head;
    }

    fn line(&self, number: u64) -> Option<Passed> {
        let line = line(&self.lines, self.mask, number)?;
        let first = line[0].load(Ordering::Acquire);
        let [whose, wake] = halves(first);
        if whose >> 2 != head(number + 1, Kind::Depth) >> 2 {
            return None;
        }
        let [[read, tls], [websocket, json], [book, since_read]] =
            [1, 2, 3].map(|at: usize| halves(line[at].load(Ordering::Relaxed)).map(long));
        // What was read before must not have been overwritten meanwhile.
        fence(Ordering::Acquire);
        let wake_ns = (wake != UNKNOWN).then(|| long(wake));
        (line[0].load(Ordering::Relaxed) == first).then(|| Passed {
            kind: Kind::of(u64::from(whose & 3)),
            way: Way { wake_ns, read, tls, websocket, json, book, since_read },
        })
    }

    /// Messages that were overwritten before they were drained.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(number: u64) -> Passed {
        let wake_ns = (number % 3 > 0).then_some(number);
        let way = Way { wake_ns, book: number, ..Way::default() };
        Passed { kind: Kind::of(number % 4), way }
    }

    #[test]
    fn what_is_recorded_is_drained_once_and_what_is_overwritten_is_counted() {
        let (mut recorder, mut drain) = ring(8);
        let mut seen = Vec::new();
        (0..5).for_each(|n| recorder.record(&passed(n)));
        drain.drain(|p| seen.push(p));
        (5..25).for_each(|n| recorder.record(&passed(n)));
        drain.drain(|p| seen.push(p));
        drain.drain(|p| seen.push(p));
        let expected: Vec<_> = (0..5).chain(17..25).map(passed).collect();
        assert_eq!(seen, expected);
        assert_eq!(drain.missed(), 12);
    }

    #[test]
    fn a_minute_is_kept_to_within_microseconds() {
        let (mut recorder, mut drain) = ring(8);
        for long in [0, LONG - 1, LONG, 200_000_000_000, u64::MAX] {
            let way = Way { wake_ns: Some(long), read: long, since_read: long, ..Way::default() };
            recorder.record(&Passed { kind: Kind::Depth, way });
        }
        let mut seen = Vec::new();
        drain.drain(|p| seen.push(p.way));
        let off = |way: &Way| (way.read, way.wake_ns == Some(way.read), way.since_read - way.read);
        let most = (LONG - 2) << 16;
        let expected = [0, LONG - 1, LONG, 200_000_000_000 >> 16 << 16, most];
        assert_eq!(seen.iter().map(off).collect::<Vec<_>>(), expected.map(|kept| (kept, true, 0)));
    }

    #[test]
    fn a_reader_beside_a_writer_sees_only_whole_messages() {
        let (mut recorder, mut drain) = ring(64);
        let writer = std::thread::spawn(move || {
            for number in 0..200_000 {
                recorder.record(&passed(number));
            }
        });
        let mut seen = 0;
        let mut last = None;
        let mut take = |p: Passed| {
            assert_eq!(p, passed(p.way.book));
            assert!(last.is_none_or(|last| last < p.way.book));
            last = Some(p.way.book);
            seen += 1;
        };
        while !writer.is_finished() {
            drain.drain(&mut take);
        }
        drain.drain(&mut take);
        writer.join().unwrap();
        assert_eq!(seen + drain.missed(), 200_000);
    }
}
