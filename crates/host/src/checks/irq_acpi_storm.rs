use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "irq.acpi-storm",
    cause: Cause::Irq,
    about: "ACPI events are rare",
    why: "Firmware talks to the kernel by one interrupt (SCI); each runs byte code of the ACPI \
          tables, often waits for the embedded controller, and may enter system management mode. \
          A faulty table or a loose connector raises one general-purpose event over and over. \
          /sys/firmware/acpi/interrupts counts them since boot; divided by the uptime that is an \
          average, so a storm that began a minute ago on a host up for months is missed here and \
          seen by irq.arriving.",
    cost: Cost {
        us: 100.0,
        text: "tens to hundreds of µs per event on the CPU that gets it, SMIs besides",
        origin: "judgement: AML interpretation with embedded-controller handshakes",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

const FOLDER: &str = "/sys/firmware/acpi/interrupts";
/// Events per second since boot: more than a lid, a battery and a fan cause; and a storm.
const MANY: f64 = 10.0;
const STORM: f64 = 1000.0;

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let host = facts.host();
    let sci = format!("{FOLDER}/sci");
    let total = match host.read(&sci) {
        Ok(text) => first_number(&text),
        Err(error) => return Verdict::unanswered(&error),
    };
    let uptime = host.uptime().map_or(0.0, |t| t.0 as f64 / 1e9);
    let (Some(total), true) = (total, uptime > 0.0) else {
        return Verdict::unknown(format!("{sci} and the uptime give no rate"));
    };
    let rate = total as f64 / uptime;
    if rate < MANY {
        return Verdict::pass(format!("{rate:.2} ACPI events per second since boot"))
            .evidence(sci, total);
    }
    let names = host.list(FOLDER).unwrap_or_default();
    let mut events: Vec<(u64, String)> = names
        .into_iter()
        .filter(|name| name.starts_with("gpe") && name != "gpe_all")
        .filter_map(|name| {
            Some((first_number(&host.read(&format!("{FOLDER}/{name}")).ok()?)?, name))
        })
        .filter(|(count, _)| *count > 0)
        .collect();
    events.sort_by(|a, b| b.cmp(a));
    let title = format!("{rate:.0} ACPI events per second since boot");
    let verdict = match rate >= STORM {
        true => Verdict::fail(title),
        false => Verdict::warn(title),
    };
    let verdict = verdict.evidence(sci, total);
    let verdict = events
        .iter()
        .take(4)
        .fold(verdict, |v, (count, name)| v.evidence(format!("{FOLDER}/{name}"), count));
    match events.first() {
        Some((_, name)) => verdict.fix(format!(
            "echo disable > {FOLDER}/{name}   # acpi_mask_gpe=0x{} on the boot line keeps it off; if it is the embedded controller's (dmesg | grep -i 'GPE='), fan, thermal and battery events are lost with it: update the firmware instead",
            name.trim_start_matches("gpe")
        )),
        None => verdict,
    }
}

/// `     123  EN     enabled      unmasked`
fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}
