//! What the machine is like before a change and after it was taken back, by a tool that shares no
//! code with quietcore.

use anyhow::Result;

use super::vm::Machine;
use crate::lab::tally::Tally;

/// Remembers what the machine is like, once: a later scenario on the same machine begins where an
/// earlier one proved to have ended.
pub fn take(m: &mut Machine, tally: &mut Tally) -> Result<()> {
    let script = "test -f /root/before || picture take /root/before";
    let taken = m.run("picture", script)?;
    tally.premise(taken.code == 0, "a picture of the machine before", || taken.ending());
    Ok(())
}

/// The machine must be now as it was then.
pub fn compare(m: &mut Machine, what: &str, tally: &mut Tally) -> Result<()> {
    let script = "picture take /root/now && picture compare --rebooted /root/before /root/now";
    let compared = m.run("compare", script)?;
    tally.check(compared.code == 0, what, || {
        format!("exit code {}\n{}{}", compared.code, compared.out, compared.err)
    });
    Ok(())
}
