//! Applies a script's faults to one connection's events. Time comes in from outside; what is
//! counted in events comes out the same every time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{Answer, Fault, Refusal, Request, Rule, Script, When};
use crate::server::source::Event;

/// What a connection is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) enum Strike {
    /// Send an event.
    Send {
        /// The event.
        event: Arc<Event>,
        /// In fragments, with a ping between.
        in_fragments: bool,
    },
    /// Do this, which is about the connection and not about an event.
    Do(Fault),
}

/// The script, and which of its faults have struck. One for all connections.
#[derive(Debug)]
pub(in crate::server) struct Armed {
    rules: Vec<Rule>,
    is_armed: Vec<AtomicBool>,
    refusals: Vec<(Refusal, AtomicU64)>,
    struck: AtomicU64,
}

impl Armed {
    pub(in crate::server) fn new(script: &Script) -> Self {
        Self {
            is_armed: script.rules.iter().map(|_| AtomicBool::new(true)).collect(),
            rules: script.rules.clone(),
            refusals: script.refusals.iter().map(|it| (*it, AtomicU64::new(0))).collect(),
            struck: AtomicU64::new(0),
        }
    }

    /// How often something went wrong on purpose.
    pub(in crate::server) fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }

    /// What the next request of this sort is answered with, if not with the truth.
    pub(in crate::server) fn answer(&self, request: Request) -> Option<Answer> {
        let mut answer = None;
        for (refusal, seen) in self.refusals.iter().filter(|it| it.0.request == request) {
            let before = seen.fetch_add(1, Ordering::Relaxed);
            let last = refusal.after.saturating_add(refusal.times);
            if answer.is_none() && (refusal.after..last).contains(&before) {
                answer = Some(refusal.answer);
            }
        }
        self.struck.fetch_add(u64::from(answer.is_some()), Ordering::Relaxed);
        answer
    }
}

/// Meddling that goes on for some events.
#[derive(Clone, Debug)]
struct Meddling {
    rule: usize,
    left: u64,
}

/// One connection's share of the script.
#[derive(Debug)]
pub(in crate::server) struct Injector {
    armed: Arc<Armed>,
    /// Matching events so far, a count for each rule.
    counts: Vec<u64>,
    /// Rules with a time that have struck here, or were over before the connection was opened.
    is_past: Vec<bool>,
    meddling: Vec<Meddling>,
    /// Events held back, by rule, and after how many others they come.
    held: Vec<(usize, u64, Arc<Event>)>,
}

impl Injector {
    /// For a connection that was opened so long after the market's start.
    pub(in crate::server) fn new(armed: Arc<Armed>, opened: Duration) -> Self {
        let is_past =
            armed.rules.iter().map(|rule| matches!(rule.when, When::At(at) if at < opened));
        Self {
            counts: vec![0; armed.rules.len()],
            is_past: is_past.collect(),
            meddling: Vec::new(),
            held: Vec::new(),
            armed,
        }
    }

    /// The next moment at which something goes wrong, after the market's start.
    pub(in crate::server) fn due(&self) -> Option<Duration> {
        let rules = self.armed.rules.iter().zip(&self.is_past);
        rules
            .filter_map(|(rule, is_past)| match rule.when {
                When::At(at) if !is_past => Some(at),
                _ => None,
            })
            .min()
    }

    /// What goes wrong by now, for reasons of time.
    pub(in crate::server) fn moment(&mut self, now: Duration, out: &mut Vec<Strike>) {
        for rule in 0..self.is_past.len() {
            let is_due = matches!(self.armed.rules.get(rule), Some(Rule { when: When::At(at), .. }) if *at <= now);
            if let Some(is_past) = self.is_past.get_mut(rule).filter(|is_past| is_due && !**is_past)
            {
                *is_past = true;
                self.strike(rule, out);
            }
        }
    }

    /// What becomes of an event.
    pub(in crate::server) fn event(
        &mut self,
        event: &Arc<Event>,
        symbol: &str,
        out: &mut Vec<Strike>,
    ) {
        let armed = Arc::clone(&self.armed);
        let matching: Vec<usize> = (0..armed.rules.len())
            .filter(|index| {
                let rule = armed.rules.get(*index);
                rule.is_some_and(|rule| rule.pattern.matches(symbol, event.stream.channel))
            })
            .collect();
        for rule in &matching {
            if self.counts.get(*rule) == Some(&0) {
                self.check(*rule, out);
            }
        }
        self.deliver(event, &matching, out);
        self.release(&matching, out);
        for rule in &matching {
            if let Some(count) = self.counts.get_mut(*rule) {
                *count += 1;
                self.check(*rule, out);
            }
        }
    }

    /// Strikes if a rule's count says so.
    fn check(&mut self, rule: usize, out: &mut Vec<Strike>) {
        let (Some(count), Some(when)) =
            (self.counts.get(rule).copied(), self.armed.rules.get(rule).map(|rule| rule.when))
        else {
            return;
        };
        let strikes = match when {
            When::At(_) => false,
            When::Every(every) => count > 0 && count % every == 0,
            When::After(after) => {
                let is_armed = self.armed.is_armed.get(rule);
                count == after && is_armed.is_some_and(|armed| armed.swap(false, Ordering::Relaxed))
            }
        };
        if strikes {
            self.strike(rule, out);
        }
    }

    fn strike(&mut self, rule: usize, out: &mut Vec<Strike>) {
        let Some(fault) = self.armed.rules.get(rule).map(|rule| rule.fault.clone()) else { return };
        self.armed.struck.fetch_add(1, Ordering::Relaxed);
        match fault {
            Fault::Gap(left)
            | Fault::Duplicate(left)
            | Fault::Fragment(left)
            | Fault::Crossed(left)
            | Fault::WrongChecksum(left) => {
                self.meddling.push(Meddling { rule, left });
            }
            Fault::Reorder(_) => self.meddling.push(Meddling { rule, left: 1 }),
            fault => out.push(Strike::Do(fault)),
        }
    }

    fn deliver(&mut self, event: &Arc<Event>, matching: &[usize], out: &mut Vec<Strike>) {
        let (mut copies, mut in_fragments) = (1, false);
        let mut event = Arc::clone(event);
        for meddling in self.meddling.iter_mut().filter(|it| matching.contains(&it.rule)) {
            meddling.left -= 1;
            match self.armed.rules.get(meddling.rule).map(|rule| &rule.fault) {
                Some(Fault::Gap(_)) => copies = 0,
                Some(Fault::Duplicate(_)) if copies > 0 => copies = 2,
                Some(Fault::Fragment(_)) => in_fragments = true,
                Some(Fault::Crossed(_)) => event = altered(&event, crossed),
                Some(Fault::WrongChecksum(_)) => event = altered(&event, with_wrong_checksum),
                Some(Fault::Reorder(behind)) if copies > 0 => {
                    copies = 0;
                    // One more, as this event itself is counted by the release that follows.
                    self.held.push((meddling.rule, behind + 1, Arc::clone(&event)));
                }
                _ => {}
            }
        }
        self.meddling.retain(|meddling| meddling.left > 0);
        for _ in 0..copies {
            out.push(Strike::Send { event: Arc::clone(&event), in_fragments });
        }
    }

    fn release(&mut self, matching: &[usize], out: &mut Vec<Strike>) {
        self.held.retain_mut(|(rule, behind, event)| {
            *behind -= u64::from(matching.contains(rule));
            if *behind == 0 {
                out.push(Strike::Send { event: Arc::clone(event), in_fragments: false });
            }
            *behind > 0
        });
    }
}

/// The event with another text, if there is one.
fn altered(event: &Arc<Event>, alter: fn(&str) -> Option<String>) -> Arc<Event> {
    match alter(&event.text) {
        Some(text) => Arc::new(Event { at: event.at, stream: event.stream, text }),
        None => Arc::clone(event),
    }
}

/// A depth message, of Binance's or OKX's form, with an ask at 1.
fn crossed(text: &str) -> Option<String> {
    let (key, row) = if text.contains("\"asks\":[") {
        ("\"asks\":[", r#"["1","1","0","1"]"#)
    } else {
        ("\"a\":[", r#"["1","1"]"#)
    };
    let (before, after) = text.split_once(key)?;
    let comma = if after.starts_with(']') { "" } else { "," };
    Some(format!("{before}{key}{row}{comma}{after}"))
}

fn with_wrong_checksum(text: &str) -> Option<String> {
    let (before, after) = text.split_once("\"checksum\":")?;
    let end = after.find(',')?;
    let (checksum, after) = after.split_at(end);
    let wrong = checksum.parse::<i32>().ok()?.wrapping_add(1);
    Some(format!("{before}\"checksum\":{wrong}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::stream::{Channel, Stream};

    /// The numbers that come of events 0 to 9 of one stream, with what else happens between.
    fn run(script: &str) -> Vec<String> {
        let armed = Arc::new(Armed::new(&script.parse().unwrap()));
        of(&mut Injector::new(armed, Duration::ZERO))
    }

    fn of(injector: &mut Injector) -> Vec<String> {
        let mut out = Vec::new();
        for number in 0..10 {
            let stream = Stream { symbol: 0, channel: Channel::Depth100 };
            let event = Arc::new(Event { at: 0, stream, text: number.to_string() });
            injector.event(&event, "btcusdt", &mut out);
        }
        out.into_iter()
            .map(|strike| match strike {
                Strike::Send { event, in_fragments: false } => event.text.clone(),
                Strike::Send { event, .. } => format!("{}f", event.text),
                Strike::Do(fault) => format!("{fault:?}"),
            })
            .collect()
    }

    #[test]
    fn each_fault_changes_just_what_it_says() {
        for (script, wanted) in [
            ("", "0 1 2 3 4 5 6 7 8 9"),
            ("after 2 events gap 3", "0 1 5 6 7 8 9"),
            ("after 0 events gap 1", "1 2 3 4 5 6 7 8 9"),
            ("after 2 events duplicate 2", "0 1 2 2 3 3 4 5 6 7 8 9"),
            ("after 2 events reorder", "0 1 3 2 4 5 6 7 8 9"),
            ("after 2 events reorder 3", "0 1 3 4 5 2 6 7 8 9"),
            ("after 2 events fragment 2", "0 1 2f 3f 4 5 6 7 8 9"),
            ("after 3 events garbage", "0 1 2 Garbage 3 4 5 6 7 8 9"),
            ("every 4 events gap", "0 1 2 3 5 6 7 9"),
            ("after 2 events gap 3 on ethusdt", "0 1 2 3 4 5 6 7 8 9"),
            ("after 2 events gap 3 on btcusdt@depth", "0 1 5 6 7 8 9"),
            ("after 2 gap 2; after 3 duplicate", "0 1 4 5 6 7 8 9"),
            ("after 9 events gap 100", "0 1 2 3 4 5 6 7 8"),
        ] {
            assert_eq!(run(script).join(" "), wanted, "{script}");
        }
    }

    #[test]
    fn texts_are_altered_where_the_fault_means() {
        let altered = |alter: fn(&str) -> Option<String>, text| alter(text).unwrap_or_default();
        assert_eq!(altered(crossed, r#"{"b":[],"a":[]}"#), r#"{"b":[],"a":[["1","1"]]}"#);
        assert_eq!(
            altered(crossed, r#"{"asks":[["5","2","0","1"]]}"#),
            r#"{"asks":[["1","1","0","1"],["5","2","0","1"]]}"#
        );
        let wrong = altered(with_wrong_checksum, r#"{"checksum":-2147483648,"seqId":1}"#);
        assert_eq!(wrong, r#"{"checksum":-2147483647,"seqId":1}"#);
        assert_eq!(crossed("{}").or(with_wrong_checksum("{}")), None);
    }

    #[test]
    fn after_strikes_one_connection_and_every_strikes_all() {
        for (script, second) in
            [("after 2 gap 7", "0 1 2 3 4 5 6 7 8 9"), ("every 9 gap", "0 1 2 3 4 5 6 7 8")]
        {
            let armed = Arc::new(Armed::new(&script.parse().unwrap()));
            of(&mut Injector::new(Arc::clone(&armed), Duration::ZERO));
            let later = of(&mut Injector::new(Arc::clone(&armed), Duration::ZERO));
            assert_eq!(later.join(" "), second, "{script}");
        }
    }

    #[test]
    fn a_fault_of_time_strikes_once_and_not_who_came_later() {
        let armed = Arc::new(Armed::new(&"at 2s drop".parse().unwrap()));
        let mut injector = Injector::new(Arc::clone(&armed), Duration::from_secs(1));
        let mut out = Vec::new();
        assert_eq!(injector.due(), Some(Duration::from_secs(2)));
        injector.moment(Duration::from_millis(1_999), &mut out);
        assert_eq!(out, []);
        injector.moment(Duration::from_secs(2), &mut out);
        injector.moment(Duration::from_secs(3), &mut out);
        assert_eq!(out, [Strike::Do(Fault::Drop)]);
        assert_eq!((injector.due(), armed.struck()), (None, 1));
        assert_eq!(Injector::new(armed, Duration::from_secs(3)).due(), None);
    }

    #[test]
    fn requests_are_refused_as_often_as_the_script_says() {
        let script = "rest 429 retry-after 3s 2 times after 1 request; rest 418 after 4 requests";
        let armed = Armed::new(&script.parse().unwrap());
        let answers: Vec<_> = (0..6).map(|_| armed.answer(Request::Rest)).collect();
        let banned = Some(Answer::Refuse(429, Some(3)));
        let barred = Some(Answer::Refuse(418, None));
        assert_eq!(answers, [None, banned, banned, None, barred, None]);
        assert_eq!(armed.answer(Request::Upgrade), None);
    }
}
