//! What happens to a change at the next boot.

use std::path::Path;

use quietcore_facts::Facts;
use quietcore_sys::lease::{self, Term};

use super::{LEASE, Order, Phase, RolledBack, TuneError, Tuning, apply, rollback, tuning_of};
use crate::boot;

/// What was done at boot.
#[derive(Clone, Debug)]
pub enum AtBoot {
    /// Nothing is in force.
    Nothing,
    /// The runtime part was applied again.
    Applied(Box<super::Applied>),
    /// A change that was not confirmed, or a boot line that did not come up, was taken back.
    TakenBack {
        /// Why, in words.
        why: &'static str,
        /// What became of each place.
        done: RolledBack,
    },
}

/// Goes on after a boot: applies what a reboot has reset, or takes back what was not confirmed.
///
/// # Errors
/// As of [`apply`] and [`rollback`].
pub fn at_boot(
    facts: Facts,
    folder: &Path,
    guardian: impl FnOnce() -> std::io::Result<()>,
) -> Result<AtBoot, TuneError> {
    let Some(standing) = lease::look(folder, LEASE, facts.host())? else {
        return Ok(AtBoot::Nothing);
    };
    let Some(tuning) = tuning_of(&standing.about)? else { return Ok(AtBoot::Nothing) };
    if let Some(why) = must_go(&tuning, &standing.term, &facts) {
        // What was kept before it outlives it.
        if let Some(previous) = tuning.previous {
            let (_, applied) = apply(facts, folder, &again(*previous), guardian)?;
            return Ok(AtBoot::Applied(Box::new(applied)));
        }
        let mut host = facts.into_host();
        let done = rollback(&mut host, folder, LEASE)?;
        return Ok(done.map_or(AtBoot::Nothing, |done| AtBoot::TakenBack { why, done }));
    }
    // The time in which it is to be confirmed begins anew: nobody could do so before.
    let (_, applied) = apply(facts, folder, &again(tuning), guardian)?;
    Ok(AtBoot::Applied(Box::new(applied)))
}

fn again(tuning: Tuning) -> Order {
    Order {
        profile: tuning.profile,
        cpus: tuning.cpus,
        reach: tuning.reach,
        confirm_within: tuning.confirm_within,
    }
}

/// Whether a change has to be taken back, and why.
fn must_go(tuning: &Tuning, term: &Term, facts: &Facts) -> Option<&'static str> {
    let this = lease::boot(facts.host());
    match &tuning.phase {
        Phase::Kept => None,
        Phase::Changing if lease::is_over(term, facts.host()) => Some("it was interrupted"),
        Phase::Changing => None,
        Phase::Unconfirmed if lease::is_over(term, facts.host()) => {
            Some("it was not confirmed before this boot")
        }
        Phase::Unconfirmed => None,
        Phase::Trial { applied_in } if *applied_in == this => None,
        Phase::Trial { .. } => {
            let line = boot::propose(facts, &tuning.parameters);
            (!line.is_in_force())
                .then_some("its boot line is not running: it did not come up, or was not confirmed")
        }
    }
}

impl AtBoot {
    /// Whether the host is as it was meant to be.
    pub fn is_well(&self) -> bool {
        !matches!(self, Self::TakenBack { .. })
    }
}
