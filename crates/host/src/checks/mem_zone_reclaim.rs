use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.zone-reclaim",
    cause: Cause::Numa,
    about: "A full node does not make the allocating thread free memory",
    why: "With vm.zone_reclaim_mode set, a thread whose node is full frees pages there before it \
          takes one from another node: a stall of milliseconds instead of 100 ns per miss. It is \
          off by default on current kernels and comes back through old tuning guides.",
    cost: Cost {
        us: 50.0,
        text: "100 µs to some ms in the thread that allocates; ranked at a tenth, for a node must be full",
        origin: "kernel: admin-guide/sysctl/vm (zone_reclaim_mode); size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/sys/vm/zone_reclaim_mode";
    match facts.host().number(SOURCE) {
        Ok(0) => Verdict::pass("a full node lends memory from another").evidence(SOURCE, 0),
        Ok(mode) => Verdict::fail_if(
            scope.is_declared(),
            "a full node makes the allocating \
             thread free memory",
        )
        .evidence(SOURCE, mode)
        .fix("sysctl -w vm.zone_reclaim_mode=0   # and take it out of /etc/sysctl.d"),
        Err(error) => Verdict::unanswered(&error),
    }
}
