use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::daemons::Daemons;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "service.apt-timers",
    cause: Cause::Scheduler,
    about: "No package update starts by itself",
    why: "apt-daily, apt-daily-upgrade (unattended-upgrades), dnf's timers, snapd, packagekit and \
          fwupd download, unpack and restart services at a time of their own: minutes of disk and \
          memory traffic, evicted page cache, code patching and module loads that interrupt all \
          CPUs, a library replaced under a running engine. Isolation does not help against those. \
          Timers are judged by being armed, daemons by running. Security updates are needed: \
          install them by hand, when nothing is at stake.",
    cost: Cost {
        us: 10.0,
        text: "10 µs to some ms, for minutes, once or twice a day; ranked at a tenth of 100 µs",
        origin: "judgement: disk and memory contention and calls to all CPUs during an update",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

const UNITS: [&str; 8] = [
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dnf-automatic.timer",
    "dnf-automatic-install.timer",
    "dnf-makecache.timer",
    "fwupd-refresh.timer",
    "snapd.service",
    "packagekit.service",
];
/// What does the same from /etc/cron.daily where systemd does not run.
const JOBS: [&str; 3] = ["apt-compat", "dnf-automatic", "yum-cron"];

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let jobs = facts.services().cron_daily.iter();
    let jobs: Vec<&str> = jobs.map(String::as_str).filter(|job| JOBS.contains(job)).collect();
    if !jobs.is_empty() {
        let names = jobs.join(", ");
        return Verdict::warn(format!("package updates start by themselves: {names}"))
            .evidence("/etc/cron.daily", &names)
            .fix(format!("chmod -x /etc/cron.daily/{}", jobs.join(" /etc/cron.daily/")));
    }
    let none = "no package update starts by itself";
    Daemons::of(facts, &UNITS).unwanted(scope, none, |names| {
        Verdict::warn(format!("package updates start by themselves: {names}"))
    })
}
