use quietcore_facts::cgroups::MemoryLimit;
use quietcore_facts::{Cgroups, Facts};
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "cgroup.memory-high",
    cause: Cause::Cgroup,
    about: "No group of processes has run into its memory limit",
    why: "A thread that allocates in a group at memory.high or memory.max must free memory before \
          it may go on (direct reclaim), and memory.high puts it to sleep besides: the stall is \
          in the allocating thread, with memory to spare elsewhere on the host. Read from the \
          counts high and max in memory.events (version 1: memory.failcnt) of every group up to \
          a bound; they count since the group was made, so an old start-up counts, too. Page \
          cache alone can fill a group, hence a failure only where CPUs are meant for latency or \
          --pid names a process of that group. (kernel: admin-guide/cgroup-v2.rst, memory)",
    cost: Cost {
        us: 100.0,
        text: "direct reclaim of some hundred µs to many ms, memory.high sleeps up to 2 s; ranked at a tenth of 1 ms, for it may be over",
        origin: "mm/memcontrol.c: MEMCG_MAX_HIGH_DELAY_JIFFIES for the upper end; the middle is a judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let reading = &facts.cgroups().limits;
    let Some(limits) = reading.value() else { return Verdict::unread(reading) };
    let Some(first) = limits.memory.first() else {
        return match limits.incomplete() {
            Some(why) => Verdict::unknown(why),
            None => Verdict::pass("no control group has run into a memory limit"),
        };
    };
    let member = Cgroups::membership(facts, scope.pid);
    let own = |limit: &&MemoryLimit| {
        scope.pid.is_some() && member.value().is_some_and(|m| m.is_within(&limit.folder))
    };
    let shown = limits.memory.iter().find(own).unwrap_or(first);
    let grave = scope.is_declared() || limits.memory.iter().any(|limit| own(&limit));
    let verdict = Verdict::fail_if(
        grave,
        format!("{} ran into its memory limit {} times", shown.folder, shown.reached),
    );
    let verdict = limits.memory.iter().take(8).fold(verdict, |verdict, limit| {
        verdict.evidence(
            &limit.folder,
            format!("limit {}, reached {} times", limit.limit, limit.reached),
        )
    });
    verdict.fix(format!(
        "raise MemoryHigh=/MemoryMax= of the unit or the container's memory limit ({})",
        shown.folder
    ))
}
