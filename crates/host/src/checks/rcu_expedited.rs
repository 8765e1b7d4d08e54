use quietcore_facts::Facts;
use quietcore_measure::Cause;
use quietcore_sys::host::Trouble;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "rcu.expedited",
    cause: Cause::Rcu,
    about: "RCU does not interrupt every CPU to be done sooner",
    why: "With rcu_expedited=1 every grace period is hastened by an interrupt to each CPU that is \
          in the kernel or runs a task; CPUs of nohz_full= in user mode are spared. Some \
          distributions and hypervisors set it for faster boots; rcu_normal=1 overrides it. Read \
          from /sys/kernel; the kernel itself hastens during boot only. (kernel: \
          admin-guide/kernel-parameters.txt, rcupdate.rcu_expedited)",
    cost: Cost {
        us: 5.0,
        text: "some µs per interrupt from another CPU, at every grace period someone waits for",
        origin: "judgement: the kernel's documentation says that it hurts latency and gives no figure",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const EXPEDITED: &str = "/sys/kernel/rcu_expedited";
    const NORMAL: &str = "/sys/kernel/rcu_normal";
    let expedited = match facts.host().number(EXPEDITED) {
        Ok(value) => value,
        Err(error) => return Verdict::unanswered(&error),
    };
    if expedited == 0 {
        return Verdict::pass("grace periods are not hastened").evidence(EXPEDITED, expedited);
    }
    let normal = match facts.host().number(NORMAL) {
        Ok(value) => value,
        Err(error) if error.trouble == Trouble::Missing => 0,
        Err(error) => return Verdict::unanswered(&error),
    };
    let verdict = match normal {
        0 => Verdict::fail_if(scope.is_declared(), "every RCU grace period interrupts other CPUs"),
        _ => Verdict::pass("grace periods are not hastened: rcu_normal overrides rcu_expedited"),
    };
    verdict.evidence(EXPEDITED, expedited).evidence(NORMAL, normal).fix(format!(
        "echo 0 > {EXPEDITED}   # and rcupdate.rcu_normal_after_boot=1 on the boot line"
    ))
}
