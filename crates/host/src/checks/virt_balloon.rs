use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "virt.balloon",
    cause: Cause::Virtualisation,
    about: "The hypervisor cannot take memory back",
    why: "By a balloon device the host asks the guest for memory: the guest reclaims and compacts to \
          give it, and pays a fault into the hypervisor for each page it touches after getting it \
          back. With free page reporting (feature bit 5) every larger free block goes back by \
          itself within seconds, so that newly allocated memory faults in the hypervisor again \
          and again. Devices bound to virtio_balloon are listed; other hypervisors' balloons \
          (vmw_balloon, hv_balloon, xen) are not looked at. Memory that is touched once and kept \
          (mlockall, huge pages) is not affected.",
    cost: Cost {
        us: 5.0,
        text: "2–20 µs for the first touch of each page handed back",
        origin: "Documentation/mm/free_page_reporting.rst for the mechanism; judgement for the size",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    const DRIVER: &str = "/sys/bus/virtio/drivers/virtio_balloon";
    match facts.cpus().hypervisor.as_deref() {
        None => return Verdict::unknown("whether this is a guest is not known"),
        Some("none") => return Verdict::not_applicable("this is no guest"),
        Some("VMware" | "Hyper-V" | "Xen") => {
            return Verdict::unknown("the balloons of this hypervisor are not looked at");
        }
        Some(_) => {}
    }
    let reading = &facts.virt().balloons;
    let Some(balloons) = reading.value() else { return Verdict::unread(reading) };
    let Some((device, _)) = balloons.first() else {
        return Verdict::pass("no balloon takes memory back").evidence(DRIVER, "no device");
    };
    let reporting = balloons.iter().any(|(_, reporting)| *reporting == Some(true));
    let verdict = match reporting {
        true => Verdict::warn("free memory goes back to the hypervisor by itself"),
        false => Verdict::warn("the hypervisor may take memory back"),
    };
    balloons
        .iter()
        .fold(verdict, |verdict, (device, reporting)| {
            let what = match reporting {
                Some(true) => "reports free pages",
                Some(false) => "does not report free pages",
                None => "features could not be read",
            };
            verdict.evidence(format!("{DRIVER}/{device}"), what)
        })
        .fix(format!(
            "echo {device} > {DRIVER}/unbind   # or no balloon device on the hypervisor's side"
        ))
}
