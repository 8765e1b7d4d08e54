//! The market's clock: one thread that lets the market happen, for everyone at once.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::hub::lock;
use super::source::Event;
use super::stream::Stream;
use super::venue::Shared;

/// How fast the market goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many times as fast as it was, or would be. More than 0. A client that does not keep up is
    /// closed.
    Rate(f64),
    /// As fast as the slowest client reads.
    AsRead,
}

/// When the market starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With the venue.
    AtOnce,
    /// When so many clients listen to something. Those get every event from the first on.
    WithListeners(usize),
}

/// Steps done before the clock is looked at again.
const BATCH: usize = 256;
/// How long a wait is at most: then the venue may be stopping.
const NAP: Duration = Duration::from_millis(50);

/// Runs the market until the venue stops or the market ends.
pub(super) fn run(shared: &Shared) {
    let is_stopping = || shared.is_stopping.load(Ordering::Acquire);
    if let Begin::WithListeners(count) = shared.config.begin {
        while shared.hub.listeners() < count && !is_stopping() {
            shared.hub.wait(NAP);
        }
    }
    let start = *shared.started.get_or_init(Instant::now);
    shared.hub.wake();
    let Some(first) = lock(&shared.source).due() else { return shared.end() };
    let mut audience = Audience::default();
    let mut events = Vec::new();
    while !is_stopping() {
        let Some(due) = lock(&shared.source).due() else { return shared.end() };
        let limit = match shared.config.pace {
            Pace::Rate(rate) => {
                let elapsed = start.elapsed().as_nanos() as f64 * rate;
                let limit = first.saturating_add(elapsed as u64);
                if due > limit {
                    let wait = Duration::from_nanos(((due - limit) as f64 / rate) as u64);
                    thread::park_timeout(wait.min(NAP));
                    continue;
                }
                limit
            }
            Pace::AsRead => {
                if shared.hub.listeners() == 0 {
                    shared.hub.wait(NAP);
                    continue;
                }
                if !shared.hub.has_room(NAP) {
                    continue;
                }
                u64::MAX
            }
        };
        advance(shared, limit, &mut audience, &mut events);
    }
}

/// What anyone listens to, as of so many changes.
#[derive(Debug, Default)]
struct Audience {
    wanted: HashSet<Stream>,
    changes: Option<u64>,
}

/// Lets happen what is due by `limit`, and hands it to who listens.
fn advance(shared: &Shared, limit: u64, audience: &mut Audience, events: &mut Vec<Event>) {
    // As fast as is read: a queue may take no more than it has room for.
    let most = if shared.config.pace == Pace::AsRead { 1 } else { BATCH };
    let mut source = lock(&shared.source);
    // Under the market's lock: who holds it and begins to listen misses nothing that comes after.
    let changes = Some(shared.hub.changes());
    if audience.changes != changes {
        *audience = Audience { wanted: shared.hub.wanted(), changes };
    }
    let mut steps = 0;
    while steps < BATCH && events.len() < most && source.due().is_some_and(|due| due <= limit) {
        source.step(&|stream| audience.wanted.contains(&stream), events);
        steps += 1;
    }
    drop(source);
    for event in events.drain(..) {
        shared.hub.publish(&Arc::new(event));
        shared.counters.events.fetch_add(1, Ordering::Relaxed);
    }
}
