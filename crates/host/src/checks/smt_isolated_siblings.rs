use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "smt.isolated-siblings",
    cause: Cause::Scheduler,
    about: "The sibling thread of a latency CPU is kept free, too",
    why: "Two hardware threads share one core: its execution units, its first caches, its \
          frequency. A CPU that is isolated while its sibling serves interrupts and daemons is \
          disturbed by all of them, without a single event on its own side: the noise shows as \
          slower instructions and as gaps that nothing explains. Either isolate both and leave \
          one of them empty, or take the sibling offline.",
    cost: Cost {
        us: 5.0,
        text: "up to half of the core's throughput while the sibling works; single stalls of some \
               µs",
        origin: "kernel: tools/rtla/rtla-hwnoise (SMT and the TSC watchdog gone, noise gone); \
                 size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    if !facts.cpus().known {
        return Verdict::unknown_cpus();
    }
    let topology = &facts.cpus().topology;
    let mut outside = CpuSet::new();
    let mut beside = CpuSet::new();
    for cpu in scope.cpus.iter() {
        let Some(place) = topology.get(&cpu) else { continue };
        let free = place.siblings.minus(&scope.cpus).and(&facts.cpus().online);
        if !free.is_empty() {
            outside = outside.or(&free);
            beside.insert(cpu);
        }
    }
    if scope.cpus.is_empty() {
        return Verdict::unknown("no CPU is isolated, though the boot line asks for it");
    }
    if outside.is_empty() {
        return Verdict::pass(match facts.cpus().has_smt() {
            true => format!("the siblings of CPUs {} are among them", scope.cpus),
            false => "no core runs two threads".to_owned(),
        });
    }
    Verdict::fail(format!(
        "CPUs {beside} share their cores with CPUs {outside}, which do \
         everything else"
    ))
    .evidence("cpu*/topology/thread_siblings_list", format!("{beside} beside {outside}"))
    .fix(format!(
        "for cpu in {}; do echo 0 > /sys/devices/system/cpu/cpu$cpu/online; done   # or add \
         CPUs {outside} to isolcpus=, nohz_full= and rcu_nocbs=",
        outside.iter().map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(" ")
    ))
}
