use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};
use quietcore_sys::host::{HostError, Task, Trouble};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.fair-server",
    cause: Cause::Scheduler,
    about: "No fair server takes time from real-time threads on CPUs meant for latency",
    why: "Since Linux 6.12 a deadline server gives ordinary threads 50 ms of each second on a CPU \
          that real-time threads keep busy. It starts only if an ordinary thread waits there, a \
          kernel worker is enough, so it fails only where a real-time thread is running at the look. \
          In some kernels its timer also brings interrupts back to \
          nohz_full CPUs. Its runtime per CPU is in /sys/kernel/debug/sched/fair_server, which \
          only root reads, and nobody under lockdown: then the answer is unknown. (kernel: commit \
          d741f297bcea, fair server interface)",
    cost: Cost {
        us: 500.0,
        text: "up to 50 ms of a second, from a real-time thread whose CPU an ordinary one waits for; ranked at a hundredth where none is seen",
        origin: "kernel/sched/deadline.c: the server's default runtime and period",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

const FOLDER: &str = "/sys/kernel/debug/sched/fair_server";

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    if facts.kernel().version() < (6, 12) {
        return Verdict::not_applicable("there is none before Linux 6.12");
    }
    let (serving, longest) = match serving(facts, &scope.cpus) {
        Ok(found) => found,
        Err(error) if error.trouble == Trouble::Missing => {
            return Verdict::unknown(format!(
                "{FOLDER} is not there: is debugfs mounted, or locked down?"
            ));
        }
        Err(error) => return Verdict::unknown(error.to_string()),
    };
    if serving.is_empty() {
        return Verdict::pass(format!("no fair server on CPUs {}", scope.cpus))
            .evidence(FOLDER, "runtime 0");
    }
    let running = |task: &&Task| {
        !task.kernel && task.state == 'R' && task.is_realtime() && task.affinity.is_subset(&serving)
    };
    let threads: Vec<String> = facts.tasks().iter().filter(running).map(Task::label).collect();
    let verdict = match threads.is_empty() {
        false => Verdict::fail(format!(
            "the fair server may take up to {} ms a second from {}",
            longest / 1_000_000,
            threads.join(", ")
        ))
        .costs_us(longest as f64 / 1e3),
        true => Verdict::warn(format!("the fair server is on for CPUs {serving}")),
    };
    verdict.evidence(FOLDER, format!("runtime {longest} ns on CPUs {serving}")).fix(format!(
        "for cpu in {}; do echo 0 > {FOLDER}/cpu$cpu/runtime; done",
        serving.iter().map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(" ")
    ))
}

/// Which of these CPUs have a fair server, and the longest runtime of one in nanoseconds.
pub(super) fn serving(facts: &Facts, cpus: &CpuSet) -> Result<(CpuSet, i64), HostError> {
    let mut serving = CpuSet::new();
    let mut longest = 0;
    for cpu in cpus.iter() {
        let ns = facts.host().number(&format!("{FOLDER}/cpu{cpu}/runtime"))?;
        if ns != 0 {
            serving.insert(cpu);
            longest = longest.max(ns);
        }
    }
    Ok((serving, longest))
}
