//! Moving threads, so that it can be taken back.

use std::path::Path;

use quietcore_measure::CpuSet;
use quietcore_sys::Host;
use quietcore_sys::host::{HostError, Task, Trouble};
use quietcore_sys::lease::{Change, Lease, LeaseError, Slot, Value};
use serde_json::json;

use super::{Map, Placement, Who};

/// Why threads could not be moved; none of them was.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The lease.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The threads could not be read again.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// A thread, and where it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// What was wanted.
    pub placement: Placement,
    /// What came of it, as the kernel says.
    pub state: State,
}

/// What came of moving a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is where it was wanted.
    Placed,
    /// It was there already.
    Already,
    /// It has ended meanwhile.
    Ended,
    /// It may run on these CPUs instead.
    Elsewhere(CpuSet),
    /// The kernel refused; only one that `*` means may be passed over.
    Refused(String),
}

/// The name of the lease of a process' threads.
pub fn lease_of(pid: u32) -> String {
    format!("place-{pid}")
}

/// Moves the threads, all that were named or none, and asks the kernel where they are then.
///
/// # Errors
/// [`PlaceError`]; what was done by this call is taken back.
pub fn place(
    host: &mut Host,
    folder: &Path,
    pid: u32,
    map: &Map,
    placements: &[Placement],
) -> Result<Vec<Moved>, PlaceError> {
    let mut lease = Lease::take(folder, &lease_of(pid), host)?;
    let done = change(&mut lease, host, map, placements);
    // Also after a failure: a lease of nothing is not kept.
    lease.end()?;
    let refused = done?;
    let now = host.threads(pid)?;
    let moved = |one: &Placement| {
        let refused = refused.iter().find(|(slot, _)| *slot == slot_of(&one.task));
        let state = match now.iter().find(|task| is_same(task, &one.task)) {
            None => State::Ended,
            Some(task) if task.affinity == one.task.affinity && task.affinity == one.cpus => {
                State::Already
            }
            Some(task) if task.affinity == one.cpus => State::Placed,
            Some(task) => match refused {
                Some((_, why)) => State::Refused(why.clone()),
                None => State::Elsewhere(task.affinity.clone()),
            },
        };
        Moved { placement: one.clone(), state }
    };
    Ok(placements.iter().map(moved).collect())
}

/// The places that refused without harm, and why.
fn change(
    lease: &mut Lease,
    host: &mut Host,
    map: &Map,
    placements: &[Placement],
) -> Result<Vec<(Slot, String)>, LeaseError> {
    forget_the_dead(lease, host)?;
    let mut changes: Vec<Change> = placements
        .iter()
        .map(|one| Change {
            slot: slot_of(&one.task),
            want: Value::text(one.cpus.to_string()),
            optional: one.who == Who::Others,
        })
        .collect();
    loop {
        match lease.change(host, &changes) {
            Ok(made) => {
                lease.describe(json!({"placement": map}))?;
                let refused = made.into_iter().filter_map(|made| Some((made.slot, made.refused?)));
                return Ok(refused.collect());
            }
            // A thread of the crowd has ended since it was listed: the others go on.
            Err(LeaseError::Unreadable { slot, why: Trouble::Missing })
                if changes.iter().any(|change| change.optional && change.slot == *slot) =>
            {
                changes.retain(|change| change.slot != *slot);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Threads that have ended are nothing to take back; a later process may have the same number.
fn forget_the_dead(lease: &mut Lease, host: &mut Host) -> Result<(), LeaseError> {
    let entries = lease.entries().map(|entry| entry.slot.clone());
    let dead: Vec<Slot> = entries.filter(|slot| host.look(slot) == Err(Trouble::Missing)).collect();
    if !dead.is_empty() {
        lease.take_back(host, |entry| dead.contains(&entry.slot))?;
    }
    Ok(())
}

fn slot_of(task: &Task) -> Slot {
    Slot::Affinity { tid: task.tid, started: task.started }
}

fn is_same(a: &Task, b: &Task) -> bool {
    (a.tid, a.started) == (b.tid, b.started)
}
