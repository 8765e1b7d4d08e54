//! What a check says of a host, and the words to say it with.

use quietcore_facts::Facts;
use quietcore_measure::{CpuSet, Evidence, Finding, Impact, Reading, Status};
use quietcore_sys::{HostError, Trouble};

use crate::{Check, knobs};

/// What a check says of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    status: Status,
    title: String,
    evidence: Vec<Evidence>,
    us: Option<f64>,
    fix: Option<String>,
}

impl Verdict {
    /// Proven to be as it should.
    pub fn pass(title: impl Into<String>) -> Self {
        Self::new(Status::Pass, title)
    }

    /// Proven to cost latency.
    pub fn fail(title: impl Into<String>) -> Self {
        Self::new(Status::Fail, title)
    }

    /// Costs latency in some uses.
    pub fn warn(title: impl Into<String>) -> Self {
        Self::new(Status::Warn, title)
    }

    /// Could not be decided; the title says what is missing.
    pub fn unknown(title: impl Into<String>) -> Self {
        Self::new(Status::Unknown, title)
    }

    /// Does not concern this host; the title says why not.
    pub fn not_applicable(title: impl Into<String>) -> Self {
        Self::new(Status::NotApplicable, title)
    }

    /// Fails where CPUs are meant for latency, warns on an ordinary host.
    pub fn fail_if(declared: bool, title: impl Into<String>) -> Self {
        Self::new(if declared { Status::Fail } else { Status::Warn }, title)
    }

    /// There is no isolation to check.
    pub fn no_intent() -> Self {
        Self::not_applicable("no CPU is meant for latency (no isolcpus= or nohz_full=, no --cpus)")
    }

    /// There is a wish for isolation, and none of the CPUs it names.
    pub fn no_such_cpus() -> Self {
        Self::unknown("the CPUs that were meant for latency do not exist")
    }

    /// Which CPUs there are, or which share a core, could not be read.
    pub fn unknown_cpus() -> Self {
        Self::unknown("/sys/devices/system/cpu (online, cpu*/topology) could not be read")
    }

    /// Which interrupts there are could not be read.
    pub fn unknown_interrupts() -> Self {
        Self::unknown("/proc/interrupts could not be read")
    }

    /// Threads that are not in the list may be there all the same.
    pub fn unknown_tasks(facts: &Facts) -> Self {
        Self::unknown(facts.tasks().why_incomplete())
    }

    /// Needs counters over time.
    pub fn needs_probe() -> Self {
        Self::unknown("only counters over time can tell: run again with --probe 2s")
    }

    /// What a question without an answer means: what this kernel does not have does not apply,
    /// what could not be read is unknown.
    pub fn unanswered(error: &HostError) -> Self {
        match error.trouble {
            Trouble::Missing => Self::not_applicable(error.to_string()),
            _ => Self::unknown(error.to_string()),
        }
    }

    /// The same for a reading that holds no value.
    pub fn unread<T>(reading: &Reading<T>) -> Self {
        match reading {
            Reading::Unsupported(why) => Self::not_applicable(why),
            _ => Self::unknown(reading.why()),
        }
    }

    /// Adds a reading that the verdict stands on.
    #[must_use]
    pub fn evidence(mut self, source: impl Into<String>, value: impl ToString) -> Self {
        self.evidence.push(Evidence { source: source.into(), value: value.to_string() });
        self
    }

    /// Replaces the check's expected cost by one for this host, in microseconds.
    #[must_use]
    pub fn costs_us(mut self, us: f64) -> Self {
        self.us = Some(us);
        self
    }

    /// The command that mends it; dropped where there is nothing to mend.
    #[must_use]
    pub fn fix(mut self, command: impl Into<String>) -> Self {
        if self.is_bad() {
            self.fix = Some(command.into());
        }
        self
    }

    /// The command that moves something to these CPUs; dropped where there are none to move to.
    #[must_use]
    pub fn fix_onto(self, keep: &CpuSet, command: impl FnOnce(&CpuSet) -> String) -> Self {
        match keep.is_empty() {
            true => self,
            false => self.fix(command(keep)),
        }
    }

    /// The verdict's status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// What was found, in one line.
    pub fn title(&self) -> &str {
        &self.title
    }

    fn is_bad(&self) -> bool {
        matches!(self.status, Status::Fail | Status::Warn)
    }

    fn new(status: Status, title: impl Into<String>) -> Self {
        Self { status, title: title.into(), evidence: Vec::new(), us: None, fix: None }
    }

    pub(crate) fn into_finding(self, check: &Check) -> Finding {
        let knob = knobs::mending(check.id).filter(|_| self.is_bad()).map(str::to_owned);
        Finding {
            id: check.id.to_owned(),
            cause: check.cause,
            status: self.status,
            title: self.title,
            evidence: self.evidence,
            impact: Impact {
                us: self.us.unwrap_or(check.cost.us),
                text: check.cost.text.to_owned(),
                origin: check.cost.origin.to_owned(),
            },
            knob,
            fix: self.fix,
            waiver: None,
        }
    }
}
