//! What a check is.

use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Scope, Verdict};

/// One thing that is examined.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Name for machines and waivers, as `irq.effective-affinity`; the part before the dot groups.
    pub id: &'static str,
    /// What it guards against.
    pub cause: Cause,
    /// What is examined, in one line.
    pub about: &'static str,
    /// Why it matters, what the verdict stands on, and where it can err: the text of the
    /// reference page.
    pub why: &'static str,
    /// What a failure is expected to cost.
    pub cost: Cost,
    /// When it applies.
    pub kind: Kind,
    /// What must be known of the CPUs meant for latency before it is judged.
    pub needs: Needs,
    /// The verdict on a host.
    pub judge: fn(&Facts, &Scope) -> Verdict,
}

/// What a failure is expected to cost.
///
/// The figure ranks findings, so it is what a running system is to expect of one typical
/// disturbance, not the worst that can be imagined: the middle of the range in `text` for what
/// happens as long as the finding stands, and a share of it where that is not so. What happened
/// since boot and may be over counts a tenth; what needs something else to happen first (a caller,
/// a full memory, the next boot) a tenth or a hundredth; an exception of a whole boot a
/// thousandth. The text says so. What delays nobody, as an error of time stamps, is near 1. A
/// check that sees it happen now says the full size by [`Verdict::costs_us`].
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Expected microseconds of one typical disturbance.
    pub us: f64,
    /// How much and how often.
    pub text: &'static str,
    /// Where the figure comes from.
    pub origin: &'static str,
}

/// When a check applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At every audit, from what can be read at once.
    Host,
    /// From counters over time: `unknown` unless `--probe` was given.
    Probe,
    /// About the process named by `--pid`.
    Process,
}

/// What a check needs to know of the CPUs meant for latency. The audit answers for a check that
/// lacks it: a set without CPUs has no bad one among them, and would pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it concerns every host.
    Nothing,
    /// That CPUs are, or were, meant for latency: otherwise it does not apply.
    Intent,
    /// Which CPUs they are: `unknown` where none of those that were meant is there.
    Cpus,
}
