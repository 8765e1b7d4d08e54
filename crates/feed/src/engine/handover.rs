//! From a connection to its successor, with no message lost and none seen twice.
//!
//! Both bring the same stream, but one may be ahead of the other: at each moment only one is
//! believed, and the change is made where their positions meet. No I/O.

/// What a connection is among those that bring the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// There is no other.
    #[default]
    Only,
    /// A newer one is to do its work.
    Older,
    /// It is to do the work of an older one.
    Successor,
}

/// One stream of one instrument.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handover {
    /// The connection that brings it.
    route: Option<usize>,
    /// The successor is believed.
    is_done: bool,
    /// The last that the successor brought, which was ahead of what the older one had.
    ahead: Option<u64>,
    /// Up to here the older one has brought it: of the successor that would be repeated.
    until: Option<u64>,
}

impl Handover {
    /// A connection has got a successor.
    pub fn begin(&mut self, route: usize) {
        if self.route == Some(route) {
            (self.is_done, self.ahead) = (false, None);
        }
    }

    /// A connection is lost: what comes by the next one may be numbered anew.
    pub fn forget(&mut self, route: usize) {
        if self.route == Some(route) {
            *self = Self { route: self.route, ..Self::default() };
        }
    }

    /// Whether a connection's successor brings it.
    pub fn is_done(&self, route: usize) -> bool {
        self.route != Some(route) || self.is_done
    }

    /// Whether message number `id` is to be used. `last` is the number that was used last; `joins`
    /// says that nothing is missing between it and this message.
    #[inline]
    pub fn takes(&mut self, route: usize, role: Role, id: u64, last: u64, joins: bool) -> bool {
        self.route = Some(route);
        match role {
            Role::Only => {}
            Role::Older if self.is_done => return false,
            Role::Older => {
                self.is_done = self.ahead.is_some_and(|ahead| ahead <= id);
                if self.is_done {
                    self.until = Some(id);
                    return true;
                }
            }
            Role::Successor if self.is_done => {}
            Role::Successor if joins => (self.is_done, self.until) = (true, Some(last)),
            Role::Successor => {
                self.ahead = Some(id);
                return false;
            }
        }
        match self.until {
            Some(until) if id <= until => false,
            _ => {
                self.until = None;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_successor_that_is_behind_takes_over_at_once_and_repeats_nothing() {
        let mut stream = Handover::default();
        assert!(stream.takes(3, Role::Only, 10, 9, true));
        stream.begin(3);
        assert!(!stream.is_done(3) && stream.is_done(4));
        assert!(!stream.takes(3, Role::Successor, 9, 10, true));
        assert!(stream.is_done(3) && !stream.takes(3, Role::Older, 11, 10, true));
        // The older one is gone.
        assert!(!stream.takes(3, Role::Only, 10, 10, true));
        assert!(stream.takes(3, Role::Only, 11, 10, true));
        // Numbers that begin anew are not taken for old ones.
        assert!(stream.takes(3, Role::Only, 1, 11, false));
    }

    #[test]
    fn a_successor_that_is_ahead_waits_until_the_older_one_is_there() {
        let mut stream = Handover::default();
        assert!(stream.takes(0, Role::Only, 10, 9, true));
        stream.begin(0);
        assert!(!stream.takes(0, Role::Successor, 13, 10, false));
        assert!(stream.takes(0, Role::Older, 12, 10, true) && !stream.is_done(0));
        assert!(stream.takes(0, Role::Older, 13, 12, true) && stream.is_done(0));
        assert!(!stream.takes(0, Role::Older, 14, 13, true));
        assert!(stream.takes(0, Role::Successor, 14, 13, true));
    }

    #[test]
    fn after_a_loss_numbers_may_begin_anew() {
        let mut stream = Handover::default();
        assert!(stream.takes(0, Role::Only, 10, 9, true));
        stream.begin(0);
        assert!(!stream.takes(0, Role::Successor, 9, 10, true));
        stream.forget(0);
        assert!(stream.takes(0, Role::Only, 2, 10, false));
    }

    proptest! {
        /// Connections bring 1, 2, 3, …, each successor from some number on, in any interleaving:
        /// what is used is 1, 2, 3, … without a hole and without a repetition.
        #[test]
        fn nothing_is_lost_or_repeated_whoever_is_ahead(
            starts in proptest::collection::vec(0u64..20, 1..6),
            turns in proptest::collection::vec(any::<bool>(), 1..400),
        ) {
            let mut stream = Handover::default();
            prop_assert!(stream.takes(0, Role::Only, 1, 0, true));
            let (mut last, mut older, mut successor) = (1, 2, None);
            let mut starts = starts.into_iter();
            for (number, is_successor) in turns.into_iter().enumerate() {
                if successor.is_none() && number % 7 == 0 {
                    // Before or after where the older one is.
                    successor = starts.next().map(|start| (older + start).saturating_sub(10).max(1));
                    stream.begin(0);
                }
                let (role, id) = match successor {
                    None => (Role::Only, older),
                    Some(_) if !is_successor => (Role::Older, older),
                    Some(id) => (Role::Successor, id),
                };
                if stream.takes(0, role, id, last, id <= last + 1) {
                    prop_assert_eq!(id, last + 1);
                    last = id;
                }
                match role {
                    Role::Successor => successor = Some(id + 1),
                    _ => older = id + 1,
                }
                if number % 3 == 0 && successor.is_some() && stream.is_done(0) {
                    older = successor.take().unwrap_or_default();
                }
            }
        }
    }
}
