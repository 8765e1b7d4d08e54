//! The connections of an engine, and when each is to be looked after. No I/O: time comes in as
//! ticks, and what is to be done goes out as values.

use std::time::Duration;

use quietcore_sys::tsc::Rate;

use super::handover::Role;
use super::link::{Life, Link};
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
    care: Care,
}

/// What is known of the two links of a route.
#[derive(Clone, Copy, Debug, Default)]
struct Care {
    /// Which of the two came last.
    newest: usize,
    /// Another one is being opened.
    is_asked: bool,
    was_pinged: bool,
    /// When something was last said unasked, in ticks.
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
    /// A successor, before the venue ends it. So many in a row have broken soon.
    Successor(u32),
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
            care: Care { is_asked: true, ..Care::default() },
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

    /// What this link is to the other one of its route.
    #[inline]
    pub fn role(&self, slot: usize) -> Role {
        let route = &self.routes[slot / 2];
        match route.links.iter().all(Option::is_some) {
            false => Role::Only,
            true if route.care.newest == slot % 2 => Role::Successor,
            true => Role::Older,
        }
    }

    /// What the next link of a route will be.
    pub fn next_role(&self, route: usize) -> Role {
        match self.routes[route].links.iter().any(Option::is_some) {
            true => Role::Successor,
            false => Role::Only,
        }
    }

    /// Takes in a link that was asked for: its slot. The one that it makes superfluous, if any.
    pub fn connected(&mut self, number: usize, link: Link, now: u64) -> (usize, Option<Link>) {
        let Route { links, care, .. } = &mut self.routes[number];
        let at = links.iter().position(Option::is_none).unwrap_or(1 - care.newest);
        let short_lives = care.short_lives;
        *care = Care { newest: at, is_asked: false, was_pinged: false, spoke: now, short_lives };
        self.opened += 1;
        (number * 2 + at, links[at].replace(link))
    }

    /// Takes out a link that broke. What is to be done then: `None` where another one does its
    /// work, else how often in a row it has broken soon.
    pub fn take(&mut self, slot: usize, now: u64) -> (Option<Link>, Option<u32>) {
        let Some(link) = self.remove(slot) else { return (None, None) };
        let Route { links, care, .. } = &mut self.routes[slot / 2];
        let lived = now.saturating_sub(link.life.opened);
        care.short_lives = if lived < self.times.short { care.short_lives + 1 } else { 0 };
        let again = links.iter().all(Option::is_none) && !care.is_asked;
        care.is_asked |= again;
        (Some(link), again.then_some(care.short_lives))
    }

    /// Takes out a link whose successor does its work.
    pub fn retire(&mut self, slot: usize) -> Option<Link> {
        self.renewals += 1;
        self.remove(slot)
    }

    fn remove(&mut self, slot: usize) -> Option<Link> {
        let link = self.routes[slot / 2].links[slot % 2].take()?;
        self.hardware_stamps += link.hardware_stamps;
        self.napi = self.napi.or_else(|| link.socket().napi_id());
        Some(link)
    }

    /// What the link of a slot needs now. `is_covered` says whether its successor does the work for
    /// all that the connection carries.
    pub fn need(&mut self, slot: usize, now: u64, is_covered: impl Fn() -> bool) -> Option<Need> {
        let Route { links, care, .. } = &mut self.routes[slot / 2];
        let lives = links.each_ref().map(|link| link.as_ref().map(|link| link.life));
        care.need(lives, slot % 2, now, &self.times, is_covered)
    }
}

impl Care {
    fn need(
        &mut self,
        lives: [Option<Life>; 2],
        at: usize,
        now: u64,
        times: &Times,
        is_covered: impl Fn() -> bool,
    ) -> Option<Need> {
        let life = lives[at]?;
        let other = lives[1 - at];
        if let (Some(newest), true) = (other, self.newest != at) {
            let is_over = now.saturating_sub(newest.opened) > times.overlap;
            return (is_over || (newest.messages > 0 && is_covered())).then_some(Need::Retire);
        }
        let silent = now.saturating_sub(life.heard);
        if silent > times.silence + times.answer {
            return Some(Need::Dead);
        }
        if silent > times.silence && !self.was_pinged {
            self.was_pinged = true;
            return Some(Need::Ping);
        }
        self.was_pinged &= silent > times.silence;
        let age = now.saturating_sub(life.opened);
        let is_old = times.renew_after.is_some_and(|after| age > after);
        if is_old && other.is_none() && !self.is_asked {
            self.is_asked = true;
            return Some(Need::Successor(self.short_lives));
        }
        if times.keepalive.is_some_and(|every| now.saturating_sub(self.spoke) > every) {
            self.spoke = now;
            return Some(Need::Keepalive);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times {
        renew_after: Some(1_000),
        silence: 100,
        answer: 20,
        short: 10,
        overlap: 300,
        keepalive: Some(50),
    };

    fn life(opened: u64, heard: u64, messages: u64) -> Option<Life> {
        Some(Life { opened, heard, messages })
    }

    /// What one link alone needs at these moments.
    fn needs(care: &mut Care, times: &Times, alone: Option<Life>, at: &[u64]) -> Vec<Option<Need>> {
        at.iter().map(|now| care.need([alone, None], 0, *now, times, || true)).collect()
    }

    #[test]
    fn a_silent_link_is_pinged_once_and_then_dead() {
        let times = Times { keepalive: None, ..TIMES };
        let mut care = Care::default();
        let found = needs(&mut care, &times, life(0, 0, 1), &[100, 101, 110, 120, 121]);
        assert_eq!(found, [None, Some(Need::Ping), None, None, Some(Need::Dead)]);
        // It answered, and falls silent again.
        let found = needs(&mut care, &times, life(0, 115, 1), &[121, 216]);
        assert_eq!(found, [None, Some(Need::Ping)]);
    }

    #[test]
    fn what_was_said_unasked_is_said_again_in_time() {
        let found = needs(&mut Care::default(), &TIMES, life(0, 90, 1), &[50, 51, 100, 102]);
        assert_eq!(found, [None, Some(Need::Keepalive), None, Some(Need::Keepalive)]);
    }

    #[test]
    fn an_old_link_gets_one_successor_and_not_at_once_after_failures() {
        let times = Times { keepalive: None, ..TIMES };
        let mut care = Care { short_lives: 3, ..Care::default() };
        let found = needs(&mut care, &times, life(0, 1_000, 1), &[1_000, 1_001, 1_002]);
        assert_eq!(found, [None, Some(Need::Successor(3)), None]);
        // Never, where nothing is said of an end.
        let times = Times { renew_after: None, ..times };
        let found = needs(&mut Care::default(), &times, life(0, 1_000_000, 1), &[1_000_001]);
        assert_eq!(found, [None]);
    }

    #[test]
    fn an_old_link_retires_once_its_successor_works_or_has_had_its_time() {
        let mut care = Care { newest: 1, ..Care::default() };
        let old = life(0, 1_000, 9);
        let mut at = |now, messages, covered| {
            care.need([old, life(1_000, 1_000, messages)], 0, now, &TIMES, || covered)
        };
        assert_eq!(at(1_010, 0, true), None, "it has brought nothing");
        assert_eq!(at(1_010, 1, false), None, "not all");
        assert_eq!(at(1_010, 1, true), Some(Need::Retire));
        assert_eq!(at(1_301, 0, false), Some(Need::Retire), "long enough");
    }

    #[test]
    fn where_there_are_two_no_third_is_asked_for() {
        let times = Times { keepalive: None, ..TIMES };
        let mut care = Care { newest: 1, ..Care::default() };
        let lives = [life(0, 5_000, 9), life(1_000, 5_000, 9)];
        assert_eq!(care.need(lives, 1, 5_000, &times, || false), None);
        // The newest broke: the old one goes on, and gets another.
        let found = care.need([lives[0], None], 0, 5_000, &times, || false);
        assert_eq!(found, Some(Need::Successor(0)));
        assert_eq!(care.need(lives, 1, 5_000, &times, || false), None);
        assert_eq!(care.need([None, None], 0, 5_000, &times, || false), None);
    }
}
