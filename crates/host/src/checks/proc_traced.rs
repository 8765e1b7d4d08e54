use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::subject::unread;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.traced",
    cause: Cause::Scheduler,
    about: "No debugger or strace is attached to the process",
    why: "A traced thread stops at every signal, and under strace at every system call, until the \
          tracer has been woken, has looked, and has let it go on: two context switches each time. \
          TracerPid of /proc/P/status names the tracer; perf and eBPF do not stop anybody and do \
          not show there.",
    cost: Cost {
        us: 20.0,
        text: "10–100 µs per system call under strace",
        origin: "judgement: two switches and two wake-ups; ptrace(2)",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let process = facts.process();
    let Some(memory) = process.memory.value() else { return unread(&process.memory) };
    let source = format!("/proc/{}/status", facts.pid().unwrap_or_default());
    match memory.tracer {
        0 => Verdict::pass("nobody traces the process").evidence(source, "TracerPid 0"),
        tracer => Verdict::fail(format!("process {tracer} traces it"))
            .evidence(source, format!("TracerPid {tracer}"))
            .fix(format!("kill -INT {tracer}   # strace and gdb detach and let it run")),
    }
}
