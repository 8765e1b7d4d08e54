use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "kernel.mitigations",
    cause: Cause::Scheduler,
    about: "No costly guard against CPU flaws stands in every system call",
    why: "Some mitigations act at every entry to and exit from the kernel, interrupts included: \
          page-table isolation, IBRS, the untraining of return predictors, the clearing of CPU \
          buffers. Others act at a switch between programs (IBPB) or cost a few cycles per branch \
          (retpolines). Named are those of the first two kinds that are active now. Whether a \
          host that runs only its owner's code may do without is the owner's decision, so this \
          never fails.",
    cost: Cost {
        us: 0.5,
        text: "0.1–1 µs per system call and interrupt; IBPB 1–5 µs per switch between programs",
        origin: "kernel: admin-guide/hw-vuln; sizes: judgement, they differ by CPU",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

const FOLDER: &str = "/sys/devices/system/cpu/vulnerabilities";

/// File, words of an active mitigation that costs, what it does.
const COSTLY: &[(&str, &str, &str)] = &[
    ("meltdown", "Mitigation: PTI", "page tables switched at every entry"),
    ("spectre_v2", "Mitigation: IBRS", "IBRS written at every entry"),
    ("spectre_v2", "IBPB: always-on", "predictors flushed at every switch"),
    ("retbleed", "Mitigation: IBRS", "IBRS written at every entry"),
    ("retbleed", "untrained return thunk", "return predictor untrained at every entry"),
    ("retbleed", "Mitigation: IBPB", "predictors flushed at every entry"),
    ("spec_rstack_overflow", "Mitigation: IBPB", "predictors flushed at every entry"),
    ("mds", "Clear CPU buffers", "CPU buffers cleared at every exit"),
    ("tsx_async_abort", "Clear CPU buffers", "CPU buffers cleared at every exit"),
    ("mmio_stale_data", "Mitigation: Clear CPU buffers", "CPU buffers cleared at every exit"),
    (
        "reg_file_data_sampling",
        "Mitigation: Clear Register File",
        "register files cleared at \
         every exit",
    ),
    ("tsa", "Mitigation: Clear CPU buffers", "CPU buffers cleared at every exit"),
];

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let host = facts.host();
    let names = match host.list(FOLDER) {
        Ok(names) => names,
        Err(error) => return Verdict::unanswered(&error),
    };
    let mut active = Vec::new();
    for (file, words, what) in
        COSTLY.iter().filter(|(file, _, _)| names.iter().any(|name| name == file))
    {
        match host.line(&format!("{FOLDER}/{file}")) {
            // "Vulnerable: Clear CPU buffers attempted" clears them just the same.
            Ok(text) if text.contains(words) => active.push((*file, text, *what)),
            Ok(_) => {}
            Err(error) => return Verdict::unknown(error.to_string()),
        }
    }
    if active.is_empty() {
        return Verdict::pass("no mitigation acts at every entry to the kernel")
            .evidence(FOLDER, format!("{} flaws looked at", names.len()));
    }
    let files: Vec<&str> = active.iter().map(|(file, _, _)| *file).collect();
    let verdict = Verdict::warn(format!(
        "guards against {} act at every entry to the kernel",
        files.join(", ")
    ));
    active
        .iter()
        .fold(verdict, |verdict, (file, text, what)| {
            verdict.evidence(format!("{FOLDER}/{file}"), format!("{text}: {what}"))
        })
        .fix(
            "if only trusted code runs here: mitigations=off on the boot line; else keep them \
             and stay out of the kernel (busy polling, kernel bypass)",
        )
}
