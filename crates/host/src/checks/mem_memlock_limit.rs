use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.memlock-limit",
    cause: Cause::Memory,
    about: "Programs on latency CPUs may lock all their memory",
    why: "mlockall fails, or fails later for a growing heap, where the limit on locked memory \
          (RLIMIT_MEMLOCK, 8 MiB by default under systemd) is below what the program uses, and a \
          program that ignores the error runs unlocked. What counts is the limit of the running \
          program, not a line in limits.conf, which services do not read at all. CAP_IPC_LOCK \
          lifts the limit. Examined are programs with a thread confined to latency CPUs; whether \
          one locked its memory, audit --pid tells.",
    cost: Cost {
        us: 5.0,
        text: "a major fault of 100 µs to 10 ms where a page was dropped or swapped; ranked at a hundredth, for memory must be short",
        origin: "setrlimit(2), mlock(2); systemd.exec(5) LimitMEMLOCK; size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

/// Bit of CAP_IPC_LOCK in CapEff.
const IPC_LOCK: u64 = 1 << 14;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let programs: BTreeMap<u32, &str> =
        facts.tasks().confined_to(&scope.cpus).map(|task| (task.pid, task.name.as_str())).collect();
    if programs.is_empty() && !facts.tasks().complete() {
        return Verdict::unknown_tasks(facts);
    }
    if programs.is_empty() {
        return Verdict::not_applicable("no program is confined to the latency CPUs yet");
    }
    let host = facts.host();
    let (mut limited, mut free) = (Vec::new(), 0);
    for (pid, name) in &programs {
        let (Ok(limits), Ok(status)) =
            (host.read(&format!("/proc/{pid}/limits")), host.read(&format!("/proc/{pid}/status")))
        else {
            continue;
        };
        match soft_limit(&limits) {
            _ if may_lock(&status) => free += 1,
            Some(u64::MAX) => free += 1,
            Some(bytes) => limited.push((*pid, *name, bytes)),
            None => continue,
        }
    }
    if limited.is_empty() {
        return match free {
            _ if free < programs.len() => {
                Verdict::unknown("the limits of the programs on latency CPUs could not be read")
            }
            _ => {
                Verdict::pass(format!("{free} programs on latency CPUs may lock all their memory"))
            }
        };
    }
    let names: Vec<&str> = limited.iter().map(|(_, name, _)| *name).collect();
    let verdict = Verdict::warn(format!("{} may not lock all memory", names.join(", ")));
    limited
        .iter()
        .fold(verdict, |verdict, (pid, name, bytes)| {
            verdict.evidence(
                format!("/proc/{pid}/limits ({name})"),
                format!("Max locked memory {bytes} bytes"),
            )
        })
        .fix(
            "LimitMEMLOCK=infinity in the service's unit (systemctl edit), or `* - memlock \
             unlimited` in /etc/security/limits.d/ for logins",
        )
}

/// The soft limit in bytes, `u64::MAX` for none; `None` where the text does not say.
fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        bytes => bytes.parse().ok(),
    }
}

fn may_lock(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    bits.is_some_and(|bits| bits & IPC_LOCK != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_not_the_same_as_no_answer() {
        let line = |soft: &str| {
            format!(
                "Limit  Soft Limit\nMax locked memory         {soft}      \
                 8388608              bytes\n"
            )
        };
        assert_eq!(soft_limit(&line("8388608")), Some(8_388_608));
        assert_eq!(soft_limit(&line("unlimited")), Some(u64::MAX));
        assert_eq!(soft_limit("garbage"), None);
    }

    #[test]
    fn the_capability_is_bit_14() {
        assert!(may_lock("CapEff:\t000001ffffffffff\n"));
        assert!(may_lock("CapEff:\t0000000000004000\n"));
        assert!(!may_lock("CapEff:\t0000000000002000\n"));
        assert!(!may_lock("CapEff:\tx\n") && !may_lock(""));
    }
}
