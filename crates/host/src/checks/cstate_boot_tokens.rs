use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::remedy::edit_boot_line;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cstate.boot-tokens",
    cause: Cause::CState,
    about: "What the boot line says of idle states took effect",
    why: "Three parameters look alike and only one of them acts: intel_idle.max_cstate limits \
          intel_idle, processor.max_cstate limits acpi_idle and is ignored while intel_idle runs, \
          idle=poll replaces both. processor.max_cstate=0 is taken for 1. idle= knows poll, halt \
          and nomwait; any other word is dropped. The verdict compares the words with the driver \
          that runs and with the number of states it offers.",
    cost: Cost {
        us: 100.0,
        text: "the exit latency of the states believed to be off",
        origin: "kernel: admin-guide/kernel-parameters, drivers/idle/intel_idle.c; article on \
                 isolation, the GRUB line",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let boot = facts.boot();
    if !boot.known {
        return Verdict::unknown("the kernel command line could not be read");
    }
    let names = ["idle", "intel_idle.max_cstate", "processor.max_cstate"];
    let given: Vec<String> =
        names.iter().filter_map(|name| Some(format!("{name}={}", boot.value(name)?))).collect();
    if given.is_empty() {
        return Verdict::not_applicable("the boot line says nothing of idle states");
    }
    let wrong = contradiction(facts);
    let unread = facts.idle().driver.value().is_none();
    let verdict = match &wrong {
        Some((why, _)) => Verdict::fail_if(scope.is_declared(), why),
        None if unread => return Verdict::unknown(facts.idle().driver.why()),
        None => match unheard(facts) {
            Some(verdict) => verdict,
            None => Verdict::pass(format!("{} is in effect", given.join(" "))),
        },
    };
    let driver = facts.idle().driver.value().map_or("none", String::as_str);
    let verdict = verdict
        .evidence("/proc/cmdline", given.join(" "))
        .evidence("/sys/devices/system/cpu/cpuidle/current_driver", driver);
    match wrong {
        Some((_, fix)) => verdict.fix(fix),
        None => verdict,
    }
}

/// Words that nobody listens to, or whose effect does not show.
fn unheard(facts: &Facts) -> Option<Verdict> {
    let (boot, idle) = (facts.boot(), facts.idle());
    let driver = idle.driver.value().map_or("none", String::as_str);
    if boot.value("idle") == Some("poll") {
        let title = format!("{driver} offers idle states that could not be read");
        return (driver != "none").then(|| Verdict::unknown(title));
    }
    if driver == "intel_idle" {
        return (!idle.told(&facts.cpus().online)).then(|| {
            Verdict::unknown(format!("the idle states that {driver} offers could not be read"))
        });
    }
    let most = boot.value("intel_idle.max_cstate").and_then(|text| text.parse::<usize>().ok());
    let most = most.filter(|most| *most > 0)?;
    boot.value("processor.max_cstate").is_none().then(|| {
        Verdict::warn(format!("nothing reads intel_idle.max_cstate={most}: {driver} runs")).fix(
            "add processor.max_cstate=1 to GRUB_CMDLINE_LINUX of /etc/default/grub, then \
             update-grub and reboot",
        )
    })
}

/// What is wrong, and what to do about it.
fn contradiction(facts: &Facts) -> Option<(String, String)> {
    let boot = facts.boot();
    let idle = facts.idle();
    let driver = idle.driver.value().map_or("", String::as_str);
    let edit = |what: &str| edit_boot_line(facts, what);
    if let Some(word) =
        boot.value("idle").filter(|word| !["poll", "halt", "nomwait"].contains(word))
    {
        return Some((
            format!("idle={word} is not a word the kernel knows"),
            edit("write idle=poll"),
        ));
    }
    if boot.value("idle") == Some("poll") && !idle.states.is_empty() {
        return Some((
            format!("idle=poll did not take effect: {driver} runs"),
            edit("give idle=poll once, unquoted"),
        ));
    }
    for name in ["intel_idle.max_cstate", "processor.max_cstate"] {
        if let Some(text) = boot.value(name).filter(|text| text.parse::<u32>().is_err()) {
            return Some((
                format!("{name}={text} is not a number"),
                edit(&format!("write {name}=1")),
            ));
        }
    }
    // POLL is there besides.
    let most = boot.value("intel_idle.max_cstate").and_then(|text| text.parse::<usize>().ok());
    let offered = idle.states.values().map(Vec::len).max().unwrap_or_default();
    if let Some(most) =
        most.filter(|most| driver == "intel_idle" && *most > 0 && offered.saturating_sub(1) > *most)
    {
        return Some((
            format!("intel_idle.max_cstate={most} did not take effect: {offered} idle states"),
            edit("give intel_idle.max_cstate=1 once, unquoted,"),
        ));
    }
    let deep = !idle.slower_than(2, &facts.cpus().online).is_empty();
    if driver == "intel_idle"
        && deep
        && boot.value("processor.max_cstate").is_some()
        && boot.value("intel_idle.max_cstate").is_none()
    {
        return Some((
            "processor.max_cstate is ignored: intel_idle runs, and only intel_idle.max_cstate \
             limits it"
                .to_owned(),
            edit("add intel_idle.max_cstate=1"),
        ));
    }
    None
}
