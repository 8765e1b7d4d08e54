//! What checks ask of daemons and timers.

use quietcore_facts::Facts;
use quietcore_facts::services::Service;

use crate::{Scope, Verdict};

/// Units by what they do.
#[derive(Debug)]
pub(crate) struct Daemons<'a> {
    /// Run now, or are armed.
    pub running: Vec<&'a Service>,
    /// Do not run and will after the next boot.
    pub waiting: Vec<&'a Service>,
    /// Why it is not known whether some run.
    pub unread: Vec<&'a str>,
    /// All that were asked for.
    asked: Vec<&'a Service>,
}

impl<'a> Daemons<'a> {
    /// Looks these units up.
    pub fn of(facts: &'a Facts, units: &[&str]) -> Self {
        let asked: Vec<&Service> = units.iter().filter_map(|u| facts.services().get(u)).collect();
        let (mut running, mut waiting, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for service in &asked {
            match service.running.value() {
                Some(true) => running.push(*service),
                Some(false) if service.enabled => waiting.push(*service),
                Some(false) => {}
                None => unread.push(service.running.why()),
            }
        }
        Self { running, waiting, unread, asked }
    }

    /// The verdict on daemons that should not run: `bad` with what runs, else by what is known.
    pub fn unwanted(
        &self,
        scope: &Scope,
        none: &str,
        bad: impl FnOnce(&str) -> Verdict,
    ) -> Verdict {
        if !self.running.is_empty() {
            let verdict = bad(&names(&self.running)).fix(stop(&self.running));
            return evidence(verdict, &self.running);
        }
        if let Some(why) = self.unread.first() {
            return Verdict::unknown(*why);
        }
        if !self.waiting.is_empty() && scope.is_declared() {
            let names = names(&self.waiting);
            let verdict = Verdict::warn(format!("{names} will run again after the next boot"));
            return evidence(verdict.fix(stop(&self.waiting)), &self.waiting);
        }
        let Some(first) = self.asked.first() else { return Verdict::pass(none) };
        let verdict = Verdict::pass(none);
        match self.asked.len() {
            1 => verdict.evidence(&first.source, &first.value),
            _ => {
                let source = first.source.split(' ').take(2).collect::<Vec<_>>().join(" ");
                verdict.evidence(source, format!("none of {}", names(&self.asked)))
            }
        }
    }
}

/// The units' names without their suffix, which only says what systemd calls them.
pub(crate) fn names(services: &[&Service]) -> String {
    let name = |s: &&Service| s.unit.trim_end_matches(".service").to_owned();
    services.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Adds what was said of each.
pub(crate) fn evidence(verdict: Verdict, services: &[&Service]) -> Verdict {
    services.iter().fold(verdict, |verdict, s| verdict.evidence(&s.source, &s.value))
}

fn stop(services: &[&Service]) -> String {
    let units: Vec<&str> = services.iter().map(|s| s.unit).collect();
    format!("systemctl disable --now {}", units.join(" "))
}
