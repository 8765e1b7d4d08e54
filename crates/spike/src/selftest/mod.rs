//! Injected causes, and whether they are found.
//!
//! An injector is a process of its own. One of its threads, the victim, notes what it felt: gaps
//! of a spinning loop, or operations that took long. Others cause that, and note when they did.
//! Both come from the clock alone; what the recorder saw has no part in it. The two are joined by
//! time, and the victim's stretch is explained as any other.

mod conduct;
mod inject;
mod judge;
mod protocol;
mod stage;

use quietcore_measure::{Kind, Nanos};

pub use conduct::{SelftestError, conduct};
pub use inject::ALL;
pub use judge::{ClassResult, Found, judge};
pub use protocol::{Line, Report, Span};
pub use stage::{NotHere, Stage, random};

/// A cause that can be brought about.
#[derive(Clone, Copy, Debug)]
pub struct Injector {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// What the spike is to be named: any of these.
    pub expects: &'static [Kind],
    /// Whether the victim spins, so that all it does not do itself is a gap.
    pub spins: bool,
    /// What counts as felt: 1 µs for interrupts, 20 µs for the others.
    pub threshold: Nanos,
    /// Causes it until the stage's time is over.
    pub run: fn(&Stage) -> Result<(), NotHere>,
}

impl Injector {
    /// The injector of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|injector| injector.name == name)
    }
}
