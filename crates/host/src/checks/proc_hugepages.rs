use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::subject::unread;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "proc.hugepages",
    cause: Cause::Memory,
    about: "A large process uses huge pages",
    why: "A CPU keeps some 1,500 to 2,000 translations: 8 MiB in small pages, 4 GiB in huge ones. \
          Beyond that each access may walk the page tables first, and those fall out of the \
          caches. From 64 MiB on, half of the memory should be in huge pages: of the pool \
          (HugetlbPages), or transparent ones (AnonHugePages, ShmemPmdMapped), which the kernel \
          may split and assemble at run time. Counts what is resident; what the hot path touches \
          of it only a profile of dTLB-load-misses tells.",
    cost: Cost {
        us: 0.05,
        text: "10–100 ns per access whose translation is not cached",
        origin: "judgement: one page walk; article on profiling (dTLB-load-misses), mm/transhuge.rst",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

const LARGE_KIB: u64 = 64 << 10;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let process = facts.process();
    let Some(memory) = process.memory.value() else { return unread(&process.memory) };
    let pid = facts.pid().unwrap_or_default();
    let working = memory.resident_kib.saturating_add(memory.hugetlb_kib);
    if working < LARGE_KIB {
        return Verdict::not_applicable(format!(
            "the process has {} MiB: small pages do",
            working >> 10
        ));
    }
    let pool = format!("HugetlbPages {} kB", memory.hugetlb_kib);
    let enough = |kib: u64| kib >= working / 2;
    let pass = |kib: u64| {
        Verdict::pass(format!("{} of {} MiB are in huge pages", kib >> 10, working >> 10))
    };
    if enough(memory.hugetlb_kib) {
        return pass(memory.hugetlb_kib).evidence(format!("/proc/{pid}/status"), pool);
    }
    let Some(kinds) = process.kinds.value() else { return unread(&process.kinds) };
    let kind = |name: &str| kinds.get(name).copied().unwrap_or_default();
    let transparent = kind("AnonHugePages").saturating_add(kind("ShmemPmdMapped"));
    let huge = memory.hugetlb_kib.saturating_add(transparent);
    let verdict = match enough(huge) {
        true => pass(huge),
        false => {
            Verdict::warn(format!("{} of {} MiB are in huge pages", huge >> 10, working >> 10))
        }
    };
    let pages = (working >> 11).max(1);
    let fix = match scope.is_declared() {
        true => format!(
            "echo {pages} > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages, and MAP_HUGETLB in the program (-XX:+UseLargePages in Java)"
        ),
        false => "madvise(MADV_HUGEPAGE) in the program (-XX:+UseTransparentHugePages in Java)"
            .to_owned(),
    };
    verdict
        .evidence(format!("/proc/{pid}/status"), pool)
        .evidence(format!("/proc/{pid}/smaps_rollup"), format!("transparent {transparent} kB"))
        .fix(fix)
}
