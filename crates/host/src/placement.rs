//! Which thread of a process belongs on which CPU.
//!
//! A [`Map`] is what the user writes, `btc=4,eth=5,encoder=7,*=0-1`; [`assign`] finds the threads
//! that it means, [`cautions`] says what may disturb them there. All pure; what is refused is
//! refused before anything is touched. [`place`] moves the threads through a lease.

mod assign;
mod cautions;
mod map;
mod place;

pub use assign::{Ground, Placement, Refusal, assign};
pub use cautions::{Caution, cautions};
pub use map::{Map, MapError, Rule, Who};
pub use place::{Moved, PlaceError, State, lease_of, place};
