//! What a trial of a boot line rests on, shown with GRUB's own tools: a menu entry that is booted
//! once, whatever happens then.

use anyhow::Result;

use super::Scenario;
use crate::lab::machine::vm::Machine;
use crate::lab::tally::Tally;

pub const SCENARIO: Scenario = Scenario {
    name: "one-shot",
    about: "GRUB boots an entry once and then the old one, after a power cut, too (no quietcore)",
    acpi: None,
    after: None,
    play,
};

/// 10_linux defines a function first, which GRUB allows outside a submenu only, and which the
/// first run of 10_linux has defined already.
const TRIAL: &str = r#"
cat >/etc/grub.d/42_trial <<'END'
#!/bin/sh
set -e
echo "submenu 'trial' \$menuentry_id_option 'quietcore-trial' {"
GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX isolcpus=2,3 nohz_full=2,3 rcu_nocbs=2,3" \
    /etc/grub.d/10_linux | sed '/^function gfxmode/,/^}/d'
echo "}"
END
chmod 755 /etc/grub.d/42_trial
update-grub && cp /boot/grub/grub.cfg /root/once && update-grub && cmp /boot/grub/grub.cfg /root/once
"#;

/// GRUB reads the file system without its journal: frozen, nothing is in the journal only.
const ARM: &str = "\
grub-reboot 'quietcore-trial>0' && fsfreeze --freeze / && fsfreeze --unfreeze /
grub-editenv list
";

const LOOK: &str = "\
echo isolated=$(cat /sys/devices/system/cpu/isolated)
grub-editenv list
";

fn play(m: &mut Machine, tally: &mut Tally) -> Result<()> {
    let trial = m.run("trial", TRIAL)?;
    tally.premise(trial.code == 0, "update-grub writes the trial, twice the same", || {
        trial.ending()
    });
    let armed = m.run("arm", ARM)?;
    tally.premise(armed.value("next_entry") == "quietcore-trial>0", "the trial is next", || {
        armed.ending()
    });

    m.reboot()?;
    let look = m.run("look", LOOK)?;
    booted(tally, "the trial's line", "2-3", &look.value("isolated"));
    tally.premise(look.value("next_entry").is_empty(), "GRUB forgot it as it booted it", || {
        look.ending()
    });

    m.pull_the_plug()?;
    m.boot()?;
    let look = m.run("look", LOOK)?;
    booted(tally, "the old line after a power cut", "", &look.value("isolated"));
    Ok(())
}

fn booted(tally: &mut Tally, line: &str, expected: &str, isolated: &str) {
    tally.premise(isolated == expected, &format!("it booted {line}"), || {
        format!("isolated is {isolated:?}")
    });
}
