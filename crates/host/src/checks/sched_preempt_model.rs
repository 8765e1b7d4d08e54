use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::Trouble;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.preempt-model",
    cause: Cause::Scheduler,
    about: "A thread that wakes up does not wait for the end of another's system call",
    why: "With preemption `none` or `voluntary` a thread of higher priority waits until the kernel \
          work of the one that runs is done or offers to yield; `full`, `lazy` (for real-time \
          threads) and real-time kernels interrupt it. A thread that spins alone on its CPU never \
          waits for this; one that sleeps and is woken does. Kernels with CONFIG_PREEMPT_DYNAMIC \
          (Debian, Ubuntu) choose at boot: what counts is /sys/kernel/debug/sched/preempt, then \
          the boot log's `Dynamic Preempt:`, then preempt= and the configuration. (kernel: \
          admin-guide/kernel-parameters.txt, preempt)",
    cost: Cost {
        us: 100.0,
        text: "up to the length of a system call or of kernel work on the same CPU, tens of µs to some ms",
        origin: "judgement: kernel/Kconfig.preempt describes the models and gives no figure",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

const FILE: &str = "/sys/kernel/debug/sched/preempt";

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let (model, source) = match model(facts) {
        Ok(found) => found,
        Err(why) => return Verdict::unknown(why),
    };
    let verdict = match model.as_str() {
        "full" | "rt" | "lazy" => Verdict::pass(format!("preemption is {model}")),
        "none" | "voluntary" => Verdict::warn(format!(
            "preemption is {model}: a thread that wakes up waits for system calls of others"
        )),
        other => Verdict::unknown(format!("preemption model `{other}` is not known")),
    };
    verdict
        .evidence(source, &model)
        .fix(format!("echo full > {FILE}   # and preempt=full on the boot line"))
}

/// The model and where it was read.
fn model(facts: &Facts) -> Result<(String, &'static str), String> {
    let host = facts.host();
    let config = |name: &str| host.config(name).map(|value| value.is_some());
    if matches!(config("PREEMPT_RT"), Ok(true)) {
        return Ok(("rt".to_owned(), "CONFIG_PREEMPT_RT"));
    }
    match host.line(FILE) {
        Ok(text) => return chosen(&text).map(|model| (model, FILE)).ok_or(text),
        Err(error) if error.trouble == Trouble::NotRecorded => return Err(error.to_string()),
        Err(_) => {}
    }
    if let Some(Some(line)) = facts.kernel().logged("Dynamic Preempt:").value() {
        let model = line.text.rsplit(':').next().unwrap_or_default().trim().to_owned();
        return Ok((model, "kernel log, Dynamic Preempt"));
    }
    let dynamic = config("PREEMPT_DYNAMIC").map_err(|error| error.to_string())?;
    let asked = facts.boot().value("preempt").filter(|_| dynamic);
    if let Some(asked) = asked {
        return Ok((asked.to_owned(), "/proc/cmdline, preempt="));
    }
    for (option, model) in [
        ("PREEMPT_LAZY", "lazy"),
        ("PREEMPT", "full"),
        ("PREEMPT_VOLUNTARY", "voluntary"),
        ("PREEMPT_NONE", "none"),
    ] {
        if matches!(config(option), Ok(true)) {
            return Ok((model.to_owned(), "the kernel's configuration"));
        }
    }
    Err("the kernel's configuration names no preemption model".to_owned())
}

/// `none voluntary (full)`
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('(')?;
    rest.split_once(')').map(|(model, _)| model.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_in_parentheses_is_the_chosen_one() {
        assert_eq!(chosen("none voluntary (full) lazy").as_deref(), Some("full"));
        for garbage in ["", "full", "(", ")", ")("] {
            assert_eq!(chosen(garbage), None, "{garbage}");
        }
    }
}
