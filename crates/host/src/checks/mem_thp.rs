use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.thp",
    cause: Cause::Memory,
    about: "The kernel assembles no huge pages unasked",
    why: "With transparent huge pages set to always, a page fault may zero 2 MiB instead of 4 KiB, \
          and khugepaged later copies 512 small pages into a large one while the program waits at \
          its mapping's lock. madvise leaves that to programs that ask for it, never to nobody. \
          Since 6.8 every size has a switch of its own; one that says always acts even where the \
          common one says never. Huge pages that are wanted are reserved instead (mem.hugepages).",
    cost: Cost {
        us: 100.0,
        text: "50–100 µs for a fault that zeroes 2 MiB; ms where memory must be compacted first",
        origin: "article on isolation, the GRUB line (transparent_hugepage=never); kernel: \
                 admin-guide/mm/transhuge; size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let memory = facts.memory();
    let Some(word) = memory.thp.value() else { return Verdict::unread(&memory.thp) };
    let own = memory.thp_sizes.value().map_or(&[][..], Vec::as_slice);
    if word == "always" || !own.is_empty() {
        let sizes = own.join(", ");
        let title = match word.as_str() {
            "always" => "the kernel assembles huge pages for every program".to_owned(),
            _ => format!("the kernel assembles large pages for every program: {sizes}"),
        };
        let verdict = Verdict::fail_if(scope.is_declared(), title).evidence(SOURCE, word);
        let verdict = match sizes.is_empty() {
            true => verdict,
            false => {
                verdict.evidence("/sys/kernel/mm/transparent_hugepage/hugepages-*/enabled", sizes)
            }
        };
        return verdict.fix(format!(
            "echo never > {SOURCE}   # at boot: \
             transparent_hugepage=never; sizes of their own: \
             hugepages-*/enabled"
        ));
    }
    if memory.thp_sizes.value().is_none() {
        return Verdict::unread(&memory.thp_sizes).evidence(SOURCE, word);
    }
    let title = match word.as_str() {
        "never" => "no transparent huge pages",
        _ => "huge pages only for programs that ask (madvise)",
    };
    Verdict::pass(title).evidence(SOURCE, word)
}
