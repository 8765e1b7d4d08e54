//! The connections of an engine, and when each is to be looked after. No I/O: time comes in as
//! ticks, and what is to be done goes out as values.

use std::time::Duration;

use quietcore_sys::tsc::Rate;

use super::link::Link;
use crate::venues::{Connection, Keepalive};

/// A connection that lived shorter than this did not work.
const SHORT: Duration = Duration::from_secs(10);
/// How long a silent connection has to answer a ping.
const ANSWER: Duration = Duration::from_secs(10);
/// How long an old connection is kept beside its successor at most.
const OVERLAP: Duration = Duration::from_secs(60);

/// One connection that is to be held, and the one or two links that do.
#[derive(Debug)]
pub(super) struct Route {
    pub path: String,
    links: [Option<Link>; 2],
    /// Which of the two came last.
    newest: usize,
    is_asked: bool,
    was_pinged: bool,
    /// When something was last said on it unasked, in ticks.
    spoke: u64,
    /// Links in a row that broke soon.
    short_lives: u32,
}

/// Lengths of time, in ticks.
#[derive(Clone, Copy, Debug)]
struct Times {
    renew_after: Option<u64>,
    silence: u64,
    answer: u64,
    short: u64,
    overlap: u64,
    keepalive: Option<u64>,
}

/// What a connection needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// A successor, before the venue ends it.
    Successor,
    /// A ping, for nothing came for long.
    Ping,
    /// Its keepalive.
    Keepalive,
    /// It is dead: nothing came, and the ping was not answered.
    Dead,
    /// Its successor does the work.
    Retire,
}

/// All of them. A slot is one place for a link: route `n` has slots `2n` and `2n + 1`.
#[derive(Debug)]
pub(super) struct Routes {
    routes: Vec<Route>,
    times: Times,
    /// Times that one was opened.
    pub opened: u64,
    /// Times that one was replaced in time.
    pub renewals: u64,
    pub hardware_stamps: u64,
    pub napi: Option<u32>,
}

impl Routes {
    pub fn new(
        connections: &[Connection],
        renew_after: Option<Duration>,
        silence: Duration,
        keepalive: Option<Keepalive>,
        rate: Rate,
    ) -> Self {
        let ticks = |time: Duration| rate.ticks(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let route = |connection: &Connection| Route {
            path: connection.path.clone(),
            links: [None, None],
            newest: 0,
            is_asked: true,
            was_pinged: false,
            spoke: 0,
            short_lives: 0,
        };
        Self {
            routes: connections.iter().map(route).collect(),
            times: Times {
                renew_after: renew_after.map(ticks),
                silence: ticks(silence),
                answer: ticks(ANSWER),
                short: ticks(SHORT),
                overlap: ticks(OVERLAP),
                keepalive: keepalive.map(|k| ticks(k.every)),
            },
            opened: 0,
            renewals: 0,
            hardware_stamps: 0,
            napi: None,
        }
    }

    pub fn len(&self) -> usize {
        self.routes.len()
    }

    pub fn slots(&self) -> usize {
        self.routes.len() * 2
    }

    #[inline]
    pub fn link(&mut self, slot: usize) -> Option<&mut Link> {
        self.routes.get_mut(slot / 2)?.links[slot % 2].as_mut()
    }

    pub fn path(&self, route: usize) -> &str {
        &self.routes[route].path
    }

    /// Whether this link is the successor of one that still works.
    #[inline]
    pub fn is_successor(&self, slot: usize) -> bool {
        let route = &self.routes[slot / 2];
        route.newest == slot % 2 && route.links.iter().all(Option::is_some)
    }

    /// Takes in a link that was asked for: its slot. The one that it makes superfluous, if any.
    pub fn connected(&mut self, number: usize, link: Link, now: u64) -> (usize, Option<Link>) {
        let route = &mut self.routes[number];
        route.is_asked = false;
        route.was_pinged = false;
        route.spoke = now;
        let free = route.links.iter().position(Option::is_none);
        let at = free.unwrap_or(1 - route.newest);
        let old = route.links[at].replace(link);
        route.newest = at;
        self.opened += 1;
        (number * 2 + at, old)
    }

    /// Takes a link out. What is to be done then: `None` where another one does its work, else how
    /// often in a row it has broken soon.
    pub fn take(&mut self, slot: usize, now: u64) -> (Option<Link>, Option<u32>) {
        let short = self.times.short;
        let route = &mut self.routes[slot / 2];
        let link = route.links[slot % 2].take();
        if let Some(link) = &link {
            self.hardware_stamps += link.hardware_stamps;
            self.napi = self.napi.or_else(|| link.socket().napi_id());
            let lived = now.saturating_sub(link.opened);
            route.short_lives = if lived < short { route.short_lives + 1 } else { 0 };
        }
        let is_alone = route.links.iter().all(Option::is_none);
        let again = link.is_some() && is_alone && !route.is_asked;
        route.is_asked |= again;
        (link, again.then_some(route.short_lives))
    }

    /// What the link of a slot needs now. `is_covered` says whether its successor has brought
    /// something of every book that the connection carries.
    pub fn need(&mut self, slot: usize, now: u64, is_covered: impl Fn() -> bool) -> Option<Need> {
        let times = self.times;
        let route = &mut self.routes[slot / 2];
        let has_two = route.links.iter().all(Option::is_some);
        let is_newest = route.newest == slot % 2;
        let newest = route.links[route.newest].as_ref().map(|link| (link.opened, link.messages));
        let link = route.links[slot % 2].as_mut()?;
        let age = now.saturating_sub(link.opened);
        let silent = now.saturating_sub(link.heard);
        if has_two && !is_newest {
            let (opened, messages) = newest?;
            let is_over = now.saturating_sub(opened) > times.overlap;
            return (is_over || (messages > 0 && is_covered())).then_some(Need::Retire);
        }
        if silent > times.silence + times.answer {
            return Some(Need::Dead);
        }
        if silent > times.silence && !route.was_pinged {
            route.was_pinged = true;
            return Some(Need::Ping);
        }
        route.was_pinged &= silent > times.silence;
        if times.renew_after.is_some_and(|after| age > after) && !has_two && !route.is_asked {
            route.is_asked = true;
            return Some(Need::Successor);
        }
        if times.keepalive.is_some_and(|every| now.saturating_sub(route.spoke) > every) {
            route.spoke = now;
            return Some(Need::Keepalive);
        }
        None
    }
}
