//! System management interrupts, which no kernel sees: only a CPU's counter gives them away.

use serde_json::Value;

use crate::lab::evidence::{Evidence, rows};
use crate::lab::scenario::{PARALLEL, Scenario, Step};
use crate::lab::tally::Tally;

/// What the audit must say while no SMI is raised.
const EXPECT: &[(&str, &str)] =
    &[("smi.rising", "unknown"), ("smi.count", "unknown"), ("virt.hypervisor", "warn")];

/// What an audit must say that watched the counter while SMIs were raised.
const EXPECT_PROBED: &[(&str, &str)] = &[("smi.rising", "fail"), ("smi.count", "unknown")];

pub const SCENARIO: Scenario = Scenario {
    name: "smi",
    about: "writes to port 0xB2 raise SMIs; quietcore's count equals that of MSR 0x34",
    kernel: None,
    // Else it depends on the host's load which clock the kernel ends up with.
    boot: "tsc=reliable",
    // The counter is Intel's.
    cpu: "max,vendor=GenuineIntel,family=6,model=94",
    smp: "4",
    accel: PARALLEL,
    qemu: &[],
    acpi: None,
    modules: &[],
    look: "echo vendor=$(sed -n 's/^vendor_id.*: //p' /proc/cpuinfo | head -n 1)\n",
    premises,
    audit: "",
    expect: EXPECT,
    // With the probe's second reading.
    recording: Some("probed.json"),
    steps: &[Step::new("raise", 120, RAISE)],
    judge,
};

/// Raises SMIs while quietcore watches, first by a probe, then by jitter. Our own readings of CPU
/// 0's MSR 0x34 bracket what quietcore does, so they cannot show fewer; the writes come well
/// inside, so they cannot show more. The device of the MSRs wants reads of 8 bytes at the register's
/// number.
const RAISE: &str = "\
smi() { dd if=/dev/cpu/0/msr bs=8 count=1 iflag=skip_bytes skip=52 2>/dev/null | od -A n -t u8; }
raise() {
    n=0
    while [ $n -lt 20 ]; do
        printf '\\001' | dd of=/dev/port bs=1 seek=178 count=1 conv=notrunc 2>/dev/null || exit 1
        n=$((n + 1))
    done
}
[ -c /dev/port ] || { echo 'this kernel has no /dev/port' >&2; exit 1; }
cd /lab/ship
echo start=$(smi)
quietcore audit --cpus 0 --probe 8s --record probed.json --format json >probe.json &
sleep 4
raise
wait $!
echo probe=$?
echo middle=$(smi)
quietcore jitter --cpus 0 --duration 8s --format json >jitter.json &
sleep 4
raise
wait $!
echo jitter=$?
echo end=$(smi)
";

/// How many the guest asks for each time.
const ASKED: i64 = 20;

fn premises(e: &Evidence, tally: &mut Tally) {
    let vendor = e.value("look", "vendor").unwrap_or_default();
    tally.premise(vendor == "GenuineIntel", "the CPU is of the make that counts", || vendor);
    for (from, to) in [("start", "middle"), ("middle", "end")] {
        let moved = moved(e, from, to);
        // Requests that come close together may be merged.
        let holds = moved.is_some_and(|m| (ASKED / 2..=ASKED).contains(&m));
        tally.premise(holds, &format!("writes to port 0xB2 move MSR 0x34, {from} to {to}"), || {
            format!("{ASKED} writes moved it by {moved:?}; {}", e.ending("raise"))
        });
    }
}

/// By how much the register moved.
fn moved(e: &Evidence, from: &str, to: &str) -> Option<i64> {
    Some(e.number("raise", to)? - e.number("raise", from)?)
}

fn judge(e: &Evidence, tally: &mut Tally) {
    let json = |name: &str| -> Value {
        e.file(name).and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default()
    };
    let mut equal = |name: &str, counted: Option<i64>, from: &str, to: &str| {
        let moved = moved(e, from, to);
        let what = format!("{name} counted as many SMIs as MSR 0x34 did");
        tally.check(counted.is_some() && counted == moved, &what, || {
            format!("it counted {counted:?}, the register {moved:?}; {}", e.ending("raise"))
        });
    };
    equal("the probe", probed(&json("probed.json")), "start", "middle");
    equal("jitter", spun(&json("jitter.json")), "middle", "end");
    tally.findings("probe", &json("probe.json"), EXPECT_PROBED);
}

/// What jitter says of CPU 0.
fn spun(run: &Value) -> Option<i64> {
    let all = rows(run, "jitter_surroundings");
    let cpu0 = all.iter().find(|row| row.get("cpu").and_then(|c| c.as_i64()) == Some(0))?;
    cpu0.get("smi")?.as_i64()
}

/// What quietcore read of the counter at the end of a probe less what it read at the start. A
/// recording's later moments hold only what had changed.
fn probed(recording: &Value) -> Option<i64> {
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
        assert_eq!(probed(&json!({"moments": [{key: 3}, {key: 9}]})), Some(6));
        assert_eq!(probed(&json!({"moments": [{key: 3}, {}]})), Some(0));
        assert_eq!(probed(&json!({"moments": [{key: 3}]})), None);
        assert_eq!(probed(&json!({"moments": [{key: {"error": "x"}}, {key: 9}]})), None);
    }
}
