//! Clocks: what the kernel reads time from, who keeps it right, and clocks on network cards.

use quietcore_measure::Reading;
use quietcore_sys::host::{Timekeeping, Trouble, reading};

use crate::Facts;

const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0";
/// Daemons that may read or steer a hardware clock.
const USERS: [&str; 5] = ["chronyd", "ptp4l", "phc2sys", "ntpd", "timemaster"];

/// The clocks of a host.
#[derive(Clone, Debug)]
pub struct Clock {
    /// What the kernel reads time from, as `tsc`.
    pub source: Reading<String>,
    /// What it could read it from; a source found unstable is not among them.
    pub available: Reading<Vec<String>>,
    /// Whether the wall clock is kept right.
    pub timekeeping: Reading<Timekeeping>,
    /// PTP hardware clocks as `ptp0`, with the name their driver gives them; or why they could not
    /// be listed.
    pub hardware: Reading<Vec<(String, String)>>,
    /// Daemons that hold a PTP hardware clock open, with its name; or why that could not be seen.
    pub users: Reading<Vec<(String, String)>>,
}

impl Clock {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        let names = reading(host.line(&format!("{SOURCE}/available_clocksource")));
        let named = |ptp: String| {
            let name = host.line(&format!("/sys/class/ptp/{ptp}/clock_name"));
            (ptp, name.unwrap_or_default())
        };
        let hardware = match reading(host.list("/sys/class/ptp")) {
            Reading::Unsupported(_) => Reading::Measured(Vec::new()),
            listed => listed.map(|names| names.into_iter().map(named).collect::<Vec<_>>()),
        };
        Self {
            source: reading(host.line(&format!("{SOURCE}/current_clocksource"))),
            available: names.map(|n| n.split_whitespace().map(str::to_owned).collect()),
            timekeeping: reading(host.timekeeping()),
            users: match hardware.value().is_some_and(Vec::is_empty) {
                true => Reading::Measured(Vec::new()),
                false => users(facts),
            },
            hardware,
        }
    }
}

fn users(facts: &Facts) -> Reading<Vec<(String, String)>> {
    let host = facts.host();
    if let Reading::Unsupported(why) | Reading::Failed(why) = &facts.tasks().all {
        return Reading::Failed(why.clone());
    }
    // chrony runs as two processes, of which one holds the clock.
    let daemons = facts
        .tasks()
        .iter()
        .filter(|task| task.pid == task.tid && !task.kernel && USERS.contains(&task.name.as_str()));
    let mut users = Vec::new();
    let mut unread = match facts.tasks().complete() {
        true => None,
        false => Some(facts.tasks().why_incomplete()),
    };
    for task in daemons {
        let folder = format!("/proc/{}/fd", task.pid);
        let open = match host.list(&folder) {
            Ok(open) => open,
            Err(error) => {
                unread = Some(error.to_string());
                continue;
            }
        };
        for fd in open {
            match host.link(&format!("{folder}/{fd}")) {
                Ok(to) => {
                    let clock = to.strip_prefix("/dev/ptp");
                    users.extend(clock.map(|number| (task.name.clone(), format!("ptp{number}"))));
                }
                // Closed in between.
                Err(error) if error.trouble == Trouble::Missing => {}
                Err(error) => unread = Some(error.to_string()),
            }
        }
    }
    users.sort();
    users.dedup();
    match unread {
        Some(why) if users.is_empty() => Reading::Failed(why),
        _ => Reading::Measured(users),
    }
}
