//! Drift: what a lease has given the host and the host no longer holds.
//!
//! [`Drift`] is pure: it is told what places hold at which moment, and by whom they were written,
//! and says what is news. [`Watcher`] does the waiting and the reading.

mod expected;
mod watcher;

use std::collections::BTreeMap;
use std::fmt;

use quietcore_measure::{Cell, Nanos, Table};
use quietcore_sys::Trouble;
use quietcore_sys::lease::{Slot, Value};
use quietcore_sys::writers::Writer;

pub use expected::{Expected, expected};
pub use watcher::{Heard, Watcher};

/// What is expected of every place, how each of them stands, and all that happened.
#[derive(Clone, Debug, Default)]
pub struct Drift {
    /// A lease may hold hundreds, and all are looked at every second.
    places: BTreeMap<Slot, Place>,
    news: Vec<News>,
}

#[derive(Clone, Debug)]
struct Place {
    expected: Expected,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Right,
    Off { now: Value, since: Nanos },
    Gone { since: Nanos },
    Unread { since: Nanos },
}

/// One thing that happened to a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// When it was noticed, since the watch began.
    pub at: Nanos,
    /// The place.
    pub slot: Slot,
    /// What it should hold.
    pub want: Value,
    /// What happened.
    pub event: Event,
    /// Who did it.
    pub by: By,
}

/// What happened to a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It holds something else than it should, or something else again.
    Drifted {
        /// What it holds.
        now: Value,
    },
    /// It holds what it should again.
    SetRight {
        /// For how long it did not.
        after: Nanos,
    },
    /// The place itself is gone: a device, a CPU, a control group.
    Gone,
    /// A process or thread has ended, and its place with it: no drift.
    Ended,
    /// It cannot be read any more.
    Unread(String),
}

/// Who changed a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A process, with what is known of it: `None` if it had ended before it could be asked.
    Process {
        /// Its pid.
        pid: i32,
        /// What it is called and where it belongs.
        writer: Option<Writer>,
    },
    /// Nobody could say; the reason.
    Unknown(String),
}

impl Drift {
    /// Watches over these places, all of them taken to hold what they should until looked at.
    pub fn of(expected: impl IntoIterator<Item = Expected>) -> Self {
        let mut drift = Self::default();
        drift.expect(expected);
        drift
    }

    /// The lease has changed: other places, other values. What is known of places that stay is
    /// kept.
    pub fn expect(&mut self, expected: impl IntoIterator<Item = Expected>) {
        let mut before = std::mem::take(&mut self.places);
        let place = |expected: Expected| {
            let known = before.remove(&expected.slot);
            let state = known.map_or(State::Right, |place| place.state);
            (expected.slot.clone(), Place { expected, state })
        };
        self.places = expected.into_iter().map(place).collect();
    }

    /// The places that are to be looked at.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.places.keys()
    }

    /// Whether what a place holds now would be news.
    pub fn is_news(&self, slot: &Slot, held: &Result<Value, Trouble>) -> bool {
        let event = |place: &Place| place.event(held, Nanos::default());
        self.places.get(slot).and_then(event).is_some()
    }

    /// Notes what a place holds at a moment and who wrote it last; the news, if it is any.
    pub fn look(
        &mut self,
        slot: &Slot,
        held: &Result<Value, Trouble>,
        at: Nanos,
        by: By,
    ) -> Option<&News> {
        let place = self.places.get_mut(slot)?;
        let event = place.event(held, at)?;
        place.state = match (&event, &place.state) {
            (Event::SetRight { .. }, _) => State::Right,
            (Event::Drifted { now }, State::Off { since, .. }) => {
                State::Off { now: now.clone(), since: *since }
            }
            (Event::Drifted { now }, _) => State::Off { now: now.clone(), since: at },
            (Event::Gone | Event::Ended, _) => State::Gone { since: at },
            (Event::Unread(_), _) => State::Unread { since: at },
        };
        let (slot, want) = (slot.clone(), place.expected.want.clone());
        self.news.push(News { at, slot, want, event, by });
        self.news.last()
    }

    /// All that happened, in order.
    pub fn news(&self) -> &[News] {
        &self.news
    }

    /// Whether any place drifted, set right since or not.
    pub fn has_drifted(&self) -> bool {
        self.news.iter().any(|news| news.event.is_drift())
    }

    /// All that happened, as a table.
    pub fn table(&self) -> Table {
        let columns = ["after_s", "event", "place", "now", "wanted", "pid", "by"];
        let mut table = Table::new("drift", "Drift", &columns);
        table.rows = self.news.iter().map(News::row).collect();
        table
    }
}

impl Place {
    /// What has happened if the place holds this now.
    fn event(&self, held: &Result<Value, Trouble>, at: Nanos) -> Option<Event> {
        match (held, &self.state) {
            (Ok(now), state) if self.expected.is_met(now) => match state {
                State::Right => None,
                State::Off { since, .. } | State::Gone { since } | State::Unread { since } => {
                    Some(Event::SetRight { after: Nanos(at.0.saturating_sub(since.0)) })
                }
            },
            (Ok(now), State::Off { now: before, .. }) if self.expected.slot.same(now, before) => {
                None
            }
            (Ok(now), _) => Some(Event::Drifted { now: now.clone() }),
            (Err(Trouble::Missing), State::Gone { .. }) | (Err(_), State::Unread { .. }) => None,
            (Err(Trouble::Missing), _) if ends(&self.expected.slot) => Some(Event::Ended),
            (Err(Trouble::Missing), _) => Some(Event::Gone),
            (Err(trouble), _) => Some(Event::Unread(trouble.to_string())),
        }
    }
}

/// Whether a place belongs to a process, and goes the way of all processes.
fn ends(slot: &Slot) -> bool {
    matches!(slot, Slot::Affinity { .. } | Slot::Member { .. })
}

impl Event {
    /// Whether the host no longer holds what it was given.
    pub fn is_drift(&self) -> bool {
        matches!(self, Self::Drifted { .. } | Self::Gone)
    }

    /// In a word or two.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Drifted { .. } => "drift",
            Self::SetRight { .. } => "set right",
            Self::Gone => "gone",
            Self::Ended => "ended",
            Self::Unread(_) => "unread",
        }
    }
}

impl News {
    /// What the place holds now, in words; `None` if there is nothing to hold it.
    pub fn now(&self) -> Option<String> {
        match &self.event {
            Event::Drifted { now } => Some(now.to_string()),
            Event::SetRight { .. } => Some(self.want.to_string()),
            Event::Gone | Event::Ended | Event::Unread(_) => None,
        }
    }

    fn row(&self) -> Vec<Cell> {
        let now = match &self.event {
            Event::Unread(why) => Cell::Failed { failed: why.clone() },
            _ => self.now().map_or(Cell::Empty, Cell::Text),
        };
        let pid = match self.by {
            By::Process { pid, .. } => i64::from(pid).into(),
            By::Unknown(_) => Cell::Empty,
        };
        vec![
            self.at.as_secs().into(),
            self.event.name().into(),
            self.slot.to_string().into(),
            now,
            self.want.to_string().into(),
            pid,
            self.by.to_string().into(),
        ]
    }
}

/// One line, without the time.
impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slot, want, event, by, .. } = self;
        write!(f, "{:<9}  {slot}: ", event.name())?;
        match event {
            Event::Drifted { now } => write!(f, "{now}, should be {want}; by {by}"),
            Event::SetRight { after } => write!(f, "{want} again after {after}; by {by}"),
            Event::Gone => write!(f, "it is not there any more, should be {want}"),
            Event::Ended => f.write_str("its process is no more"),
            Event::Unread(why) => write!(f, "cannot be read: {why}"),
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(why) => write!(f, "unknown ({why})"),
            Self::Process { pid, writer: None } => {
                write!(f, "unknown (process {pid} ended before it could be asked)")
            }
            Self::Process { pid, writer: Some(writer) } => process(*pid, writer, f),
        }
    }
}

/// `sysctl (pid 7), started by bash (pid 3, cron.service)`: a shell's unit says more than its name.
fn process(pid: i32, writer: &Writer, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} (pid {pid}", writer.comm)?;
    let program = writer.program.as_deref().filter(|program| !is_named(program, &writer.comm));
    for more in [program, writer.unit.as_deref()].into_iter().flatten() {
        write!(f, ", {more}")?;
    }
    f.write_str(")")?;
    let Some(parent) = &writer.parent else { return Ok(()) };
    write!(f, ", started by {} (pid {}", parent.comm, parent.pid)?;
    match &parent.unit {
        Some(unit) if writer.unit.as_ref() != Some(unit) => write!(f, ", {unit})"),
        _ => f.write_str(")"),
    }
}

/// Whether a path tells no more than the name: `/usr/bin/tee` is `tee`.
fn is_named(program: &str, comm: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    // The kernel keeps 15 bytes of a name; a login shell's begins with a dash.
    name == comm
        || (comm.len() == 15 && name.starts_with(comm))
        || name.strip_prefix('-') == Some(comm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quietcore_sys::writers::Parent;

    fn unknown() -> By {
        By::Unknown("polled".to_owned())
    }

    fn wanted(slot: Slot, want: &str) -> Expected {
        Expected { slot, want: Value::text(want), or: Vec::new() }
    }

    fn knob() -> Slot {
        Slot::word("/proc/sys/vm/swappiness")
    }

    fn thread() -> Slot {
        Slot::Affinity { tid: 7, started: 1 }
    }

    fn held(text: &str) -> Result<Value, Trouble> {
        Ok(Value::text(text))
    }

    fn s(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn only_what_changes_is_news() {
        let missing = || Err(Trouble::Missing);
        let denied = || Err(Trouble::Denied);
        let cases = [
            (1, held("1\n"), None),
            (2, held("60"), Some(Event::Drifted { now: Value::text("60") })),
            (3, held("60"), None),
            (4, held("30"), Some(Event::Drifted { now: Value::text("30") })),
            (9, held("1"), Some(Event::SetRight { after: s(7) })),
            (10, held("1"), None),
            (11, missing(), Some(Event::Gone)),
            (12, missing(), None),
            (13, held("1"), Some(Event::SetRight { after: s(2) })),
            (14, denied(), Some(Event::Unread(Trouble::Denied.to_string()))),
            (15, denied(), None),
            (16, held("1"), Some(Event::SetRight { after: s(2) })),
        ];
        let mut drift = Drift::of([wanted(knob(), "1")]);
        for (at, now, event) in cases {
            assert_eq!(drift.is_news(&knob(), &now), event.is_some(), "at {at} s");
            let news = drift.look(&knob(), &now, s(at), unknown());
            assert_eq!(news.map(|news| news.event.clone()), event, "at {at} s");
        }
        assert_eq!(drift.news().len(), 7);
        assert!(drift.has_drifted());
    }

    #[test]
    fn values_are_compared_by_what_they_mean() {
        let enabled = Slot::word("/sys/kernel/mm/transparent_hugepage/enabled");
        let mut drift = Drift::of([wanted(enabled.clone(), "never")]);
        assert_eq!(drift.look(&enabled, &held("always madvise [never]"), s(1), unknown()), None);
        assert!(drift.look(&enabled, &held("[always] madvise never"), s(2), unknown()).is_some());
    }

    #[test]
    fn a_thread_that_ends_is_told_and_is_no_drift() {
        let mut drift = Drift::of([wanted(thread(), "2")]);
        let news = drift.look(&thread(), &Err(Trouble::Missing), s(1), unknown()).unwrap();
        assert_eq!(news.event, Event::Ended);
        assert!(!drift.has_drifted());
        assert_eq!(drift.look(&thread(), &Err(Trouble::Missing), s(2), unknown()), None);
    }

    #[test]
    fn a_change_of_the_lease_is_no_drift_and_forgets_none() {
        let mut drift = Drift::of([wanted(knob(), "1"), wanted(thread(), "2")]);
        drift.look(&knob(), &held("10"), s(1), unknown());
        drift.expect([wanted(knob(), "10")]);
        assert_eq!(drift.slots().collect::<Vec<_>>(), [&knob()]);
        let news = drift.look(&knob(), &held("10"), s(3), unknown()).unwrap();
        assert_eq!(news.event, Event::SetRight { after: s(2) });
        assert_eq!(drift.look(&thread(), &held("3"), s(4), unknown()), None);
        assert!(drift.has_drifted());
    }

    #[test]
    fn what_was_never_off_has_not_drifted() {
        let mut drift = Drift::of([wanted(knob(), "1")]);
        drift.look(&knob(), &held("1"), s(1), unknown());
        assert!(!drift.has_drifted() && drift.table().rows.is_empty());
    }

    fn by(comm: &str, program: Option<&str>, unit: Option<&str>, parent: Option<&str>) -> By {
        let parent = parent.map(|comm| Parent {
            pid: 3,
            comm: comm.to_owned(),
            unit: Some("cron.service".to_owned()),
        });
        let writer = Writer {
            comm: comm.to_owned(),
            program: program.map(str::to_owned),
            unit: unit.map(str::to_owned),
            started_unix_ms: None,
            parent,
        };
        By::Process { pid: 7, writer: Some(writer) }
    }

    #[test]
    fn a_writer_is_told_with_what_its_name_does_not_say() {
        let cases = [
            (by("sysctl", Some("/usr/sbin/sysctl"), None, None), "sysctl (pid 7)"),
            (
                by("tuned", Some("/usr/bin/python3"), Some("tuned.service"), None),
                "tuned (pid 7, /usr/bin/python3, tuned.service)",
            ),
            (by("tee", None, None, Some("sh")), "tee (pid 7), started by sh (pid 3, cron.service)"),
            (
                by("sh", Some("sh"), Some("cron.service"), Some("cron")),
                "sh (pid 7, cron.service), started by cron (pid 3)",
            ),
            (
                by("systemd-sysctl-", Some("/lib/systemd-sysctl-x"), None, None),
                "systemd-sysctl- (pid 7)",
            ),
            (
                By::Process { pid: 7, writer: None },
                "unknown (process 7 ended before it could be asked)",
            ),
            (By::Unknown("a system call".to_owned()), "unknown (a system call)"),
        ];
        for (by, text) in cases {
            assert_eq!(by.to_string(), text);
        }
    }

    #[test]
    fn a_line_says_what_is_what_should_be_and_who() {
        let mut drift = Drift::of([wanted(knob(), "1")]);
        let line = drift.look(&knob(), &held("60"), s(1), by("tee", None, None, None)).unwrap();
        assert_eq!(
            line.to_string(),
            "drift      /proc/sys/vm/swappiness: 60, should be 1; by tee (pid 7)"
        );
        let line = drift.look(&knob(), &held("1"), s(4), unknown()).unwrap();
        assert_eq!(
            line.to_string(),
            "set right  /proc/sys/vm/swappiness: 1 again after 3.00 s; by unknown (polled)"
        );
        assert_eq!(drift.table().rows.len(), 2);
    }
}
