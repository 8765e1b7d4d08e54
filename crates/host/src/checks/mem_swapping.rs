use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::remedy::swapoff;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.swapping",
    cause: Cause::Memory,
    about: "Nothing is being swapped",
    why: "pswpin and pswpout of /proc/vmstat grew during the probe: memory is short now, pages go \
          to the disk and threads wait for others to come back.",
    cost: Cost {
        us: 500.0,
        text: "100 µs (NVMe) to 10 ms (disk) per page read back",
        origin: "judgement: read latency of the device",
    },
    kind: Kind::Probe,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let (Some(read), Some(written)) = (probe.vmstat("pswpin"), probe.vmstat("pswpout")) else {
        return match facts.host().config("SWAP") {
            Ok(None) => Verdict::not_applicable("this kernel cannot swap"),
            _ => Verdict::unknown("pswpin and pswpout of /proc/vmstat could not be read"),
        };
    };
    let verdict = match (read, written) {
        (0, 0) => Verdict::pass(format!("no page was swapped in {}", probe.took())),
        _ => Verdict::fail(format!(
            "{read} pages were swapped in and {written} out in {}",
            probe.took()
        )),
    };
    verdict.evidence("/proc/vmstat, grown", format!("pswpin {read}, pswpout {written}")).fix(
        format!(
            "make room (systemctl stop, a smaller heap) or add memory; then {}",
            swapoff(facts)
        ),
    )
}
