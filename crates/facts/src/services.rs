//! Daemons and timers that checks ask for, by systemd's word and by the processes that run.

use std::collections::BTreeMap;

use quietcore_measure::Reading;
use quietcore_sys::host::{Unit, reading};

use crate::Facts;

/// Units of interest, each with the name of the process that is the daemon; timers, and services
/// that do their work once and end, have none.
const KNOWN: &[(&str, &str)] = &[
    ("irqbalance.service", "irqbalance"),
    ("tuned.service", "tuned"),
    ("cpuspeed.service", "cpuspeed"),
    ("cpufreqd.service", "cpufreqd"),
    ("auto-cpufreq.service", "auto-cpufreq"),
    ("cpufrequtils.service", ""),
    ("ondemand.service", ""),
    ("tlp.service", ""),
    ("thermald.service", "thermald"),
    ("power-profiles-daemon.service", "power-profiles-daemon"),
    ("auditd.service", "auditd"),
    ("numad.service", "numad"),
    ("ksmtuned.service", "ksmtuned"),
    ("snapd.service", "snapd"),
    ("packagekit.service", "packagekitd"),
    ("apt-daily.timer", ""),
    ("apt-daily-upgrade.timer", ""),
    ("dnf-automatic.timer", ""),
    ("dnf-automatic-install.timer", ""),
    ("dnf-makecache.timer", ""),
    ("fwupd-refresh.timer", ""),
    ("man-db.timer", ""),
    ("plocate-updatedb.timer", ""),
    ("mlocate-updatedb.timer", ""),
    ("updatedb.timer", ""),
    ("fstrim.timer", ""),
    ("logrotate.timer", ""),
    ("e2scrub_all.timer", ""),
    ("mdcheck_start.timer", ""),
    ("raid-check.timer", ""),
    ("sysstat-collect.timer", ""),
    ("chrony.service", "chronyd"),
    ("ntpsec.service", "ntpd"),
    ("openntpd.service", "ntpd"),
    ("systemd-timesyncd.service", "systemd-timesyncd"),
    ("ptp4l.service", "ptp4l"),
    ("phc2sys.service", "phc2sys"),
];

/// The daemons and timers of a host.
#[derive(Clone, Debug)]
pub struct Services {
    states: BTreeMap<&'static str, Service>,
    /// Jobs in /etc/cron.daily; empty where systemd's timers do their work.
    pub cron_daily: Vec<String>,
}

/// A daemon or a timer.
#[derive(Clone, Debug)]
pub struct Service {
    /// As `irqbalance.service`.
    pub unit: &'static str,
    /// Whether it runs now; for a timer, whether it is armed; for a service that ends by itself,
    /// whether it has done its work.
    pub running: Reading<bool>,
    /// Whether it would run after a boot.
    pub enabled: bool,
    /// Who says so.
    pub source: String,
    /// In the words of who says so.
    pub value: String,
}

impl Services {
    pub(crate) fn read(facts: &Facts) -> Self {
        let names: Vec<&str> = KNOWN.iter().map(|(unit, _)| *unit).collect();
        let units = reading(facts.host().units(&names));
        let states = KNOWN.iter().map(|(unit, process)| {
            let said = units.as_ref().map(|all| all.get(*unit).cloned().unwrap_or_default());
            (*unit, Service::of(facts, unit, process, said))
        });
        let states = states.collect();
        // The jobs of Debian and its kin end at once where systemd runs the host.
        let cron = match units {
            Reading::Unsupported(_) => facts.tasks().named("cron").or(facts.tasks().named("crond")),
            _ => None,
        };
        let jobs = cron.and_then(|_| facts.host().list("/etc/cron.daily").ok());
        Self { states, cron_daily: jobs.unwrap_or_default() }
    }

    /// A unit by its name; `None` for one that is not of interest.
    pub fn get(&self, unit: &str) -> Option<&Service> {
        self.states.get(unit)
    }
}

impl Service {
    /// A running process proves a daemon, whoever started it; else systemd's word counts; without
    /// systemd a full list of processes proves that there is none.
    fn of(facts: &Facts, unit: &'static str, process: &str, said: Reading<Unit>) -> Self {
        let task = Some(process).filter(|p| !p.is_empty()).and_then(|p| facts.tasks().named(p));
        let enabled = said.value().is_some_and(Unit::is_enabled);
        let of = |running, source: String, value: String| Self {
            unit,
            running,
            enabled,
            source,
            value,
        };
        if let Some(task) = task {
            let value = format!("{} runs as process {}", task.name, task.pid);
            return of(Reading::Measured(true), format!("/proc/{}/stat", task.pid), value);
        }
        match said {
            Reading::Measured(said) if said.load.is_empty() => of(
                Reading::Failed(format!("systemctl show {unit}: no answer")),
                String::new(),
                String::new(),
            ),
            Reading::Measured(said) => {
                let file = if said.file.is_empty() { "no unit file" } else { &said.file };
                let value = format!("{}, {}, {file}", said.load, said.active);
                of(Reading::Measured(said.is_active()), format!("systemctl show {unit}"), value)
            }
            // No systemd: no timers, and what processes there are is all there is.
            Reading::Unsupported(why) if process.is_empty() => {
                of(Reading::Measured(false), "systemctl show".to_owned(), why)
            }
            Reading::Unsupported(_) => {
                let running = facts.tasks().all.as_ref().map(|_| false);
                of(running, "/proc/*/stat".to_owned(), format!("no process {process}"))
            }
            Reading::Failed(why) => of(Reading::Failed(why), String::new(), String::new()),
        }
    }
}
