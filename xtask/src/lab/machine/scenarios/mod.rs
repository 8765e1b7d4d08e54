//! What a whole machine goes through: one file per scenario, one line in [`ALL`].

use anyhow::Result;

use super::vm::Machine;
use crate::lab::tally::Tally;

mod one_shot;
mod power_cut;
mod tuning;
mod unconfirmed;
mod untouched;

/// Every scenario, in the order in which they run.
pub const ALL: &[&Scenario] = &[
    &untouched::SCENARIO,
    &tuning::SCENARIO,
    &unconfirmed::SCENARIO,
    &power_cut::SCENARIO,
    &one_shot::SCENARIO,
];

/// A machine's story, told step by step over several boots.
pub struct Scenario {
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// An ACPI table in lab/acpi.
    pub acpi: Option<&'static str>,
    /// The scenario whose machine it goes on with, if that one has just passed: it ends as it began
    /// and has the same table. A boot takes its time.
    pub after: Option<&'static str>,
    /// Given a machine that is switched on. An error is a machine that did not come back.
    pub play: fn(&mut Machine, &mut Tally) -> Result<()>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_a_scenario_is_listed_and_documented() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let readme = std::fs::read_to_string(root.join("../lab/README.md")).unwrap();
        let mut files = BTreeSet::new();
        for entry in std::fs::read_dir(root.join("src/lab/machine/scenarios")).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_string_lossy().replace('_', "-");
            if stem != "mod" {
                files.insert(stem);
            }
        }
        let listed: BTreeSet<String> = ALL.iter().map(|s| s.name.to_string()).collect();
        assert_eq!(files, listed);
        assert_eq!(listed.len(), ALL.len());
        for name in listed {
            assert!(readme.contains(&format!("`{name}`")), "lab/README.md says nothing of {name}");
        }
    }
}
