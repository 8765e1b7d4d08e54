use quietcore_facts::Facts;
use quietcore_facts::boot::Request;
use quietcore_measure::{Cause, CpuSet, Reading};

use crate::remedy::add_to_boot_line;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "isolation.nohz-full",
    cause: Cause::Tick,
    about: "The tick can stop on CPUs meant for latency",
    why: "nohz_full= lets the kernel stop the periodic tick of a CPU that has one runnable task. \
          It is ignored without a word on the boot line where the kernel is built without \
          CONFIG_NO_HZ_FULL, where the list is malformed, where it names CPUs that do not exist, \
          and, before Linux 5.18, where it differs from isolcpus=. What counts is \
          /sys/devices/system/cpu/nohz_full and the boot log's `NO_HZ: Full dynticks CPUs`. That \
          the tick can stop does not prove that it does: tick.busy-cpu does. (kernel: \
          timers/no_hz.rst)",
    cost: Cost {
        us: 3.0,
        text: "1–5 µs per tick, 250 or 1000 times a second",
        origin: "article on isolation, noise source 1",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/sys/devices/system/cpu/nohz_full";
    let boot = facts.boot();
    let isolcpus = boot.isolcpus.as_ref();
    let by_flag = isolcpus.filter(|i| i.flags.iter().any(|flag| flag == "nohz"));
    let request = boot.nohz_full.as_ref().or(by_flag.map(|isolcpus| &isolcpus.request));
    let fix = add_to_boot_line(facts, &format!("nohz_full={}", scope.cpus));
    let effective = &facts.isolation().tickless;
    let lacking = scope.cpus.minus(effective);
    let verdict = match request {
        _ if matches!(facts.host().config("NO_HZ_FULL"), Ok(None)) => Verdict::fail(
            "this kernel cannot stop the tick of a busy CPU: built without CONFIG_NO_HZ_FULL",
        )
        .fix(
            "boot a kernel with CONFIG_NO_HZ_FULL=y (Debian's and Ubuntu's stock kernels have it)",
        ),
        Some(request) if request.cpus.is_err() => {
            Verdict::fail(format!("nohz_full={} is not a CPU list", request.text)).fix(fix)
        }
        _ if matches!(facts.cpus().nohz_full, Reading::Failed(_)) => {
            return Verdict::unread(&facts.cpus().nohz_full);
        }
        Some(request) if asks(request, &lacking) => Verdict::fail(format!(
            "nohz_full={} did not take effect on CPUs {lacking}",
            request.text
        ))
        .fix(fix),
        _ if !lacking.is_empty() => {
            Verdict::fail(format!("the tick goes on on CPUs {lacking}: no nohz_full= covers them"))
                .fix(fix)
        }
        _ if facts.cpus().nohz_full.value().is_none() => {
            return Verdict::unread(&facts.cpus().nohz_full);
        }
        _ if !facts.cpus().known => return Verdict::unknown_cpus(),
        _ if scope.cpus.is_empty() => {
            Verdict::fail("nohz_full= names no CPU that is online").fix(fix)
        }
        _ => Verdict::pass(format!("the tick can stop on CPUs {}", scope.cpus)),
    };
    let verdict = verdict.evidence(SOURCE, effective);
    match facts.kernel().logged("NO_HZ: Full dynticks CPUs").value() {
        Some(Some(line)) => verdict.evidence("kernel log", &line.text),
        _ => verdict,
    }
}

/// Whether the parameter names any of these CPUs.
fn asks(request: &Request, cpus: &CpuSet) -> bool {
    request.cpus.as_ref().is_ok_and(|asked| asked.intersects(cpus))
}
