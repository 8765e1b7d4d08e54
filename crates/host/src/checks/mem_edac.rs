use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.edac",
    cause: Cause::Smi,
    about: "No memory module has corrected errors",
    why: "A module that is going bad is corrected by the hardware, and on many servers the \
          firmware handles each correction itself in an SMI, with all CPUs stopped; elsewhere it \
          is an interrupt on every CPU. EDAC counts corrections since its driver was loaded. \
          Where the firmware comes first, it may keep them from Linux altogether: no count is no \
          proof then.",
    cost: Cost {
        us: 20.0,
        text: "100–300 µs per correction where firmware handles it, storms of them; ranked at a tenth, for it may be over",
        origin: "article on isolation, failure 5 (ECC among the sources of SMIs)",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let controllers = &facts.hardware().controllers;
    if controllers.is_empty() {
        return match facts.cpus().is_guest() {
            true => Verdict::not_applicable("a guest does not see the memory modules"),
            false => Verdict::unknown(
                "no EDAC driver counts memory errors here (no ECC memory, \
                 or its module is not loaded)",
            ),
        };
    }
    let known = |reading: &quietcore_measure::Reading<i64>| reading.value().copied();
    let bad: Vec<_> = controllers
        .iter()
        .filter(|mc| {
            known(&mc.corrected).unwrap_or(0) > 0 || known(&mc.uncorrected).unwrap_or(0) > 0
        })
        .collect();
    let unread = controllers.iter().filter(|mc| known(&mc.corrected).is_none()).count();
    let verdict = match bad.first() {
        Some(_) => Verdict::fail_if(
            scope.is_declared(),
            format!("{} memory controllers had errors to correct", bad.len()),
        ),
        None if unread > 0 => {
            return Verdict::unknown(format!(
                "the error counts of {unread} memory controllers could not be read"
            ));
        }
        None => {
            Verdict::pass(format!("no corrected error on {} memory controllers", controllers.len()))
        }
    };
    bad.iter()
        .fold(verdict, |verdict, mc| {
            let count = |reading| known(reading).map_or("unknown".to_owned(), |n| n.to_string());
            verdict.evidence(
                format!("/sys/devices/system/edac/mc/{}", mc.name),
                format!("{} corrected, {} not", count(&mc.corrected), count(&mc.uncorrected)),
            )
        })
        .fix(
            "grep . /sys/devices/system/edac/mc/mc*/dimm*/dimm_{label,ce_count} names the \
             module: replace it",
        )
}
