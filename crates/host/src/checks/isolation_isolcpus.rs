use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet, Reading};

use crate::remedy::{add_to_boot_line, edit_boot_line};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

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
    needs: Needs::Intent,
    judge,
};

const SOURCE: &str = "/sys/devices/system/cpu/isolated";

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let boot = facts.boot();
    let mut wanted = scope.cpus.clone();
    let mut asked = CpuSet::new();
    let mut token = None;
    if let Some(isolcpus) = &boot.isolcpus {
        let text = isolcpus.text();
        match &isolcpus.request.cpus {
            Ok(cpus) => asked = cpus.clone(),
            Err(why) => {
                return Verdict::fail(format!("{text} is not a CPU list: {why}"))
                    .evidence("/proc/cmdline", &text)
                    .fix(edit_boot_line(facts, "mend the list of isolcpus="));
            }
        }
        wanted = wanted.or(&asked);
        token = Some(text);
    }
    let domain = &facts.isolation().domain;
    let missing = wanted.minus(domain);
    let verdict = match missing.is_empty() && !wanted.is_empty() {
        true => Verdict::pass(match &token {
            _ if wanted.is_subset(&facts.cgroups().isolated()) => {
                format!("a cpuset partition isolates CPUs {wanted}")
            }
            Some(token) if scope.cpus.is_subset(&asked) => {
                format!("CPUs {domain} are isolated, as {token} asks")
            }
            _ => format!("CPUs {wanted} are isolated"),
        }),
        false => match open(facts, &missing, token.as_deref(), &asked) {
            Ok(title) => Verdict::fail(title),
            Err(unread) => return unread,
        },
    };
    let verdict = verdict.evidence(SOURCE, domain);
    let Some(token) = token else {
        return verdict
            .fix(add_to_boot_line(facts, &format!("isolcpus=managed_irq,domain,{}", scope.cpus)));
    };
    verdict.evidence("/proc/cmdline", token).fix(edit_boot_line(
        facts,
        &format!(
            "name CPUs {} and none that does not exist (there are {}) in isolcpus=",
            scope.cpus,
            facts.cpus().possible
        ),
    ))
}

/// What is wrong with CPUs that are not isolated; whoever did not answer may isolate them still.
fn open(
    facts: &Facts,
    missing: &CpuSet,
    token: Option<&str>,
    asked: &CpuSet,
) -> Result<String, Verdict> {
    let isolated = &facts.cpus().isolated;
    if isolated.value().is_none() {
        return Err(Verdict::unread(isolated));
    }
    if let Reading::Failed(why) = &facts.cgroups().limits {
        return Err(Verdict::unknown(format!(
            "whether a cpuset partition isolates CPUs {missing} is not known: {why}"
        )));
    }
    Ok(match token.filter(|_| missing.intersects(asked) || missing.is_empty()) {
        Some(token) => format!("{token} did not isolate CPUs {}", missing.and(asked)),
        None => format!(
            "the scheduler may place any task on CPUs {missing}: neither isolcpus= nor a partition covers them"
        ),
    })
}
