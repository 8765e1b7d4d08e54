//! System management interrupts, which no kernel sees: only a CPU's counter gives them away.

use crate::lab::evidence::Evidence;
use crate::lab::scenario::{Scenario, Step};
use crate::lab::tally::Tally;

/// Reads CPU 0's MSR 0x34. The device wants reads of 8 bytes at the register's number.
const LOOK: &str = "\
smi() { dd if=/dev/cpu/0/msr bs=8 count=1 iflag=skip_bytes skip=52 2>/dev/null | od -A n -t u8; }
echo vendor=$(sed -n 's/^vendor_id.*: //p' /proc/cpuinfo | head -n 1)
echo count=$(smi)
";

const RAISE: &str = "\
smi() { dd if=/dev/cpu/0/msr bs=8 count=1 iflag=skip_bytes skip=52 2>/dev/null | od -A n -t u8; }
echo before=$(smi)
n=0
while [ $n -lt 20 ]; do
    printf '\\001' | dd of=/dev/port bs=1 seek=178 count=1 conv=notrunc 2>/dev/null || exit 1
    n=$((n + 1))
done
echo asked=$n
echo after=$(smi)
";

pub const SCENARIO: Scenario = Scenario {
    name: "smi",
    about: "writes to port 0xB2 raise SMIs; quietcore's count equals that of MSR 0x34",
    boot: "",
    // Only Intel has this counter, so quietcore asks no other make for it.
    cpu: "max,vendor=GenuineIntel,family=6,model=94",
    smp: "4",
    qemu: &[],
    acpi: None,
    modules: &[],
    look: LOOK,
    premises,
    audit: "",
    expect: &[],
    steps: &[Step::new("raise", 60, RAISE)],
    judge,
};

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

fn judge(_: &Evidence, _: &mut Tally) {}
