//! What the scenarios of tuning have in common: applying, and what the kernel then says.

use anyhow::Result;

use super::vm::{Answer, Machine};
use crate::lab::tally::Tally;

/// What the kernel and systemd say of the machine, not quietcore. An interrupt is astray if it may go
/// to CPUs 2-3 and could go elsewhere: managed ones belong to one CPU, the timer (0) and the
/// cascade (2) take no other.
const LOOK: &str = "\
echo isolated=$(cat /sys/devices/system/cpu/isolated)
echo nohz_full=$(cat /sys/devices/system/cpu/nohz_full)
for unit in irqbalance tuned; do
    echo $unit=$(systemctl is-active $unit) $(systemctl is-enabled $unit)
done
cd /sys/devices/system/cpu
echo governors=$(cat cpufreq/policy[23]/scaling_governor)
for irq in /proc/irq/[0-9]*; do
    case ${irq##*/} in 0|2) continue ;; esac
    case $(cat $irq/smp_affinity_list) in
        *[01]*[23]*) stray=\"$stray ${irq##*/}\" ;;
    esac
done
echo stray=$stray
";

/// Applies the profile that isolates CPUs 2-3.
pub fn apply(m: &mut Machine, tally: &mut Tally) -> Result<()> {
    let applied = m.run("apply", "quietcore apply --cpus 2,3 --profile trading")?;
    tally.check(applied.code == 0, "apply --profile trading", || applied.ending());
    Ok(())
}

/// A quietcore command that must end with 0.
pub fn succeeds(m: &mut Machine, command: &str, tally: &mut Tally) -> Result<Answer> {
    let answer = m.run("quietcore", &format!("quietcore {command}"))?;
    tally.check(answer.code == 0, command, || {
        format!("{}\n{}{}", answer.ending(), answer.out, answer.err)
    });
    Ok(answer)
}

/// The running machine must be as the profile wants it.
pub fn in_force(m: &mut Machine, tally: &mut Tally) -> Result<()> {
    let look = m.run("look", LOOK)?;
    for (key, expected) in [
        ("isolated", "2-3"),
        ("irqbalance", "inactive disabled"),
        ("tuned", "inactive disabled"),
        ("governors", "performance performance"),
        ("stray", ""),
    ] {
        says(&look, key, expected, tally);
    }
    succeeds(m, "verify", tally)?;
    Ok(())
}

/// The running machine must be as Debian made it, as far as a look tells.
pub fn gone(m: &mut Machine, tally: &mut Tally) -> Result<()> {
    let look = m.run("look", LOOK)?;
    for (key, expected) in
        [("isolated", ""), ("irqbalance", "active enabled"), ("tuned", "active enabled")]
    {
        says(&look, key, expected, tally);
    }
    Ok(())
}

fn says(look: &Answer, key: &str, expected: &str, tally: &mut Tally) {
    let value = look.value(key);
    tally
        .check(value == expected, &format!("{key} is {expected:?}"), || format!("it is {value:?}"));
}
