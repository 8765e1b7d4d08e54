use quietcore_facts::{Boot, Facts};
use quietcore_measure::Cause;

use crate::parameters::{is_for_latency, meant_by};
use crate::remedy::edit_boot_line;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "boot.unknown-tokens",
    cause: Cause::Scheduler,
    about: "The kernel knows every latency parameter on its boot line",
    why: "A parameter the kernel does not know is handed to the init process, and nobody complains: \
          nohz_ful=2-5 leaves the tick where it was. Since Linux 5.14 the boot log names them \
          (`Unknown kernel command line parameters`), parameters of modules (with a dot) \
          excepted, and many that are not for the kernel at all (splash, BOOT_IMAGE=). So two \
          things are judged: latency parameters in that line (this kernel is built without them, \
          or could not use the value: it lists isolcpus=99 there on a machine of 4 CPUs), and \
          names one or two letters away from a latency parameter, wherever they come from. \
          isolcpus and nohz_full without a value do nothing either.",
    cost: Cost {
        us: 100.0,
        text: "whatever the parameter was to prevent: a tick of 1–5 µs up to a task of 50–500 µs",
        origin: "articles on isolation and on determinism, for the parameters that were meant",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let boot = facts.boot();
    if !boot.known {
        return Verdict::unknown("/proc/cmdline could not be read");
    }
    let logged = facts.kernel().logged("Unknown kernel command line parameters");
    let unknown: Vec<String> = match logged.value() {
        Some(Some(line)) => names(&line.text),
        _ => Vec::new(),
    };
    let mut wrong: Vec<String> = boot.tokens.iter().filter_map(|t| typo(&t.name)).collect();
    wrong.extend(empty(boot));
    let latency = unknown.iter().filter(|name| is_for_latency(name));
    wrong.extend(latency.map(|name| format!("the kernel did not take {name}")));
    wrong.dedup();
    let verdict = match wrong.is_empty() {
        true => match (logged.value(), facts.kernel().version()) {
            (None, _) => Verdict::unknown(format!(
                "no latency parameter is misspelt; whether the kernel took each, only its log \
                 can tell: {}",
                logged.why()
            )),
            (Some(None), version) if version < (5, 14) => Verdict::pass(
                "no latency parameter is misspelt (a kernel before 5.14 does not log those it does not know)",
            ),
            _ => Verdict::pass("no latency parameter is misspelt or unknown to this kernel"),
        },
        // Someone meant to tune this host: it is wrong whether or not any CPU is isolated.
        false => Verdict::fail(wrong.join("; ")),
    };
    let verdict = match logged.value() {
        Some(Some(line)) => verdict.evidence("kernel log", &line.text),
        _ => verdict,
    };
    verdict
        .evidence(
            "/proc/cmdline",
            boot.tokens.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(" "),
        )
        .fix(edit_boot_line(facts, "mend the name"))
}

fn typo(name: &str) -> Option<String> {
    meant_by(name).map(|meant| format!("`{name}` should probably be `{meant}`"))
}

fn empty(boot: &Boot) -> Vec<String> {
    let bare = |name: &&&str| {
        let mut tokens = boot.tokens.iter().filter(|token| token.name == **name);
        tokens.any(|token| token.value.as_deref().unwrap_or_default().is_empty())
    };
    let found = ["isolcpus", "nohz_full", "irqaffinity"];
    found.iter().filter(bare).map(|name| format!("{name} names no CPU")).collect()
}

/// `Unknown kernel command line parameters "nohz_ful=1 splash", will be passed to user space.`
fn names(line: &str) -> Vec<String> {
    let quoted = line.split('"').nth(1).unwrap_or_default();
    let name = |word: &str| word.split('=').next().unwrap_or_default().replace('-', "_");
    quoted.split_whitespace().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_line_names_the_parameters() {
        let line = "Unknown kernel command line parameters \"nohz-ful=1 splash\", will be passed to user space.";
        assert_eq!(names(line), ["nohz_ful", "splash"]);
        assert_eq!(names("Unknown kernel command line parameters"), [""; 0]);
    }

    #[test]
    fn a_list_left_out_is_named() {
        assert_eq!(empty(&Boot::parse("isolcpus 2-3 nohz_full=", 3)).len(), 2);
        assert_eq!(empty(&Boot::parse("isolcpus=2-3 rcu_nocbs", 3)), [""; 0]);
    }
}
