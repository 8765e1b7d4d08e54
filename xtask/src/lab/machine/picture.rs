//! What the machine is like before a change and after it was taken back, by a tool that shares no
//! code with quietcore.

use anyhow::Result;

use super::vm::Machine;
use crate::lab::tally::Tally;

/// Remembers what the machine is like now.
pub fn take(m: &mut Machine, name: &str, tally: &mut Tally) -> Result<()> {
    let taken = m.run("picture", 180, &format!("picture take /root/{name}.picture"))?;
    tally.premise(taken.code == 0, &format!("a picture of the machine {name}"), || taken.ending());
    Ok(())
}

/// The machine must be now as it was then.
pub fn compare(m: &mut Machine, then: &str, what: &str, tally: &mut Tally) -> Result<()> {
    let script = format!(
        "picture take /root/now.picture && picture compare --rebooted /root/{then}.picture /root/now.picture"
    );
    let compared = m.run("compare", 240, &script)?;
    tally.check(compared.code == 0, what, || {
        format!("exit code {}\n{}{}", compared.code, compared.out, compared.err)
    });
    Ok(())
}
