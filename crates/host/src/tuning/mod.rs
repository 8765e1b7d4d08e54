//! Tuning as a transaction: apply, verify, confirm, roll back, and go on after a reboot.
//!
//! The lease (`sys::lease`) knows places and values; this module knows what they are for: which
//! profile, which CPUs, and how far the change has come ([`Phase`]).

mod boots;
mod verify;

use std::path::Path;

use quietcore_facts::Facts;
use quietcore_sys::Host;
use quietcore_sys::lease::{self, Change, Entry, Lease, LeaseError, Made, Slot, TakenBack, Term};
use serde::{Deserialize, Serialize};

use crate::boot::{self, BootError, Remade, Stage};
use crate::knobs::{Cores, Parameter};
use crate::plan::{Plan, Reach, plan};
use crate::profile::Profile;

pub use boots::{AtBoot, at_boot};
pub use verify::{Line, Standing, State, verify};

/// The name of the lease.
pub const LEASE: &str = "tuning";

/// What is in force, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// The profile, bases and overrides resolved.
    pub profile: Profile,
    /// The CPUs.
    pub cpus: Cores,
    /// Whether the boot line was left out.
    pub reach: Reach,
    /// How far it has come.
    pub phase: Phase,
    /// How long it may stay unconfirmed, in nanoseconds; forever if `None`.
    pub confirm_within: Option<u64>,
    /// What was put on the boot line.
    pub parameters: Vec<Parameter>,
    /// Places that refused without harm, and why: they are no drift.
    #[serde(default)]
    pub refused: Vec<(Slot, String)>,
    /// What was kept before: an unconfirmed change goes back to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Box<Tuning>>,
}

/// How far a change has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It is being made; one that is found in this phase was interrupted.
    Changing,
    /// A new boot line waits for its first boot, or is in it.
    Trial {
        /// The boot in which it was applied.
        applied_in: String,
    },
    /// Made, to be taken back unless it is confirmed.
    Unconfirmed,
    /// Made for good.
    Kept,
}

/// Why tuning did not go through.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The lease.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The boot line.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The journal holds something that this version does not know.
    #[error(
        "the journal is of another version of quietcore: take it back with that version, or with `rollback`, which needs only the places"
    )]
    OtherVersion,
    /// There is nothing to confirm.
    #[error("nothing waits to be confirmed")]
    NothingToConfirm,
    /// The new boot line is not running.
    #[error("the new boot line is not running yet: reboot, verify, then confirm")]
    NotBooted,
    /// A change is not confirmed while it does not hold.
    #[error("{0} of the items have drifted (see `verify`): not confirmed")]
    Drifted(usize),
    /// The process that is to take an unconfirmed change back could not be started.
    #[error("the guardian could not be started, so nothing was changed: {0}")]
    Guardian(std::io::Error),
    /// An earlier change was interrupted.
    #[error("an earlier apply was interrupted: `apply` again, or `rollback`")]
    Interrupted,
    /// A boot line of ours is in force or on trial, and this one is another.
    #[error("another boot line of quietcore is in force: `rollback` first, then apply")]
    OtherLine,
}

/// What was asked to be applied.
#[derive(Clone, Debug)]
pub struct Order {
    /// The profile.
    pub profile: Profile,
    /// The CPUs.
    pub cpus: Cores,
    /// How much of it.
    pub reach: Reach,
    /// How long it may stay unconfirmed, in nanoseconds.
    pub confirm_within: Option<u64>,
}

/// What was done.
#[derive(Clone, Debug)]
pub struct Applied {
    /// What was to be done.
    pub plan: Plan,
    /// The places that were written, and those that refused without harm.
    pub made: Vec<Made>,
    /// Places of an earlier profile that this one does not touch.
    pub taken_back: Vec<TakenBack>,
    /// What became of a boot menu that had something of an earlier profile in it.
    pub menu: Option<Remade>,
    /// How far it has come.
    pub phase: Phase,
}

/// Applies a profile. `guardian` starts the process that takes an unconfirmed change back; it is
/// called before anything is changed.
///
/// # Errors
/// In every case what was done is taken back.
pub fn apply(
    facts: Facts,
    folder: &Path,
    order: &Order,
    guardian: impl FnOnce() -> std::io::Result<()>,
) -> Result<(Host, Applied), TuneError> {
    let mut lease = Lease::take(folder, LEASE, facts.host())?;
    let (earlier, term) = (tuning_of(lease.about())?, lease.term().clone());
    let mut plan = plan(&facts, &order.profile, &order.cpus, order.reach);
    let mut host = facts.into_host();
    let mut tuning = Tuning {
        profile: order.profile.clone(),
        cpus: order.cpus.clone(),
        reach: order.reach,
        phase: Phase::Changing,
        confirm_within: order.confirm_within,
        parameters: plan.boot.as_ref().map_or(Vec::new(), |boot| boot.parameters.clone()),
        refused: Vec::new(),
        previous: previous(earlier.as_ref(), order),
    };
    if let Some(earlier) = &earlier {
        let line = &earlier.parameters;
        if !line.is_empty() && !tuning.parameters.is_empty() && *line != tuning.parameters {
            return Err(TuneError::OtherLine);
        }
    }
    let before: Vec<Slot> = lease.entries().map(|entry| entry.slot.clone()).collect();
    let done = go(&mut lease, &mut host, order, &mut plan, &mut tuning, earlier.as_ref(), guardian);
    match done {
        Ok(Done { made, taken_back, menu }) => {
            let phase = tuning.phase;
            lease.end()?;
            Ok((host, Applied { plan, made, taken_back, menu, phase }))
        }
        Err(error) => {
            // What an earlier call has made stays, and stays known for what it is.
            let new = |entry: &Entry| !before.contains(&entry.slot);
            let back = lease.take_back(&mut host, new)?;
            // The first error is the one to tell.
            let _ = boot::after_rollback(&mut lease, &mut host, &tuning.parameters, &back);
            if let Some(earlier) = earlier {
                lease.describe(serde_json::to_value(earlier).unwrap_or_default())?;
                lease.set_term(term)?;
            }
            lease.end()?;
            Err(error)
        }
    }
}

/// What an unconfirmed change goes back to: what was kept, or what an earlier unconfirmed change
/// would go back to.
fn previous(earlier: Option<&Tuning>, order: &Order) -> Option<Box<Tuning>> {
    order.confirm_within?;
    match earlier {
        Some(earlier) if earlier.phase == Phase::Kept => Some(Box::new(earlier.clone())),
        Some(earlier) => earlier.previous.clone(),
        None => None,
    }
}

struct Done {
    made: Vec<Made>,
    taken_back: Vec<TakenBack>,
    menu: Option<Remade>,
}

fn go(
    lease: &mut Lease,
    host: &mut Host,
    order: &Order,
    plan: &mut Plan,
    tuning: &mut Tuning,
    earlier: Option<&Tuning>,
    guardian: impl FnOnce() -> std::io::Result<()>,
) -> Result<Done, TuneError> {
    lease.describe(serde_json::to_value(&*tuning).unwrap_or_default())?;
    match tuning.confirm_within {
        Some(nanos) => {
            lease.set_term(lease::until(host, nanos))?;
            guardian().map_err(TuneError::Guardian)?;
        }
        None => lease.set_term(lease::while_alive())?,
    }
    let taken_back = lease.take_back(host, |entry| is_stale(entry, plan))?;
    let earlier_line = earlier.map_or(&[][..], |earlier| &earlier.parameters);
    let menu = boot::after_rollback(lease, host, earlier_line, &taken_back)?;
    let mut made = stop_services(lease, host, order, plan)?;
    made.extend(lease.change(host, &plan.changes())?);
    let refused = made.iter().filter_map(|m| Some((m.slot.clone(), m.refused.clone()?)));
    tuning.refused = refused.collect();
    // A line that was kept needs no trial when somebody has booted without it.
    let is_kept = earlier.is_some_and(|earlier| {
        earlier.phase == Phase::Kept && earlier.parameters == tuning.parameters
    });
    let trial = plan.boot.as_ref().filter(|boot| !boot.is_in_force() && !is_kept);
    if let Some(proposed) = trial {
        boot::install(lease, host, proposed, Stage::Trial)?;
    }
    tuning.phase = match (trial, tuning.confirm_within) {
        (Some(_), _) => Phase::Trial { applied_in: lease::boot(host) },
        // A line that is in force because it is tried still waits to be confirmed.
        (None, _) if earlier.is_some_and(|t| matches!(t.phase, Phase::Trial { .. })) => {
            earlier.map_or(Phase::Kept, |t| t.phase.clone())
        }
        (None, Some(_)) => Phase::Unconfirmed,
        (None, None) => Phase::Kept,
    };
    lease.describe(serde_json::to_value(&*tuning).unwrap_or_default())?;
    if tuning.confirm_within.is_none() {
        lease.set_term(Term::Kept)?;
    }
    Ok(Done { made, taken_back, menu })
}

/// Stops services before anything else: one that tunes puts its own values back as it ends, so what
/// it held was as wanted when the plan was made and is not any more. What was there before is then
/// what was there without it.
fn stop_services(
    lease: &mut Lease,
    host: &mut Host,
    order: &Order,
    plan: &mut Plan,
) -> Result<Vec<Made>, TuneError> {
    let is_service = |slot: &Slot| matches!(slot, Slot::Unit { .. });
    let services: Vec<Change> =
        plan.changes().into_iter().filter(|change| is_service(&change.slot)).collect();
    if services.is_empty() {
        return Ok(Vec::new());
    }
    let made = lease.change(host, &services)?;
    // A recorded host comes back with what was written to it.
    let facts = Facts::of(std::mem::replace(host, Host::live()));
    let again = crate::plan::plan(&facts, &order.profile, &order.cpus, order.reach);
    *host = facts.into_host();
    let stopped = std::mem::replace(plan, again);
    for item in plan.items_mut().filter(|item| is_service(&item.slot)) {
        if let Some((_, before)) = stopped.items().find(|(_, before)| before.slot == item.slot) {
            *item = before.clone();
        }
    }
    Ok(made)
}

/// Whether a place was changed for an earlier profile only.
fn is_stale(entry: &Entry, plan: &Plan) -> bool {
    let planned = plan.items().any(|(_, item)| item.slot == entry.slot);
    let of_boot = boot::owns(&entry.slot) && plan.boot.is_some();
    !(planned || of_boot)
}

/// What was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// What became of each place, the last changed first.
    pub places: Vec<TakenBack>,
    /// Lines of the journal that could not be read.
    pub damaged: Vec<usize>,
    /// Parameters that the running kernel keeps until it is booted again.
    pub running: Vec<Parameter>,
    /// What became of a boot menu that somebody else had changed.
    pub menu: Option<Remade>,
}

/// Takes a lease back, whoever holds it; `None` if there is none.
pub fn rollback(
    host: &mut Host,
    folder: &Path,
    name: &str,
) -> Result<Option<RolledBack>, TuneError> {
    let Some(mut lease) = Lease::open(folder, name, host)? else { return Ok(None) };
    let places = lease.take_back(host, |_| true)?;
    let tuning = tuning_of(lease.about()).ok().flatten();
    let parameters = tuning.map_or(Vec::new(), |tuning| tuning.parameters);
    let menu = boot::after_rollback(&mut lease, host, &parameters, &places)?;
    let damaged = lease.damaged().to_vec();
    let running = boot::running(host, &parameters);
    lease.end()?;
    Ok(Some(RolledBack { places, damaged, running, menu }))
}

/// Ends a change whose time is up: goes back to what was kept before it, or takes everything back.
pub fn expire(folder: &Path, name: &str) -> Result<(), TuneError> {
    let mut host = Host::live();
    let standing = lease::look(folder, name, &host)?;
    let tuning = standing.and_then(|standing| tuning_of(&standing.about).ok().flatten());
    let Some(previous) = tuning.and_then(|tuning| tuning.previous) else {
        return rollback(&mut host, folder, name).map(drop);
    };
    let order = Order {
        profile: previous.profile,
        cpus: previous.cpus,
        reach: previous.reach,
        confirm_within: None,
    };
    apply(Facts::of(host), folder, &order, || Ok(())).map(drop)
}

/// Makes a change that waits for it one for good.
///
/// # Errors
/// [`TuneError::NothingToConfirm`], [`TuneError::NotBooted`], [`TuneError::Drifted`] unless
/// `force`d.
pub fn confirm(facts: Facts, folder: &Path, force: bool) -> Result<Tuning, TuneError> {
    let drifted = verify(&facts, folder)?
        .map_or(0, |standing| standing.lines.iter().filter(|line| line.is_drift()).count());
    let Some(mut lease) = Lease::open(folder, LEASE, facts.host())? else {
        return Err(TuneError::NothingToConfirm);
    };
    let mut tuning = tuning_of(lease.about())?.ok_or(TuneError::NothingToConfirm)?;
    let proposed = boot::propose(&facts, &tuning.parameters);
    match &tuning.phase {
        Phase::Kept => return Err(TuneError::NothingToConfirm),
        Phase::Changing => return Err(TuneError::Interrupted),
        Phase::Trial { .. } if !proposed.is_in_force() => return Err(TuneError::NotBooted),
        _ if drifted > 0 && !force => return Err(TuneError::Drifted(drifted)),
        phase => {
            let trial = matches!(phase, Phase::Trial { .. });
            let mut host = facts.into_host();
            if trial {
                boot::install(&mut lease, &mut host, &proposed, Stage::Permanent)?;
            }
        }
    }
    (tuning.phase, tuning.confirm_within, tuning.previous) = (Phase::Kept, None, None);
    lease.describe(serde_json::to_value(&tuning).unwrap_or_default())?;
    lease.set_term(Term::Kept)?;
    lease.end()?;
    Ok(tuning)
}

/// What a journal is about; `None` where it was begun and nothing was said.
pub fn tuning_of(about: &serde_json::Value) -> Result<Option<Tuning>, TuneError> {
    match about {
        serde_json::Value::Null => Ok(None),
        about => Tuning::deserialize(about).map(Some).map_err(|_| TuneError::OtherVersion),
    }
}
