use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "virt.steal-since-boot",
    cause: Cause::Virtualisation,
    about: "The hypervisor has taken hardly any time since boot",
    why: "The steal column of /proc/stat since boot, as a share of all time of the CPU that lost \
          most. It holds no dates: hours of a bad neighbour last week and a steady loss look the \
          same, so it warns, and fails only from one percent on for CPUs meant for latency. Where \
          the hypervisor does not report steal, zero is unknown.",
    cost: Cost {
        us: 400.0,
        text: "a slice of the host's scheduler, 1–10 ms, each time; ranked at a tenth, for it may be over",
        origin: "judgement: default slices of the host's scheduler",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

/// Below this share it is taken for the noise of booting.
const NOISE: f64 = 0.0001;
const HARM: f64 = 0.01;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/stat";
    let name = match facts.cpus().hypervisor.as_deref() {
        None => return Verdict::unknown("whether this is a guest is not known"),
        Some("none") => return Verdict::not_applicable("there is no hypervisor to take time"),
        Some(name) => name,
    };
    let times = &facts.virt().since_boot;
    let Some(all) = times.value() else { return Verdict::unread(times) };
    let concerns = |cpu: usize| scope.cpus.is_empty() || scope.cpus.contains(cpu);
    let shares = all.iter().filter(|t| concerns(t.cpu)).filter_map(|t| {
        let total = t.busy.saturating_add(t.idle).saturating_add(t.steal);
        (total > 0).then(|| (t.steal as f64 / total as f64, t.cpu, t.steal))
    });
    let Some((worst, cpu, ticks)) = shares.max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return Verdict::unknown(format!("{SOURCE} holds no times for these CPUs"));
    };
    let percent = worst * 100.0;
    let title = format!("the hypervisor took {percent:.2} % of CPU {cpu} since boot");
    let verdict = match worst {
        w if w >= HARM => Verdict::fail_if(scope.is_declared(), title),
        w if w >= NOISE => Verdict::warn(title),
        _ if facts.virt().tells_steal(name) => {
            Verdict::pass("the hypervisor has taken hardly any time since boot")
        }
        _ => Verdict::unknown(format!("{name} does not tell what time it takes")),
    };
    verdict
        .evidence(SOURCE, format!("CPU {cpu}: {ticks} hundredths of a second stolen"))
        .fix("watch it: quietcore audit --probe 10s; then ask for dedicated CPUs, or pin vCPUs on the hypervisor")
}
