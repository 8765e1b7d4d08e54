use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.khugepaged",
    cause: Cause::Memory,
    about: "khugepaged does not rearrange programs' memory",
    why: "khugepaged scans every program's memory for small pages to merge into a large one. For \
          each it takes the lock of the program's mappings, copies 512 pages and flushes the TLBs \
          of all CPUs that run the program by an interrupt: isolated ones among them. It runs \
          unless transparent huge pages are off or its own defrag switch is 0; with madvise it \
          only looks where a program asked for it.",
    cost: Cost {
        us: 100.0,
        text: "about 100 µs per page merged, and an interrupt on every CPU of the program",
        origin: "kernel: admin-guide/mm/transhuge (khugepaged), mm/khugepaged.c; size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

/// The least that a huge page of the common switch is; the switch of that size starts khugepaged
/// by itself.
const LARGE_KIB: u64 = 2048;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";
    let thp = &facts.memory().thp;
    let Some(word) = thp.value() else { return Verdict::unread(thp) };
    let sizes = &facts.memory().thp_sizes;
    let large = |size: &String| {
        let kib = size.split("kB").next().and_then(|kib| kib.parse::<u64>().ok());
        kib.is_some_and(|kib| kib >= LARGE_KIB)
    };
    if word != "always" && sizes.value().is_none() {
        return Verdict::unread(sizes);
    }
    if word != "always" && !sizes.value().is_some_and(|sizes| sizes.iter().any(large)) {
        return Verdict::pass(match word.as_str() {
            "never" => "khugepaged does not run",
            _ => "khugepaged only looks where programs asked for huge pages",
        })
        .evidence("/sys/kernel/mm/transparent_hugepage/enabled", word);
    }
    let host = facts.host();
    let defrag = match host.number(&format!("{FOLDER}/defrag")) {
        Ok(defrag) => defrag,
        Err(error) => return Verdict::unanswered(&error),
    };
    if defrag == 0 {
        return Verdict::pass("khugepaged merges nothing").evidence(format!("{FOLDER}/defrag"), 0);
    }
    let merged = host.number(&format!("{FOLDER}/pages_collapsed"));
    Verdict::fail_if(scope.is_declared(), "khugepaged merges pages of every program")
        .evidence(format!("{FOLDER}/defrag"), defrag)
        .evidence(
            format!("{FOLDER}/pages_collapsed"),
            merged.map_or("unknown".to_owned(), |n| n.to_string()),
        )
        .fix(format!("echo 0 > {FOLDER}/defrag   # or transparent_hugepage=never"))
}
