//! The power fails as soon as apply has ended.

use anyhow::Result;

use super::Scenario;
use crate::lab::machine::vm::Machine;
use crate::lab::machine::{picture, tuned};
use crate::lab::tally::Tally;

pub const SCENARIO: Scenario = Scenario {
    name: "power-cut",
    about: "the plug is pulled right after apply: rollback finds its journal and brings everything back",
    acpi: Some("cstates.asl"),
    after: Some("unconfirmed"),
    play,
};

fn play(m: &mut Machine, tally: &mut Tally) -> Result<()> {
    picture::take(m, tally)?;
    tuned::apply(m, tally)?;
    m.pull_the_plug()?;
    m.boot()?;
    tuned::succeeds(m, "rollback", tally)?;
    // The line that runs stays until then, if it is the new one.
    m.reboot()?;
    tuned::gone(m, tally)?;
    picture::compare(m, "everything is as before apply", tally)
}
