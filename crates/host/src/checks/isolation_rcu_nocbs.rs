use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::remedy::add_to_boot_line;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "isolation.rcu-nocbs",
    cause: Cause::Rcu,
    about: "RCU callbacks of CPUs meant for latency run elsewhere",
    why: "RCU frees old versions of the kernel's data in callbacks on the CPU that queued them. \
          rcu_nocbs= hands them to threads; nohz_full= implies it for its CPUs. The only proof is \
          the boot log's `Offload RCU callbacks from CPUs:`. The threads (rcuog, rcuop) are there \
          with and without, so that they run proves nothing, and the kernel shows the list \
          nowhere else: where the log was overwritten or may not be read, the answer is unknown. \
          A list the kernel cannot read offloads every CPU. (kernel: kernel/rcu/tree_nocb.h)",
    cost: Cost {
        us: 30.0,
        text: "10–50 µs every few milliseconds on a busy kernel",
        origin: "article on isolation, noise source 2",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let asked = facts.boot().value("rcu_nocbs").map(|list| format!("rcu_nocbs={list}"));
    let token = asked.unwrap_or_else(|| "no rcu_nocbs=".to_owned());
    let fix = add_to_boot_line(facts, &format!("rcu_nocbs={}", scope.cpus));
    if matches!(facts.host().config("RCU_NOCB_CPU"), Ok(None)) {
        return Verdict::fail("this kernel cannot offload RCU: built without CONFIG_RCU_NOCB_CPU")
            .evidence("/proc/cmdline", token)
            .fix("boot a kernel with CONFIG_RCU_NOCB_CPU=y");
    }
    let reading = &facts.isolation().offloaded;
    let Some(offloaded) = reading.value() else {
        return Verdict::unknown(format!("only the boot log can tell: {}", reading.why()))
            .evidence("/proc/cmdline", token);
    };
    let lacking = scope.cpus.minus(offloaded);
    let verdict = match lacking.is_empty() && !scope.cpus.is_empty() {
        true => Verdict::pass(format!("RCU callbacks of CPUs {} run elsewhere", scope.cpus)),
        false if !facts.cpus().known => return Verdict::unknown_cpus(),
        false if scope.cpus.is_empty() => Verdict::fail("no CPU that is online is offloaded"),
        false => Verdict::fail(format!("RCU callbacks of CPUs {lacking} run on those CPUs")),
    };
    let log = match offloaded.is_empty() {
        true => "no CPU named by `Offload RCU callbacks from CPUs:`".to_owned(),
        false => format!("Offload RCU callbacks from CPUs: {offloaded}"),
    };
    verdict.evidence("kernel log", log).evidence("/proc/cmdline", token).fix(fix)
}
