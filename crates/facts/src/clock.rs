//! Clocks: what the kernel reads time from, who keeps it right, and clocks on network cards.

use quietcore_measure::Reading;
use quietcore_sys::host::{Timekeeping, reading};

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
    /// PTP hardware clocks as `ptp0`, with the name their driver gives them.
    pub hardware: Vec<(String, String)>,
    /// Daemons that hold a PTP hardware clock open, with its name; or why that could not be seen.
    pub users: Reading<Vec<(String, String)>>,
}

impl Clock {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        let names = reading(host.line(&format!("{SOURCE}/available_clocksource")));
        let hardware: Vec<(String, String)> = host
            .list("/sys/class/ptp")
            .unwrap_or_default()
            .into_iter()
            .map(|ptp| {
                let name = host.line(&format!("/sys/class/ptp/{ptp}/clock_name"));
                (ptp, name.unwrap_or_default())
            })
            .collect();
        Self {
            source: reading(host.line(&format!("{SOURCE}/current_clocksource"))),
            available: names.map(|n| n.split_whitespace().map(str::to_owned).collect()),
            timekeeping: reading(host.timekeeping()),
            users: match hardware.is_empty() {
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
    let mut unread = None;
    for task in daemons {
        let folder = format!("/proc/{}/fd", task.pid);
        let open = match host.list(&folder) {
            Ok(open) => open,
            Err(error) => {
                unread = Some(error.to_string());
                continue;
            }
        };
        let targets = open.iter().filter_map(|fd| host.link(&format!("{folder}/{fd}")).ok());
        let clocks = targets.filter_map(|to| Some(to.strip_prefix("/dev/ptp")?.to_owned()));
        users.extend(clocks.map(|number| (task.name.clone(), format!("ptp{number}"))));
    }
    users.sort();
    users.dedup();
    match unread {
        Some(why) if users.is_empty() => Reading::Failed(why),
        _ => Reading::Measured(users),
    }
}
