//! Runs every check that applies and ranks what they say.

use quietcore_facts::Facts;
use quietcore_measure::{Finding, Findings};

use crate::check::{Check, Kind, Needs};
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
        let verdict = lacking(check, facts, &audit.scope);
        verdict.unwrap_or_else(|| (check.judge)(facts, &audit.scope)).into_finding(check)
    });
    let mut findings: Vec<Finding> = findings.collect();
    audit.waivers.apply(&mut findings, audit.today);
    Findings::new("audit", findings)
}

/// The answer to a check that lacks what it needs.
fn lacking(check: &Check, facts: &Facts, scope: &Scope) -> Option<Verdict> {
    if check.kind == Kind::Probe && facts.probe().is_none() {
        return Some(Verdict::needs_probe());
    }
    match check.needs {
        Needs::Intent | Needs::Cpus if !scope.is_declared() => Some(Verdict::no_intent()),
        Needs::Cpus if scope.cpus.is_empty() && !facts.cpus().known => {
            Some(Verdict::unknown_cpus())
        }
        Needs::Cpus if scope.cpus.is_empty() => Some(Verdict::no_such_cpus()),
        _ => None,
    }
}
