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
}

impl Handover {
    /// A connection has got a successor.
    pub fn begin(&mut self, route: usize) {
        if self.route == Some(route) {
            (self.is_done, self.ahead) = (false, None);
        }
    }

    /// Whether this connection is not needed any more for it.
    pub fn is_done(&self, route: usize) -> bool {
        self.route != Some(route) || self.is_done
    }

    /// Whether message number `id` is to be used. `joins` says whether nothing is missing between
    /// what was used last and it.
    #[inline]
    pub fn takes(&mut self, route: usize, role: Role, id: u64, joins: impl Fn() -> bool) -> bool {
        match role {
            Role::Only => self.route = Some(route),
            Role::Older if self.is_done => return false,
            Role::Older => self.is_done = self.ahead.is_some_and(|ahead| ahead <= id),
            Role::Successor => {
                self.route = Some(route);
                self.is_done |= joins();
                self.ahead = Some(id);
                return self.is_done;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_successor_that_is_behind_takes_over_at_once() {
        let mut stream = Handover::default();
        assert!(stream.takes(3, Role::Only, 10, || false));
        stream.begin(3);
        assert!(!stream.is_done(3) && stream.is_done(4));
        assert!(stream.takes(3, Role::Successor, 9, || true));
        assert!(stream.is_done(3) && !stream.takes(3, Role::Older, 11, || true));
    }

    #[test]
    fn a_successor_that_is_ahead_waits_until_the_older_one_is_there() {
        let mut stream = Handover::default();
        assert!(stream.takes(0, Role::Only, 10, || false));
        stream.begin(0);
        assert!(!stream.takes(0, Role::Successor, 13, || false));
        assert!(stream.takes(0, Role::Older, 12, || true) && !stream.is_done(0));
        assert!(stream.takes(0, Role::Older, 13, || true) && stream.is_done(0));
        assert!(!stream.takes(0, Role::Older, 14, || true));
        assert!(stream.takes(0, Role::Successor, 14, || true));
    }

    proptest! {
        /// Two connections bring 1, 2, 3, …, the second from some number on, in any interleaving:
        /// what is used is 1, 2, 3, … without a hole, and nothing twice but what is dropped as old.
        #[test]
        fn nothing_is_lost_whoever_is_ahead(
            first in 1u64..30,
            turns in proptest::collection::vec(any::<bool>(), 1..200),
        ) {
            let mut stream = Handover::default();
            prop_assert!(stream.takes(0, Role::Only, 1, || false));
            stream.begin(0);
            let (mut last, mut older, mut successor) = (1, 2, first);
            for is_successor in turns {
                let (role, id) = match is_successor {
                    true => (Role::Successor, successor),
                    false => (Role::Older, older),
                };
                if stream.takes(0, role, id, || id <= last + 1) {
                    prop_assert!(id <= last + 1, "{} after {}", id, last);
                    last = last.max(id);
                }
                let next = if is_successor { &mut successor } else { &mut older };
                *next += 1;
            }
            prop_assert!(!stream.is_done(0) || last + 1 >= successor);
        }
    }
}
