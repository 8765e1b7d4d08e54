use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::Task;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "irq.threads",
    cause: Cause::Irq,
    about: "No interrupt thread may run on a CPU meant for latency",
    why: "Drivers with threaded handlers, every driver under threadirqs, and all of them on \
          PREEMPT_RT do their work in kernel threads named irq/NUMBER-NAME, SCHED_FIFO 50: they \
          preempt any SCHED_OTHER thread and share the CPU with a real-time one of the same \
          priority. The thread follows its interrupt's affinity when the interrupt fires; taskset \
          on the thread holds until then and never moves the interrupt. So the affinity that must \
          be mended is the interrupt's. A thread that may run there and last ran elsewhere is a \
          warning.",
    cost: Cost {
        us: 20.0,
        text: "5–50 µs per interrupt: two context switches and the handler",
        origin: "judgement: the handler's time is that of irq.effective-affinity, moved to a thread",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let tasks = &facts.tasks().all;
    let Some(tasks) = tasks.value() else { return Verdict::unread(tasks) };
    let is_handler = |task: &&Task| task.kernel && task.name.starts_with("irq/");
    let handlers: Vec<&Task> = tasks.iter().filter(is_handler).collect();
    if !facts.tasks().complete() {
        return Verdict::unknown_tasks(facts);
    }
    if handlers.is_empty() {
        return Verdict::not_applicable("no interrupt is handled by a thread");
    }
    let allowed = |task: &&&Task| task.affinity.intersects(&scope.cpus);
    let touching: Vec<&Task> = handlers.iter().filter(allowed).copied().collect();
    if touching.is_empty() {
        let text = format!("none of {} interrupt threads may run there", handlers.len());
        return Verdict::pass(text);
    }
    let names: Vec<String> = touching.iter().map(|task| task.label()).collect();
    let names = names.join(", ");
    let verdict = match touching.iter().any(|task| scope.cpus.contains(task.cpu)) {
        true => Verdict::fail(format!("interrupt threads run on CPUs {}: {names}", scope.cpus)),
        false => {
            Verdict::warn(format!("interrupt threads may run on CPUs {}: {names}", scope.cpus))
        }
    };
    let verdict = touching.iter().fold(verdict, |verdict, task| {
        let what = format!("may run on {}, last ran on {}", task.affinity, task.cpu);
        verdict.evidence(format!("sched_getaffinity {}", task.label()), what)
    });
    let numbers = touching.iter().filter_map(|task| {
        let number = task.name.strip_prefix("irq/")?.split('-').next()?;
        number.parse::<u32>().ok().map(|n| n.to_string())
    });
    let numbers = numbers.collect::<Vec<_>>().join(" ");
    verdict.fix_onto(&scope.housekeeping(facts), |keep| {
        format!("for irq in {numbers}; do echo {keep} > /proc/irq/$irq/smp_affinity_list; done")
    })
}
