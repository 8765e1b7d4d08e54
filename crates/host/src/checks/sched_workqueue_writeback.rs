use quietcore_facts::Facts;
use quietcore_measure::Cause;

use super::sched_workqueue_cpumask::SOURCE as ALL;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.workqueue-writeback",
    cause: Cause::Scheduler,
    about: "Writing dirty pages to disk keeps off CPUs meant for latency",
    why: "The workers that write dirty pages to disk have a mask of their own, \
          /sys/bus/workqueue/devices/writeback/cpumask, and run long. It is cut down by the mask \
          for all unbound work, so it matters where that one holds latency CPUs; where both share \
          no CPU the kernel uses the mask for all. (kernel: core-api/workqueue.rst, \
          kernel/workqueue.c wqattrs_actualize_cpumask)",
    cost: Cost {
        us: 500.0,
        text: "50–500 µs and more, whenever dirty pages are written",
        origin: "article on determinism, taxonomy: kernel scheduler jitter",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/sys/bus/workqueue/devices/writeback/cpumask";
    let own = match facts.host().cpu_mask(SOURCE) {
        Ok(mask) => mask,
        Err(error) => return Verdict::unanswered(&error),
    };
    let all = match facts.host().cpu_mask(ALL) {
        Ok(mask) => mask,
        Err(error) => return Verdict::unanswered(&error),
    };
    let effective = match own.intersects(&all) {
        true => own.and(&all),
        false => all.clone(),
    };
    let touched = effective.and(&scope.cpus);
    let verdict = match touched.is_empty() {
        true => Verdict::pass("dirty pages are written from housekeeping CPUs"),
        false => Verdict::fail(format!("dirty pages may be written from CPUs {touched}")),
    };
    let width = facts.cpus().possible.highest().map_or(1, |top| top + 1);
    verdict
        .evidence(SOURCE, &own)
        .evidence(ALL, &all)
        .fix_onto(&scope.housekeeping(facts), |keep| {
            format!("echo {} > {SOURCE}", keep.to_mask(width))
        })
}
