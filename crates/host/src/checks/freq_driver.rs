use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "freq.driver",
    cause: Cause::Frequency,
    about: "The kernel sets the frequency, and with a driver made for the CPU",
    why: "Without a frequency driver the firmware alone decides, by rules that Linux cannot see \
          (BIOS profiles \"balanced\", \"OS control off\"). pcc-cpufreq asks the firmware through \
          one mailbox with one lock for all CPUs; the kernel itself warns about it on machines \
          with more than four. In a guest the hypervisor owns the frequency and no driver is the \
          normal case.",
    cost: Cost {
        us: 50.0,
        text: "a frequency below the rated one for as long as the firmware likes",
        origin: "kernel: drivers/cpufreq/pcc-cpufreq.c, admin-guide/pm/cpufreq; size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/sys/devices/system/cpu/cpufreq/policy*/scaling_driver";
    let Some(policy) = facts.frequency().policies.first() else {
        if let Some(why) = &facts.frequency().unread {
            return Verdict::unknown(why);
        }
        return match facts.cpus().hypervisor.as_deref() {
            Some("none") => Verdict::fail_if(
                scope.is_declared(),
                "no frequency driver: the \
                 firmware alone decides",
            )
            .evidence("/sys/devices/system/cpu/cpufreq", "no policy")
            .fix(
                "hand control to the OS in the firmware's setup (power profile: OS control, \
                 HWP/CPPC on), and load acpi-cpufreq",
            ),
            Some(_) => Verdict::not_applicable("a guest: the hypervisor sets the frequency"),
            None => Verdict::unknown(
                "no frequency driver, and whether this is a guest could not \
                 be told",
            ),
        };
    };
    match policy.driver.as_str() {
        "" => Verdict::unknown(format!("{SOURCE} could not be read")),
        "pcc-cpufreq" => Verdict::fail_if(
            scope.is_declared(),
            "pcc-cpufreq asks the firmware for \
             every change",
        )
        .evidence(SOURCE, &policy.driver)
        .fix(
            "choose OS control in the firmware's power profile: then intel_pstate or \
             acpi-cpufreq takes over",
        ),
        driver => Verdict::pass(format!("{driver} sets the frequency")).evidence(SOURCE, driver),
    }
}
