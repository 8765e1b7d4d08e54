use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "mem.dirty",
    cause: Cause::Memory,
    about: "Written files go to the disk in small portions",
    why: "Written data waits in memory until dirty_background (10 % of it by default) is reached, \
          then is written out at once; at dirty_ratio (20 %) every writer is made to wait, one \
          that logs from the hot path among them. Percentages of a large memory are tens of \
          gigabytes, minutes of a disk's time. dirty_background_bytes and dirty_bytes set sizes \
          instead.",
    cost: Cost {
        us: 100.0,
        text: "ms to s for a thread that writes a file while the disk catches up; ranked at a hundredth of 10 ms, for it takes gigabytes of writing",
        origin: "kernel: admin-guide/sysctl/vm (dirty_ratio, dirty_background_bytes); the line \
                 drawn at 4 GiB: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

const LARGEST: f64 = 4.0 * 1024.0 * 1024.0 * 1024.0;

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let number = |name: &str| facts.host().number(&format!("/proc/sys/vm/{name}"));
    let (bytes, ratio) = match (number("dirty_bytes"), number("dirty_ratio")) {
        (Ok(bytes), Ok(ratio)) => (bytes as f64, ratio as f64),
        (Err(error), _) | (_, Err(error)) => return Verdict::unanswered(&error),
    };
    let info = &facts.memory().info;
    let Some(available) = info.get("MemAvailable").or(info.get("MemTotal")) else {
        return Verdict::unknown("/proc/meminfo could not be read");
    };
    let limit = match bytes > 0.0 {
        true => bytes,
        false => *available as f64 * 1024.0 * ratio / 100.0,
    };
    let gib = format!("{:.1} GiB", limit / (1024.0 * 1024.0 * 1024.0));
    let verdict = match limit > LARGEST {
        true => Verdict::warn(format!(
            "up to {gib} of written data may wait before writers are \
             stopped"
        )),
        false => Verdict::pass(format!("at most {gib} of written data wait for the disk")),
    };
    verdict
        .evidence("/proc/sys/vm/dirty_bytes", bytes)
        .evidence("/proc/sys/vm/dirty_ratio", ratio)
        .fix(
            "sysctl -w vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824   # \
             lasting: /etc/sysctl.d/60-latency.conf",
        )
}
