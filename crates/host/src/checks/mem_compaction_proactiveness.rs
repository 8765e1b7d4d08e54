use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.compaction-proactiveness",
    cause: Cause::Memory,
    about: "The kernel compacts no memory ahead of need",
    why: "kcompactd looks at the fragmentation of each node twice a second and moves pages to make \
          room for huge ones before anybody asks. Each page that moves is unmapped, copied and \
          mapped again: the program that touches it meanwhile waits, and all its CPUs get a TLB \
          interrupt. vm.compaction_proactiveness=0 stops it; compaction on demand remains.",
    cost: Cost {
        us: 10.0,
        text: "some µs per page that moves under a program, and TLB interrupts",
        origin: "kernel: admin-guide/sysctl/vm (compaction_proactiveness names latency spikes as \
                 its price); size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/sys/vm/compaction_proactiveness";
    match facts.host().number(SOURCE) {
        Ok(0) => Verdict::pass("memory is not compacted ahead of need").evidence(SOURCE, 0),
        Ok(_) if !scope.is_declared() => Verdict::no_intent(),
        Ok(value) => {
            Verdict::warn("kcompactd moves pages ahead of need").evidence(SOURCE, value).fix(
                "sysctl -w vm.compaction_proactiveness=0   # lasting: \
                 /etc/sysctl.d/60-latency.conf",
            )
        }
        Err(error) => Verdict::unanswered(&error),
    }
}
