use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "kernel.debug-options",
    cause: Cause::Lock,
    about: "The kernel was not built, or booted, for debugging",
    why: "Lock proving, address sanitising and allocation debugging multiply the cost of every \
          lock, every allocation, every access in the kernel. They stand in the configuration of \
          debug builds (Fedora's kernel-debug, a colleague's test kernel) and are easily booted by \
          mistake; slub_debug and page_poison on the boot line do the same to an ordinary kernel. \
          The configuration is that of the running kernel.",
    cost: Cost {
        us: 5.0,
        text: "system calls 2 to 10 times as long",
        origin: "kernel: lib/Kconfig.debug (help of each option); size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

const OPTIONS: &[&str] = &[
    "PROVE_LOCKING",
    "LOCK_STAT",
    "DEBUG_LOCK_ALLOC",
    "DEBUG_PREEMPT",
    "KASAN",
    "KCSAN",
    "DEBUG_OBJECTS",
    "DEBUG_KMEMLEAK",
    "DEBUG_PAGEALLOC_ENABLE_DEFAULT",
    "SLUB_DEBUG_ON",
    "DEBUG_VM",
    "PREEMPT_TRACER",
    "IRQSOFF_TRACER",
];

const TOKENS: &[&str] =
    &["slub_debug", "slab_debug", "page_poison", "debug_pagealloc", "debug_objects"];

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let tokens: Vec<String> = TOKENS
        .iter()
        .filter_map(|name| Some((name, facts.boot().value(name)?)))
        .filter(|(_, value)| !matches!(*value, "0" | "off" | "-"))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut built = Vec::new();
    for option in OPTIONS {
        match facts.host().config(option) {
            Ok(Some(value)) if value == "y" => built.push(format!("CONFIG_{option}")),
            Ok(_) => {}
            Err(error) if tokens.is_empty() => {
                return Verdict::unknown(format!(
                    "the kernel's configuration could not be read: \
                     {error}"
                ));
            }
            Err(_) => break,
        }
    }
    if built.is_empty() && tokens.is_empty() {
        return Verdict::pass("the kernel was not built for debugging")
            .evidence("kernel configuration", format!("none of {} options", OPTIONS.len()));
    }
    let all = [built.as_slice(), tokens.as_slice()].concat().join(", ");
    let verdict = Verdict::fail_if(scope.is_declared(), format!("the kernel debugs itself: {all}"));
    let verdict = match built.is_empty() {
        true => verdict,
        false => verdict.evidence("kernel configuration", built.join(", ")),
    };
    let verdict = match tokens.is_empty() {
        true => verdict,
        false => verdict.evidence("/proc/cmdline", tokens.join(" ")),
    };
    verdict.fix(
        "boot the distribution's ordinary kernel (apt install linux-image-amd64) without \
         debugging parameters",
    )
}
