//! The whole way: apply, reboot, verify, confirm, and back.

use anyhow::Result;

use super::Scenario;
use crate::lab::machine::vm::Machine;
use crate::lab::machine::{picture, tuned};
use crate::lab::tally::Tally;

pub const SCENARIO: Scenario = Scenario {
    name: "tuning",
    about: "apply, reboot, verify, confirm; then rollback and reboot: the machine is as it was",
    acpi: Some("cstates.asl"),
    after: Some("untouched"),
    play,
};

fn play(m: &mut Machine, tally: &mut Tally) -> Result<()> {
    picture::take(m, tally)?;
    tuned::apply(m, tally)?;
    m.reboot()?;
    tuned::in_force(m, tally)?;
    tuned::succeeds(m, "confirm", tally)?;
    tuned::in_force(m, tally)?;
    tuned::succeeds(m, "rollback", tally)?;
    m.reboot()?;
    tuned::gone(m, tally)?;
    picture::compare(m, "everything is as before apply", tally)
}
