//! System management interrupts, which no kernel sees: only a CPU's counter gives them away.

use serde_json::Value;

use crate::lab::evidence::Evidence;
use crate::lab::scenario::{Scenario, Step};
use crate::lab::tally::Tally;

/// What the audit must say while no SMI is raised.
const EXPECT: &[(&str, &str)] = &[];

/// What an audit must say that watched the counter while SMIs were raised.
const EXPECT_PROBED: &[(&str, &str)] = &[];

pub const SCENARIO: Scenario = Scenario {
    name: "smi",
    about: "writes to port 0xB2 raise SMIs; quietcore's count equals that of MSR 0x34",
    boot: "",
    // The counter is Intel's.
    cpu: "max,vendor=GenuineIntel,family=6,model=94",
    smp: "4",
    qemu: &[],
    acpi: None,
    modules: &[],
    look: "echo vendor=$(sed -n 's/^vendor_id.*: //p' /proc/cpuinfo | head -n 1)\n",
    premises,
    audit: "",
    expect: EXPECT,
    steps: &[Step::new("raise", 90, RAISE)],
    judge,
};

/// Raises SMIs between the two looks of a probe. Our own reading of CPU 0's MSR 0x34 brackets the
/// probe, so it cannot see fewer than quietcore; the writes come well inside of the probe, so it
/// cannot see more. The device of the MSRs wants reads of 8 bytes at the register's number.
const RAISE: &str = "\
smi() { dd if=/dev/cpu/0/msr bs=8 count=1 iflag=skip_bytes skip=52 2>/dev/null | od -A n -t u8; }
echo before=$(smi)
quietcore audit --probe 8s --record /lab/ship/probed.json --format json >/lab/ship/probed-run.json &
sleep 4
n=0
while [ $n -lt 20 ]; do
    printf '\\001' | dd of=/dev/port bs=1 seek=178 count=1 conv=notrunc 2>/dev/null || exit 1
    n=$((n + 1))
done
wait $!
echo audit=$?
echo asked=$n
echo after=$(smi)
";

fn premises(e: &Evidence, tally: &mut Tally) {
    let vendor = e.value("look", "vendor").unwrap_or_default();
    tally.premise(vendor == "GenuineIntel", "the CPU is of the make that counts", || vendor);
    let asked = e.number("raise", "asked").unwrap_or(0);
    let moved = moved(e);
    // Requests that come close together may be merged.
    let holds = asked > 0 && moved.is_some_and(|m| m >= asked / 2 && m <= asked);
    tally.premise(holds, "writes to port 0xB2 move MSR 0x34", || {
        format!("{asked} writes moved it by {moved:?}; {}", e.ending("raise"))
    });
}

/// By how much the register moved.
fn moved(e: &Evidence) -> Option<i64> {
    Some(e.number("raise", "after")? - e.number("raise", "before")?)
}

fn judge(e: &Evidence, tally: &mut Tally) {
    let moved = moved(e);
    let counted = e
        .file("probed.json")
        .and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok())
        .and_then(|recording| counted(&recording));
    let equal = counted.is_some() && counted == moved;
    tally.check(equal, "the probe counted as many SMIs as MSR 0x34 did", || {
        format!("it counted {counted:?}, the register {moved:?}; {}", e.ending("raise"))
    });
    let run = e.file("probed-run.json").and_then(|bytes| serde_json::from_slice(bytes).ok());
    tally.findings("probe", &run.unwrap_or(Value::Null), EXPECT_PROBED);
}

/// What quietcore read of the counter at the end of a probe less what it read at the start. A
/// recording's later moments hold only what had changed.
fn counted(recording: &Value) -> Option<i64> {
    const KEY: &str = "msr 0 0x34";
    let first = recording["moments"][0][KEY].as_i64()?;
    let second = recording["moments"][1].as_object()?;
    Some(second.get(KEY).map_or(Some(first), Value::as_i64)? - first)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_count_is_the_difference_of_the_two_moments() {
        let key = "msr 0 0x34";
        assert_eq!(counted(&json!({"moments": [{key: 3}, {key: 9}]})), Some(6));
        assert_eq!(counted(&json!({"moments": [{key: 3}, {}]})), Some(0));
        assert_eq!(counted(&json!({"moments": [{key: 3}]})), None);
        assert_eq!(counted(&json!({"moments": [{key: {"error": "x"}}, {key: 9}]})), None);
    }
}
