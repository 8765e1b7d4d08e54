use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::remedy::swapoff;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.swap",
    cause: Cause::Memory,
    about: "Nothing is swapped out",
    why: "The first access to a page that was swapped out waits for the disk. Pages that are used \
          once a day (an error path, a reconnect) are swapped out first and needed when it hurts \
          most. Used swap proves that it happens; swap that is there and empty only allows it, as \
          far as vm.swappiness goes. Locked memory (mlockall) is not swapped.",
    cost: Cost {
        us: 500.0,
        text: "100 µs (NVMe) to 10 ms (disk) per page read back; ranked at a hundredth while swap is empty",
        origin: "judgement: read latency of the device",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let swaps = &facts.memory().swaps;
    let Some(areas) = swaps.value() else { return Verdict::unread(swaps) };
    if areas.is_empty() {
        return Verdict::pass("there is no swap").evidence("/proc/swaps", "no area");
    }
    let swappiness =
        facts.host().line("/proc/sys/vm/swappiness").unwrap_or_else(|_| "unknown".to_owned());
    let used = areas.iter().fold(0, |sum: u64, area| sum.saturating_add(area.used_kib));
    let names: Vec<&str> = areas.iter().map(|area| area.name.as_str()).collect();
    let verdict = match used {
        0 => Verdict::warn(format!("there is swap on {}, empty so far", names.join(", ")))
            .costs_us(5.0),
        _ => Verdict::fail_if(scope.is_declared(), format!("{} MiB are swapped out", used / 1024)),
    };
    let verdict = areas.iter().fold(verdict, |verdict, area| {
        verdict.evidence(
            "/proc/swaps",
            format!("{}: {} of {} kB used", area.name, area.used_kib, area.size_kib),
        )
    });
    verdict.evidence("/proc/sys/vm/swappiness", swappiness).fix(format!(
        "{}, and take the swap line out of /etc/fstab (systemd: systemctl mask swap.target)",
        swapoff(facts)
    ))
}
