use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "kernel.bpf-stats",
    cause: Cause::Scheduler,
    about: "BPF programs are not timed at every run",
    why: "kernel.bpf_stats_enabled makes the kernel read the clock before and after every run of \
          every BPF program: packet filters, cgroup hooks of systemd, security monitors. It is a \
          measuring aid (bpftop, bpftool prog profile) that is easily left on.",
    cost: Cost {
        us: 0.05,
        text: "20–50 ns per run of a BPF program, some per packet",
        origin: "kernel: admin-guide/sysctl/kernel (bpf_stats_enabled); size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/sys/kernel/bpf_stats_enabled";
    match facts.host().number(SOURCE) {
        Ok(0) => Verdict::pass("BPF programs run untimed").evidence(SOURCE, 0),
        Ok(value) => Verdict::fail_if(
            scope.is_declared(),
            "every run of every BPF program is \
             timed",
        )
        .evidence(SOURCE, value)
        .fix("sysctl -w kernel.bpf_stats_enabled=0"),
        Err(error) => Verdict::unanswered(&error),
    }
}
