use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "kernel.tracing",
    cause: Cause::Scheduler,
    about: "No tracer was left running",
    why: "The function tracer adds to every function of the kernel, the wake-up and irqsoff \
          tracers to every switch and interrupt; an enabled event writes a record each time it \
          happens, on isolated CPUs like on any other. They outlive the shell that switched them \
          on. Read is the main trace buffer; events that perf or BPF programs listen to do not \
          show there.",
    cost: Cost {
        us: 1.0,
        text: "0.1–0.5 µs per traced function or event; system calls several times as long under \
               the function tracer",
        origin: "kernel: trace/ftrace; size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const FOLDER: &str = "/sys/kernel/tracing";
    let host = facts.host();
    let tracer = match host.line(&format!("{FOLDER}/current_tracer")) {
        Ok(tracer) => tracer,
        Err(error) => {
            return Verdict::unknown(format!(
                "{error}; if tracefs is not mounted: mount \
                 -t tracefs tracefs {FOLDER}"
            ));
        }
    };
    let on = host.line(&format!("{FOLDER}/tracing_on")).is_ok_and(|text| text == "1");
    let events = host.line(&format!("{FOLDER}/events/enable")).unwrap_or_default();
    let some_events = matches!(events.as_str(), "1" | "X");
    let with = |verdict: Verdict| {
        verdict
            .evidence(format!("{FOLDER}/current_tracer"), &tracer)
            .evidence(format!("{FOLDER}/events/enable"), &events)
            .evidence(format!("{FOLDER}/tracing_on"), i32::from(on))
    };
    let title = match (tracer.as_str(), some_events) {
        ("nop", false) => {
            return with(match events.as_str() {
                "0" => Verdict::pass("no tracer runs and no event is recorded"),
                _ => Verdict::unknown("which events are enabled could not be read"),
            });
        }
        ("nop", true) => "trace events are enabled".to_owned(),
        (tracer, _) => format!("the {tracer} tracer runs"),
    };
    // Off, the hooks still run and only drop what they would have written.
    with(Verdict::fail_if(scope.is_declared(), title)).fix(format!(
        "echo nop > {FOLDER}/current_tracer; echo 0 > {FOLDER}/events/enable; echo > \
         {FOLDER}/set_event"
    ))
}
