use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};

use crate::remedy::add_to_boot_line;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "irq.irqaffinity-token",
    cause: Cause::Irq,
    about: "irqaffinity= on the boot line names housekeeping CPUs",
    why: "irqaffinity= sets where interrupts start from the first driver on; a script that writes \
          /proc/irq/default_smp_affinity later comes after the drivers that udev has loaded by \
          then. The list names the CPUs that may be used, unlike isolcpus= beside it, which names \
          those that may not: the two are easily swapped. The kernel adds the CPU it boots on to \
          whatever is given. Existing interrupts, and drivers that ask for CPUs of their own, are \
          judged by irq.effective-affinity.",
    cost: Cost {
        us: 30.0,
        text: "10–50 µs per device interrupt, from the first one after boot",
        origin: "article on isolation, the irqaffinity parameter",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/cmdline";
    let boot = facts.boot();
    if !boot.known {
        return Verdict::unknown("the boot line could not be read");
    }
    let keep = scope.housekeeping(facts);
    let fix = |keep: &CpuSet| add_to_boot_line(facts, &format!("irqaffinity={keep}"));
    let Some(request) = &boot.irqaffinity else {
        return Verdict::warn("irqaffinity= is not set: interrupts start on any CPU at boot")
            .evidence(SOURCE, "no irqaffinity=")
            .fix_onto(&keep, fix);
    };
    let token = format!("irqaffinity={}", request.text);
    let cpus = match &request.cpus {
        Ok(cpus) => cpus,
        Err(why) => {
            return Verdict::fail(format!("{token} is not a CPU list: {why}"))
                .evidence(SOURCE, &token)
                .fix_onto(&keep, fix);
        }
    };
    let touched = cpus.and(&scope.cpus);
    if !touched.is_empty() {
        return Verdict::fail(format!("{token} lets interrupts start on CPUs {touched}"))
            .evidence(SOURCE, &token)
            .fix_onto(&keep, fix);
    }
    if cpus.and(&facts.cpus().online).is_empty() {
        return Verdict::warn(format!("{token} names no CPU that is online"))
            .evidence(SOURCE, &token)
            .fix_onto(&keep, fix);
    }
    Verdict::pass(format!("{token} keeps new interrupts off CPUs {}", scope.cpus))
        .evidence(SOURCE, token)
}
