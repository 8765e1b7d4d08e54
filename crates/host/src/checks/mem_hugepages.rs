use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_facts::memory::pairs;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.hugepages",
    cause: Cause::Memory,
    about: "Huge pages are reserved, and the latency programs use them",
    why: "A 2 MiB page takes one TLB entry instead of 512 and is neither swapped, split, merged \
          nor moved. Reserved at boot they are there for certain; a day later memory is often too \
          fragmented. Reserved and never mapped they are only lost memory: HugetlbPages in the \
          status of programs that are pinned to latency CPUs says who uses them.",
    cost: Cost {
        us: 0.1,
        text: "tens of ns per TLB miss, all the time",
        origin: "article on profiling (dTLB-load-misses confirm huge pages); kernel: \
                 admin-guide/mm/hugetlbpage; size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let pools = &facts.memory().pools;
    if pools.is_empty() {
        return Verdict::unknown("the huge pages of the nodes could not be read");
    }
    let reserved: Vec<_> = pools.iter().filter(|pool| pool.total > 0).collect();
    if reserved.is_empty() {
        return Verdict::warn("no huge pages are reserved")
            .evidence("/sys/devices/system/node/node*/hugepages/*/nr_hugepages", 0)
            .fix(
                "echo 512 > \
                 /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages   # at \
                 boot: hugepages=512, per node hugepages=0:512",
            );
    }
    let unused = reserved.iter().all(|pool| pool.free == pool.total);
    let users = users(facts, scope);
    let verdict = match unused {
        true => Verdict::warn("huge pages are reserved, and nobody uses any"),
        false => Verdict::pass("huge pages are reserved and used"),
    };
    let verdict = reserved.iter().fold(verdict, |verdict, pool| {
        verdict.evidence(
            format!(
                "/sys/devices/system/node/node{}/hugepages/hugepages-{}kB",
                pool.node, pool.size_kib
            ),
            format!("{} reserved, {} free", pool.total, pool.free),
        )
    });
    users
        .iter()
        .fold(verdict, |verdict, (program, kib)| {
            verdict.evidence(program, format!("HugetlbPages {kib} kB"))
        })
        .fix(
            "let the program map them (MAP_HUGETLB, -XX:+UseLargePages, DPDK's --huge-dir), or \
             give them back: vm.nr_hugepages=0",
        )
}

/// Programs with a thread of their own on latency CPUs, and their reserved huge pages in KiB.
fn users(facts: &Facts, scope: &Scope) -> BTreeMap<String, u64> {
    let programs: BTreeMap<u32, &str> =
        facts.tasks().confined_to(&scope.cpus).map(|task| (task.pid, task.name.as_str())).collect();
    let used = |(pid, name): (&u32, &&str)| {
        let status = facts.host().read(&format!("/proc/{pid}/status")).ok()?;
        let kib = pairs(&status).get("HugetlbPages").copied()?;
        Some((format!("/proc/{pid}/status ({name})"), kib))
    };
    programs.iter().filter_map(used).collect()
}
