use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::daemons::Daemons;
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "service.cron-heavy",
    cause: Cause::Scheduler,
    about: "No timer walks the disks or the process list",
    why: "updatedb reads every directory, man-db rebuilds its index, fstrim makes the disk busy \
          with itself, logrotate compresses what may be gigabytes, RAID and file system checks \
          read whole disks, sysstat reads all of /proc every ten minutes. They run on housekeeping \
          CPUs and are felt through the memory bus, the last-level cache and the disk. Timers \
          count as armed, jobs in /etc/cron.daily only where systemd does not run; a crontab of \
          one's own is not read.",
    cost: Cost {
        us: 20.0,
        text: "cache and disk contention for seconds to hours, once a day or week",
        origin: "judgement: the working set of such a job exceeds any last-level cache",
    },
    kind: Kind::Host,
    needs: Needs::Intent,
    judge,
};

const TIMERS: [&str; 10] = [
    "man-db.timer",
    "plocate-updatedb.timer",
    "mlocate-updatedb.timer",
    "updatedb.timer",
    "fstrim.timer",
    "logrotate.timer",
    "e2scrub_all.timer",
    "mdcheck_start.timer",
    "raid-check.timer",
    "sysstat-collect.timer",
];
const JOBS: [&str; 5] = ["man-db", "mlocate", "plocate", "logrotate", "sysstat"];

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let jobs = facts.services().cron_daily.iter();
    let jobs: Vec<&str> = jobs.map(String::as_str).filter(|job| JOBS.contains(job)).collect();
    if !jobs.is_empty() {
        let names = jobs.join(", ");
        return Verdict::warn(format!("cron starts heavy jobs every day: {names}"))
            .evidence("/etc/cron.daily", &names)
            .fix(format!("chmod -x /etc/cron.daily/{}", jobs.join(" /etc/cron.daily/")));
    }
    Daemons::of(facts, &TIMERS).unwanted(scope, "no heavy job starts by itself", |names| {
        Verdict::warn(format!("heavy jobs start by themselves: {names}"))
    })
}
