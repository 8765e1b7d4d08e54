use quietcore_facts::Facts;
use quietcore_facts::memory::chosen;
use quietcore_measure::Cause;
use quietcore_sys::{HostError, Trouble};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

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
    needs: Needs::Intent,
    judge,
};

const STATES: [&str; 4] = ["l0s_aspm", "l1_aspm", "l1_1_aspm", "l1_2_aspm"];

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    const POLICY: &str = "/sys/module/pcie_aspm/parameters/policy";
    let host = facts.host();
    let policy = match host.line(POLICY) {
        Ok(policy) => policy,
        Err(error) => return Verdict::unanswered(&error),
    };
    let word = chosen(&policy).unwrap_or_default();
    let mut cards = 0;
    let mut asleep = Vec::new();
    let names = match host.list("/sys/class/net") {
        Ok(names) => names,
        Err(error) => return Verdict::unanswered(&error),
    };
    let mut silent = Vec::new();
    for name in names {
        let device = format!("/sys/class/net/{name}/device");
        // Virtual interfaces have no device, those of a hypervisor no PCIe link.
        if !host.exists(&format!("{device}/current_link_speed")) {
            continue;
        }
        cards += 1;
        // A link shows the states it can enter, and none where the kernel is not in control.
        let answers: Vec<_> = STATES
            .iter()
            .map(|state| (*state, host.number(&format!("{device}/link/{state}"))))
            .collect();
        let denied = |answer: &Result<i64, HostError>| {
            answer.as_ref().is_err_and(|error| error.trouble != Trouble::Missing)
        };
        if answers.iter().all(|(_, on)| on.is_err()) || answers.iter().any(|(_, on)| denied(on)) {
            silent.push(name.clone());
        }
        let on = answers.iter().filter(|(_, on)| on.as_ref().is_ok_and(|on| *on != 0));
        let states: Vec<&str> = on.map(|(state, _)| *state).collect();
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
        _ if !silent.is_empty() => Verdict::unknown(format!(
            "whether the PCIe link of {} sleeps is the firmware's choice: the kernel does not \
             show link/*_aspm",
            silent.join(", ")
        ))
        .evidence(POLICY, policy),
        _ => Verdict::pass("no network card's PCIe link sleeps").evidence(POLICY, policy),
    }
}
