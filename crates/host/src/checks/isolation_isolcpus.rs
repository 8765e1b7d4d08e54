use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::remedy::{add_to_boot_line, edit_boot_line};
use crate::{Check, Cost, Kind, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "isolation.isolcpus",
    cause: Cause::Scheduler,
    about: "The scheduler places no task on CPUs meant for latency by itself",
    why: "A list that the kernel cannot use, such as isolcpus=99 on a machine of 4 CPUs, does not \
          stop the boot: the kernel says so in its log (`incorrect CPU range`, or nothing at \
          all) and isolates nothing. What counts is /sys/devices/system/cpu/isolated, where the kernel says which \
          CPUs it keeps out of the scheduler's domains, or a valid isolated cpuset partition, \
          which does the same without a boot.",
    cost: Cost {
        us: 200.0,
        text: "50–500 µs whenever the scheduler places another task there, every 10–100 ms",
        origin: "article on determinism, taxonomy",
    },
    kind: Kind::Host,
    judge,
};

const SOURCE: &str = "/sys/devices/system/cpu/isolated";

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(asked) = &facts.boot().isolcpus else { return without(facts, scope) };
    let token = asked.text();
    let wanted = match &asked.request.cpus {
        Ok(cpus) => cpus,
        Err(why) => {
            return Verdict::fail(format!("{token} is not a CPU list: {why}"))
                .evidence("/proc/cmdline", &token)
                .fix(edit_boot_line(facts, "mend the list of isolcpus="));
        }
    };
    let reading = &facts.cpus().isolated;
    let Some(isolated) = reading.value() else { return Verdict::unread(reading) };
    let missing = wanted.minus(isolated);
    let verdict = match missing.is_empty() && !wanted.is_empty() {
        true => Verdict::pass(format!("CPUs {isolated} are isolated, as {token} asks")),
        false => Verdict::fail(format!("{token} did not isolate CPUs {missing}")),
    };
    verdict.evidence("/proc/cmdline", &token).evidence(SOURCE, isolated).fix(edit_boot_line(
        facts,
        &format!("name CPUs that exist ({}) in isolcpus=", facts.cpus().possible),
    ))
}

/// CPUs may be meant for latency by nohz_full= or --cpus alone.
fn without(facts: &Facts, scope: &Scope) -> Verdict {
    if !scope.is_declared() {
        return Verdict::not_applicable("no isolcpus= on the boot line");
    }
    let domain = &facts.isolation().domain;
    let missing = scope.cpus.minus(domain);
    let verdict = match missing.is_empty() && !scope.cpus.is_empty() {
        true => Verdict::pass(format!("a cpuset partition isolates CPUs {}", scope.cpus)),
        false => Verdict::fail(format!(
            "the scheduler may place any task on CPUs {missing}: neither isolcpus= nor a partition covers them"
        )),
    };
    verdict.evidence(SOURCE, domain).fix(add_to_boot_line(
        facts,
        &format!("isolcpus=managed_irq,domain,{}", scope.cpus),
    ))
}
