use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.thp-defrag",
    cause: Cause::Memory,
    about: "No page fault waits for memory to be compacted",
    why: "Where no huge page is free, defrag=always makes the fault itself move other pages out of \
          the way until there is one: milliseconds in the faulting thread. defer leaves that to a \
          kernel thread; madvise does it for programs that ask; never takes what is there. It \
          only matters while huge pages are assembled at all (mem.thp).",
    cost: Cost {
        us: 100.0,
        text: "some ms in a page fault; ranked at a tenth of 1 ms, for memory must be fragmented",
        origin: "kernel: admin-guide/mm/transhuge (defrag); size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/sys/kernel/mm/transparent_hugepage/defrag";
    let memory = facts.memory();
    let Some(word) = memory.thp_defrag.value() else { return Verdict::unread(&memory.thp_defrag) };
    let none = memory.thp_sizes.value().is_some_and(Vec::is_empty);
    let never = memory.thp.value().is_some_and(|word| word == "never") && none;
    match word.as_str() {
        "always" if never => {
            Verdict::pass("no huge pages, so no fault waits for one").evidence(SOURCE, word)
        }
        "always" if memory.thp.value().is_none() => Verdict::unread(&memory.thp),
        "always"
            if memory.thp_sizes.value().is_none()
                && memory.thp.value().is_some_and(|word| word == "never") =>
        {
            Verdict::unread(&memory.thp_sizes)
        }
        "always" => {
            Verdict::fail_if(scope.is_declared(), "a page fault may stop to compact memory")
                .evidence(SOURCE, word)
                .fix(format!("echo defer+madvise > {SOURCE}"))
        }
        _ => Verdict::pass("page faults do not stop to compact memory unasked")
            .evidence(SOURCE, word),
    }
}
