use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::Trouble;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "smi.count",
    cause: Cause::Smi,
    about: "Firmware has not been taking the CPUs away",
    why: "A system management interrupt stops every CPU for the firmware: fan control, memory \
          scrubbing, USB keyboards for an OS that has none. No isolation keeps it away and no \
          kernel counter shows it. Intel's MSR 0x34 counts them since power-on, those of the \
          firmware's own start among them, so the average since boot is an upper bound: a low one \
          proves quiet, a high one on a young machine proves nothing, and only growth \
          (smi.rising) proves harm. Needs root and the msr module. In a guest the counter, \
          if it is there, is the guest's own.",
    cost: Cost {
        us: 200.0,
        text: "100–300 µs each, on all CPUs at once",
        origin: "article on isolation, failure 5",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

/// MSR_SMI_COUNT.
const SMI_COUNT: u32 = 0x34;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let cpus = scope.judged(facts);
    let cpu = cpus.lowest().unwrap_or_default();
    if facts.cpus().vendor != "GenuineIntel" && !facts.cpus().is_guest() {
        return Verdict::unknown(
            "only Intel CPUs count SMIs in a register; on AMD Zen: perf stat \
             -a -e r2b",
        );
    }
    let count = match facts.host().msr(cpu, SMI_COUNT) {
        Ok(count) => count,
        Err(error) if error.trouble == Trouble::Missing => {
            return Verdict::unknown(match facts.cpus().is_guest() {
                true => "the hypervisor hides the SMI counter: ask its host",
                false => {
                    "SMIs cannot be counted without the msr module: modprobe msr (as root), \
                     then run again"
                }
            });
        }
        Err(error) => return Verdict::unknown(error.to_string()),
    };
    let Ok(uptime) = facts.host().uptime() else {
        return Verdict::unknown(format!(
            "{count} SMIs since power-on; how long that is could not \
             be read"
        ));
    };
    let hours = uptime.as_secs() / 3600.0;
    let source = format!("MSR {SMI_COUNT:#x} of CPU {cpu}");
    let value = format!("{count} since power-on, up {hours:.1} h");
    // One an hour is quiet; one a minute over a day is more than any firmware's start leaves.
    if count == 0 || count as f64 <= hours {
        return Verdict::pass(format!("at most {count} SMIs in {hours:.0} h"))
            .evidence(source, value);
    }
    if hours < 24.0 || (count as f64) < hours * 60.0 {
        return Verdict::unknown(format!(
            "{count} SMIs since power-on; how many of them are the firmware's own start, only \
             growth tells (--probe 10s)"
        ))
        .evidence(source, value);
    }
    Verdict::fail_if(
        scope.is_declared(),
        format!("{count} SMIs in {hours:.0} h: {:.1} a minute", count as f64 / hours / 60.0),
    )
    .evidence(source, value)
    .fix(FIX)
}

const FIX: &str = "in the firmware's setup: power profile \"maximum performance\" or \"OS \
                   control\", no USB legacy support, no processor power monitoring, memory \
                   scrubbing and correctable-error SMIs off (vendor's low-latency guide)";
