//! Two threads that wait for the network, so that the hot one never does: one opens connections,
//! one fetches snapshots. Each tries again until it succeeds, and says why it did not.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::dial::{Dialled, Dialler};
use super::rest::Rest;
use super::wake::Wake;
use crate::market::{Depth, Levels, Says};
use crate::venues::{Connection, SnapshotRequest, Venue};

/// What the hot thread gets.
#[derive(Debug)]
pub(super) enum Answer {
    /// This connection is open.
    Connected(usize, Box<Dialled>),
    /// A whole book that was asked for.
    Snapshot(Box<Fetched>),
}

/// A whole book.
#[derive(Debug)]
pub(super) struct Fetched {
    /// Whose.
    pub symbol: usize,
    pub depth: Depth,
    pub levels: Levels,
    /// As it came.
    pub text: Vec<u8>,
}

/// What people may want to know while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A connection is open.
    Connected {
        /// Its path.
        path: String,
        /// TLS version and cipher suite.
        tls: String,
    },
    /// A connection is over; another one is being opened.
    Lost {
        /// Its path.
        path: String,
        /// Why.
        why: String,
    },
    /// Something did not work and will be tried again.
    Failed {
        /// What.
        what: String,
        /// Why.
        why: String,
        /// When it is tried again.
        again: Duration,
    },
    /// An instrument's book is proven from here on.
    Synced {
        /// The instrument.
        symbol: String,
    },
    /// An instrument's book is not proven any more.
    Unsynced {
        /// The instrument.
        symbol: String,
        /// Why.
        why: String,
    },
    /// The venue said no to something.
    Refused {
        /// In its own words.
        words: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { path, tls } => write!(f, "connected: {path} ({tls})"),
            Self::Lost { path, why } => write!(f, "lost: {path}: {why}"),
            Self::Failed { what, why, again } => {
                write!(f, "{what}: {why}; trying again in {} ms", again.as_millis())
            }
            Self::Synced { symbol } => write!(f, "{symbol}: the book is proven"),
            Self::Unsynced { symbol, why } => write!(f, "{symbol}: the book is not shown: {why}"),
            Self::Refused { words } => write!(f, "the venue refuses: {words}"),
        }
    }
}

/// Both threads. They end by themselves soon after this is dropped.
#[derive(Debug)]
pub(super) struct Keeper {
    connect: Sender<Ask>,
    snapshot: Sender<Ask>,
}

/// What to do, and how often in a row it has come to nothing.
type Ask = (usize, u32);

/// What the threads need.
pub(super) struct Means {
    pub venue: &'static dyn Venue,
    pub dialler: Dialler,
    pub rest: Rest,
    pub connections: Vec<Connection>,
    pub symbols: Vec<String>,
    pub answers: Sender<Answer>,
    pub notices: Sender<Notice>,
    pub wake: Arc<Wake>,
}

impl Keeper {
    pub fn start(means: Means) -> Self {
        let Means { venue, dialler, rest, connections, symbols, answers, notices, wake } = means;
        let (connect, asked) = channel();
        let reply = (answers.clone(), notices.clone(), Arc::clone(&wake));
        let dial = move |number: usize| {
            let connection = &connections[number];
            let failed = |error: super::dial::DialError| {
                (
                    format!("connecting to {}", connection.path),
                    error.to_string(),
                    error.retry_after(),
                )
            };
            let dialled = dialler.dial(connection).map_err(failed)?;
            Ok(Answer::Connected(number, Box::new(dialled)))
        };
        spawn("feed-dial", move || serve(&asked, dial, &reply, |_, _| Duration::ZERO));
        let (snapshot, asked) = channel();
        let reply = (answers, notices, wake);
        let requests: Vec<_> = symbols.iter().map(|symbol| venue.snapshot(symbol)).collect();
        let mut budget = Budget::default();
        let weights = requests.clone();
        let pace = move |number: usize, now| {
            let request: Option<&SnapshotRequest> = weights.get(number).and_then(Option::as_ref);
            request.map_or(Duration::ZERO, |r| budget.wait(now, r.weight, r.weight_per_minute))
        };
        let fetch = move |number: usize| {
            let symbol = &symbols[number];
            let failed = |why: String, after| (format!("snapshot of {symbol}"), why, after);
            let Some(request) = &requests[number] else {
                return Err(failed("this venue has no snapshots to ask for".to_owned(), None));
            };
            let text = rest.get(&request.path);
            let text = text.map_err(|error| failed(error.to_string(), error.retry_after()))?;
            let mut levels = Levels::default();
            match venue.scan(&text, &mut levels).map(|message| message.says) {
                Ok(Says::Depth(depth)) if depth.is_snapshot => {
                    let fetched = Fetched { symbol: number, depth, levels, text };
                    Ok(Answer::Snapshot(Box::new(fetched)))
                }
                Ok(_) => Err(failed("the answer is no snapshot".to_owned(), None)),
                Err(error) => Err(failed(error.to_string(), None)),
            }
        };
        spawn("feed-snapshot", move || serve(&asked, fetch, &reply, pace));
        Self { connect, snapshot }
    }

    /// Has a connection opened. It comes as [`Answer::Connected`], sooner or later.
    pub fn connect(&self, connection: usize, failures: u32) {
        // A thread that is gone has nobody to answer to.
        let _ = self.connect.send((connection, failures));
    }

    /// Has a snapshot fetched. It comes as [`Answer::Snapshot`], sooner or later.
    pub fn snapshot(&self, symbol: usize, failures: u32) {
        let _ = self.snapshot.send((symbol, failures));
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    // Where no thread can be made nothing is ever answered, and that is what people then see.
    let _ = thread::Builder::new().name(name.to_owned()).spawn(run);
}

type Reply = (Sender<Answer>, Sender<Notice>, Arc<Wake>);
/// What, why, and how long to leave it alone.
type Trouble = (String, String, Option<Duration>);

/// Something to do, when, and how often it has failed.
struct Job {
    due: Instant,
    number: usize,
    failures: u32,
}

/// Does what is asked, one thing at a time and each as often as it takes, until nobody can ask any
/// more.
fn serve(
    asked: &Receiver<Ask>,
    mut attempt: impl FnMut(usize) -> Result<Answer, Trouble>,
    (answers, notices, wake): &Reply,
    mut pace: impl FnMut(usize, Instant) -> Duration,
) {
    let mut jobs: Vec<Job> = Vec::new();
    loop {
        let next = (0..jobs.len()).min_by_key(|&at| jobs[at].due);
        let until =
            next.map_or(Duration::MAX, |at| jobs[at].due.saturating_duration_since(Instant::now()));
        match asked.recv_timeout(until) {
            Ok((number, _)) if jobs.iter().any(|job| job.number == number) => continue,
            Ok((number, failures)) => {
                let now = Instant::now();
                let wait = failures.checked_sub(1).map_or(Duration::ZERO, back_off);
                jobs.push(Job { due: now + wait.max(pace(number, now)), number, failures });
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let Some(mut job) = next.map(|at| jobs.swap_remove(at)) else { continue };
        match attempt(job.number) {
            Ok(answer) => {
                if answers.send(answer).is_err() {
                    return;
                }
                wake.ring();
            }
            Err((what, why, after)) => {
                let again = back_off(job.failures).max(after.unwrap_or_default());
                // Nobody has to listen.
                let _ = notices.send(Notice::Failed { what, why, again });
                job.due = Instant::now() + again;
                job.failures += 1;
                jobs.push(job);
            }
        }
    }
}

/// How long to wait after so many failures: a quarter of a second, doubled each time, half a minute
/// at most.
fn back_off(failures: u32) -> Duration {
    Duration::from_millis(250 << failures.min(7)).min(Duration::from_secs(30))
}

/// Keeps to four fifths of what a venue allows in a minute.
#[derive(Debug, Default)]
struct Budget {
    spent: VecDeque<(Instant, u32)>,
}

impl Budget {
    /// How long to wait before spending `weight`, which is taken as spent then.
    fn wait(&mut self, now: Instant, weight: u32, per_minute: u32) -> Duration {
        const MINUTE: Duration = Duration::from_secs(60);
        let allowed = (per_minute - per_minute / 5).max(weight);
        self.spent.retain(|(at, _)| *at + MINUTE > now);
        let mut sum: u32 = self.spent.iter().map(|(_, weight)| weight).sum();
        let mut at = now;
        for (spent_at, spent) in &self.spent {
            if sum + weight <= allowed {
                break;
            }
            at = at.max(*spent_at + MINUTE);
            sum -= spent;
        }
        self.spent.push_back((at, weight));
        at - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn failures_are_spaced_further_and_further_apart() {
        let ms: Vec<_> = (0..10).map(|n| back_off(n).as_millis()).collect();
        assert_eq!(ms, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
    }

    #[test]
    fn what_a_venue_allows_in_a_minute_is_kept_to() {
        let start = Instant::now();
        let mut budget = Budget::default();
        let s = Duration::from_secs;
        // 80 of 100 are used.
        let waits: Vec<_> = (0..10).map(|n| budget.wait(start + s(n), 20, 100)).collect();
        assert_eq!(waits[..4], [Duration::ZERO; 4]);
        // The fifth, asked for at 4 s, waits until the first is a minute old, the sixth for the second.
        assert_eq!(waits[4..6], [s(56), s(56)]);
        // In no minute more than allowed was spent.
        for (at, _) in &budget.spent {
            let within = budget.spent.iter().filter(|(t, _)| *t >= *at && *t < *at + s(60));
            assert!(within.map(|(_, weight)| weight).sum::<u32>() <= 80);
        }
        // A single request that is dearer than all that is allowed is made all the same.
        assert_eq!(Budget::default().wait(start, 500, 100), Duration::ZERO);
    }

    #[test]
    fn a_job_is_tried_until_it_is_done_and_asked_for_twice_is_done_once() {
        let (ask, asked) = channel();
        let (answers, answered) = channel();
        let (notices, noticed) = channel();
        let wake = Arc::new(Wake::new().unwrap());
        let mut tries = 0;
        let attempt = move |number| {
            tries += 1;
            match tries {
                1 => Err(("it".to_owned(), "no".to_owned(), Some(Duration::ZERO))),
                _ => {
                    let (depth, levels) = (Depth::default(), Levels::default());
                    let fetched = Fetched { symbol: number, depth, levels, text: Vec::new() };
                    Ok(Answer::Snapshot(Box::new(fetched)))
                }
            }
        };
        ask.send((7, 0)).unwrap();
        ask.send((7, 0)).unwrap();
        let reply = (answers, notices, Arc::clone(&wake));
        let server = thread::spawn(move || serve(&asked, attempt, &reply, |_, _| Duration::ZERO));
        assert!(matches!(answered.recv(), Ok(Answer::Snapshot(fetched)) if fetched.symbol == 7));
        drop(ask);
        server.join().unwrap();
        assert!(answered.recv().is_err(), "once");
        let failed = noticed.recv().unwrap().to_string();
        assert_eq!(failed, "it: no; trying again in 250 ms");
        assert!(wake.as_fd().try_clone_to_owned().is_ok());
    }
}
