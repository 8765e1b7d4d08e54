//! A boot line that nobody confirms: it boots once, and the machine is as it was.

use anyhow::Result;

use super::Scenario;
use crate::lab::machine::vm::Machine;
use crate::lab::machine::{picture, tuned};
use crate::lab::tally::Tally;

pub const SCENARIO: Scenario = Scenario {
    name: "unconfirmed",
    about: "applied, tried, not confirmed: the second reboot brings the old line and all the rest back",
    acpi: Some("cstates.asl"),
    after: Some("tuning"),
    play,
};

fn play(m: &mut Machine, tally: &mut Tally) -> Result<()> {
    picture::take(m, tally)?;
    tuned::apply(m, tally)?;
    m.reboot()?;
    tuned::in_force(m, tally)?;
    m.reboot()?;
    tuned::gone(m, tally)?;
    // It says so until somebody has seen it.
    let failed =
        m.run("failed", "systemctl is-failed quietcore && systemctl reset-failed quietcore")?;
    tally.check(failed.code == 0, "the unit that took it back has failed visibly", || {
        failed.ending()
    });
    picture::compare(m, "everything is as before apply", tally)
}
