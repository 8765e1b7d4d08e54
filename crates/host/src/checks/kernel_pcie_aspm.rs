use quietcore_facts::Facts;
use quietcore_facts::memory::chosen;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "kernel.pcie-aspm",
    cause: Cause::Network,
    about: "The network cards' PCIe links do not sleep",
    why: "Active-state power management lets a PCIe link sleep between packets (L0s, L1): the next \
          transfer waits until it is up again. Per device the kernel shows link/l1_aspm and its \
          like where it is in control. pcie_aspm=off does not switch the sleep off: it only keeps \
          the kernel's hands from what the firmware set up. pcie_aspm.policy=performance does.",
    cost: Cost {
        us: 10.0,
        text: "1–50 µs at the first transfer after a pause, by state and device",
        origin: "PCIe base specification (L1 exit latency field: up to 64 µs); kernel: \
                 admin-guide/kernel-parameters (pcie_aspm)",
    },
    kind: Kind::Host,
    judge,
};

const STATES: [&str; 4] = ["l0s_aspm", "l1_aspm", "l1_1_aspm", "l1_2_aspm"];

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const POLICY: &str = "/sys/module/pcie_aspm/parameters/policy";
    if !scope.is_declared() {
        return Verdict::no_intent();
    }
    let host = facts.host();
    let policy = match host.line(POLICY) {
        Ok(policy) => policy,
        Err(error) => return Verdict::unanswered(&error),
    };
    let word = chosen(&policy).unwrap_or_default();
    let mut cards = 0;
    let mut asleep = Vec::new();
    for name in host.list("/sys/class/net").unwrap_or_default() {
        let device = format!("/sys/class/net/{name}/device");
        // Virtual interfaces have no device, those of a hypervisor no PCIe link.
        if !host.exists(&format!("{device}/current_link_speed")) {
            continue;
        }
        cards += 1;
        let on =
            |state: &&str| host.number(&format!("{device}/link/{state}")).is_ok_and(|on| on != 0);
        let states: Vec<&str> = STATES.iter().copied().filter(on).collect();
        if !states.is_empty() {
            asleep.push((name, states.join(", ")));
        }
    }
    if !asleep.is_empty() {
        let names: Vec<&str> = asleep.iter().map(|(name, _)| name.as_str()).collect();
        let verdict = Verdict::fail(format!("the PCIe link of {} may sleep", names.join(", ")));
        return asleep
            .iter()
            .fold(verdict, |verdict, (name, states)| {
                verdict.evidence(format!("/sys/class/net/{name}/device/link"), states)
            })
            .evidence(POLICY, &policy)
            .fix(format!("echo performance > {POLICY}   # at boot: pcie_aspm.policy=performance"));
    }
    if cards == 0 {
        return Verdict::not_applicable("no network card is on a PCIe link");
    }
    match word {
        "performance" => Verdict::pass("PCIe links do not sleep").evidence(POLICY, policy),
        _ if facts.boot().value("pcie_aspm") == Some("off") => {
            Verdict::warn("pcie_aspm=off leaves the PCIe links as the firmware set them up")
                .evidence("/proc/cmdline", "pcie_aspm=off")
                .fix(
                    "pcie_aspm.policy=performance on the boot line instead, and ASPM off in the \
                     firmware's setup",
                )
        }
        "powersave" | "powersupersave" => Verdict::warn("PCIe links may sleep")
            .evidence(POLICY, &policy)
            .fix(format!("echo performance > {POLICY}   # at boot: pcie_aspm.policy=performance")),
        _ => Verdict::pass("no network card's PCIe link sleeps").evidence(POLICY, policy),
    }
}
