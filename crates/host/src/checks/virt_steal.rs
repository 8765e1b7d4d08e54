use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "virt.steal",
    cause: Cause::Virtualisation,
    about: "The hypervisor takes no time from CPUs meant for latency",
    why: "Steal is time in which a CPU of this guest wanted to run and the host ran something else. \
          /proc/stat counts it in hundredths of a second; it is read twice. Without CPUs meant for \
          latency all are judged. No steal proves something only where the hypervisor reports it \
          (KVM says so in CPUID, Xen always does): elsewhere it is unknown. Time in which the \
          whole virtual machine was stopped is not counted by anybody.",
    cost: Cost {
        us: 4000.0,
        text: "a slice of the host's scheduler, 1–10 ms, each time",
        origin: "judgement: default slices of the host's scheduler",
    },
    kind: Kind::Probe,
    needs: Needs::Nothing,
    judge,
};

/// From this share on it harms any host.
const HARM: f64 = 0.01;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/stat";
    let name = match facts.cpus().hypervisor.as_deref() {
        None => return Verdict::unknown("whether this is a guest is not known"),
        Some("none") => return Verdict::not_applicable("there is no hypervisor to take time"),
        Some(name) => name,
    };
    let Some(probe) = facts.probe() else { return Verdict::needs_probe() };
    let cpus = if scope.cpus.is_empty() { &facts.cpus().online } else { &scope.cpus };
    let mut shares = Vec::new();
    for cpu in cpus.iter() {
        match probe.steal(cpu) {
            Some(share) => shares.push((cpu, share)),
            None => {
                return Verdict::unknown(format!("the times of CPU {cpu} could not be read twice"));
            }
        }
    }
    let worst = shares.iter().fold(0.0f64, |worst, (_, share)| worst.max(*share));
    let took = probe.took();
    let percent = worst * 100.0;
    let verdict = match worst {
        w if w >= HARM => {
            Verdict::fail(format!("the hypervisor took {percent:.1} % of a CPU in {took}"))
        }
        w if w > 0.0 => Verdict::fail_if(
            scope.is_declared(),
            format!("the hypervisor took {percent:.2} % of a CPU in {took}"),
        ),
        _ if facts.virt().tells_steal(name) => {
            Verdict::pass(format!("{name} took no time from CPUs {cpus} in {took}"))
        }
        _ => Verdict::unknown(format!("{name} does not tell what time it takes")),
    };
    shares
        .iter()
        .filter(|(_, share)| *share > 0.0)
        .take(16)
        .fold(verdict, |v, (cpu, share)| {
            v.evidence(SOURCE, format!("CPU {cpu}: {:.2} % stolen", share * 100.0))
        })
        .fix("ask for dedicated CPUs (another instance type or host), or pin vCPUs one to one on the hypervisor")
}
