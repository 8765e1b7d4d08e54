//! Runs every check that applies and ranks what they say.

use quietcore_facts::Facts;
use quietcore_measure::{Finding, Findings};

use crate::check::Kind;
use crate::{Scope, Verdict, Waivers, checks};

/// What an audit is asked for.
#[derive(Clone, Debug)]
pub struct Audit {
    /// The CPUs and the process it is about.
    pub scope: Scope,
    /// Failures that are accepted.
    pub waivers: Waivers,
    /// The day it is judged on, as days since 1970-01-01; waivers expire by it.
    pub today: u64,
}

/// Judges a host.
pub fn audit(facts: &Facts, audit: &Audit) -> Findings {
    let applies = |kind: Kind| kind != Kind::Process || audit.scope.pid.is_some();
    let findings = checks::ALL.iter().filter(|check| applies(check.kind)).map(|check| {
        let verdict = match (check.kind, facts.probe()) {
            (Kind::Probe, None) => Verdict::needs_probe(),
            _ => (check.judge)(facts, &audit.scope),
        };
        verdict.into_finding(check)
    });
    let mut findings: Vec<Finding> = findings.collect();
    audit.waivers.apply(&mut findings, audit.today);
    Findings::new("audit", findings)
}
