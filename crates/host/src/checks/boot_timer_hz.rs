use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::remedy::add_to_boot_line;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "boot.timer-hz",
    cause: Cause::Tick,
    about: "Where the tick goes on, it does not come a thousand times a second",
    why: "CONFIG_HZ is how often the tick interrupts a CPU on which it is not stopped: 250 on \
          Debian and Ubuntu, 1000 on low-latency and Fedora kernels. More ticks help desktops to \
          react; a thread that owns its CPU only pays for them. It does not matter where \
          nohz_full= stops the tick. Read from the kernel's configuration.",
    cost: Cost {
        us: 3.0, text: "1–5 µs per tick", origin: "article on isolation, noise source 1"
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

/// What distributions choose for servers.
const USUAL: u64 = 250;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let Some(hz) = facts.kernel().hz else {
        return Verdict::unknown(
            "the kernel's configuration (/boot/config-*, /proc/config.gz) could not be read",
        );
    };
    let ticking = scope.cpus.minus(&facts.isolation().tickless);
    let verdict = if ticking.is_empty() {
        Verdict::pass(format!("HZ={hz} does not matter: the tick can stop on CPUs {}", scope.cpus))
    } else if hz <= USUAL {
        Verdict::pass(format!("{hz} ticks a second on CPUs {ticking}"))
    } else {
        Verdict::warn(format!("{hz} ticks a second on CPUs {ticking}"))
    };
    verdict.evidence("CONFIG_HZ", hz).fix(format!(
        "stop the tick: {}; or boot a kernel with HZ={USUAL}",
        add_to_boot_line(facts, &format!("nohz_full={}", scope.cpus))
    ))
}
