//! The state of systemd units.
//!
//! Asked through `systemctl show`, whose output is a stable interface: a D-Bus library would bring
//! an async runtime into a tool that otherwise needs none, to read four properties.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::{Host, HostError, Trouble};

/// A systemd unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// `loaded`, `not-found`, `masked`.
    pub load: String,
    /// `active`, `inactive`, `failed`.
    pub active: String,
    /// `enabled`, `disabled`, `masked`, `static`, or empty.
    pub file: String,
}

impl Unit {
    /// Whether it runs now.
    pub fn is_active(&self) -> bool {
        self.active == "active" || self.active == "activating"
    }

    /// Whether it would run after a boot.
    pub fn is_enabled(&self) -> bool {
        self.file.starts_with("enabled")
    }
}

impl Host {
    /// The states of these units, in one question.
    ///
    /// # Errors
    /// Missing on a host that systemd does not run.
    pub fn units(&self, names: &[&str]) -> Result<BTreeMap<String, Unit>, HostError> {
        let live = self.is_live();
        self.answer(format!("units {}", names.join(" ")), |_| {
            if !live {
                return Err(Trouble::NotRecorded);
            }
            show(names)
        })
    }
}

/// The states of these units on this machine.
pub(crate) fn show(names: &[&str]) -> Result<BTreeMap<String, Unit>, Trouble> {
    match Path::new("/run/systemd/system").exists() {
        true => ask("systemctl", names),
        false => Err(Trouble::Missing),
    }
}

/// A program that is not there is no proof that systemd does not run the host.
fn ask(program: &str, names: &[&str]) -> Result<BTreeMap<String, Unit>, Trouble> {
    let output = Command::new(program)
        .args(["show", "--property=Id,LoadState,ActiveState,UnitFileState", "--"])
        .args(names)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Trouble::Other(format!("{program}: {error}")))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Trouble::Other(format!("{program} show: {words}")));
    }
    Ok(parse(names, &String::from_utf8_lossy(&output.stdout)))
}

/// One block per unit, in the order asked, with a blank line between. `Id` may differ from the
/// name asked (an alias), so the order decides.
fn parse(names: &[&str], text: &str) -> BTreeMap<String, Unit> {
    let unit = |block: &str| {
        let mut unit = Unit::default();
        for (property, value) in block.lines().filter_map(|line| line.split_once('=')) {
            match property {
                "LoadState" => unit.load = value.to_owned(),
                "ActiveState" => unit.active = value.to_owned(),
                "UnitFileState" => unit.file = value.to_owned(),
                _ => {}
            }
        }
        unit
    };
    names.iter().map(|&name| name.to_owned()).zip(text.trim().split("\n\n").map(unit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_does_not_prove_a_host_without_systemd() {
        let answer = ask("/nonexistent/systemctl", &["irqbalance.service"]);
        assert!(matches!(answer, Err(Trouble::Other(_))), "{answer:?}");
    }

    #[test]
    fn blocks_are_matched_to_the_names_asked() {
        let text = "Id=irqbalance.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\n\nId=tuned.service\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\n";
        let units = parse(&["irqbalance.service", "tuned.service"], text);
        assert!(
            units["irqbalance.service"].is_active() && units["irqbalance.service"].is_enabled()
        );
        assert_eq!(units["tuned.service"].load, "not-found");
        assert!(!units["tuned.service"].is_active());
    }
}
