use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict, interfaces};

pub const CHECK: Check = Check {
    id: "net.pcie-link",
    cause: Cause::Network,
    about: "A network card's PCIe link is as wide and as fast as the card",
    why: "A card in a slot with fewer lanes, behind a riser, or after a failed link training runs \
          with less than it can, and every packet takes longer over the bus; bursts queue in the \
          card. The device says what it could do (max_link_width, max_link_speed) and what was \
          agreed on. A slot that is narrower by design is found here, too: a warning, not a fault.",
    cost: Cost {
        us: 0.5,
        text: "some hundred ns per packet on a link of half the width; µs and losses in bursts",
        origin: "PCI Express Base Specification for the rates; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let nics = match interfaces::in_use(facts) {
        Ok(nics) => nics,
        Err(verdict) => return verdict,
    };
    let mut links = 0;
    let mut reduced = Vec::new();
    for nic in nics {
        let folder = format!("/sys/class/net/{}/device", nic.name);
        for what in ["link_width", "link_speed"] {
            let read = |which: &str| facts.host().line(&format!("{folder}/{which}_{what}"));
            match (read("current"), read("max")) {
                (Ok(now), Ok(most)) => {
                    links += 1;
                    if number(&now) < number(&most) {
                        reduced.push((format!("{folder}/current_{what}"), now, most));
                    }
                }
                // A card of a hypervisor, or on a bus of its own, has no PCIe link.
                (Err(error), _) | (_, Err(error)) => {
                    if error.trouble != quietcore_sys::Trouble::Missing {
                        return Verdict::unanswered(&error);
                    }
                }
            }
        }
    }
    if links == 0 {
        return Verdict::not_applicable("no network card is on a PCIe link");
    }
    let Some((file, now, most)) = reduced.first() else {
        return Verdict::pass("network cards have the PCIe links that they are made for");
    };
    let verdict = Verdict::warn(format!("a network card's PCIe link runs at {now} of {most}"));
    reduced
        .iter()
        .fold(verdict, |verdict, (file, now, most)| {
            verdict.evidence(file, format!("{now}, the card can do {most}"))
        })
        .fix(format!("put the card into a slot that offers {most}, or reseat it; then cat {file}"))
}

/// `8`, or the rate in `16.0 GT/s PCIe`; what is no number compares with nothing.
fn number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok().filter(|n: &f64| *n > 0.0)
}
