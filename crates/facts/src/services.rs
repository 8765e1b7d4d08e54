//! Daemons and timers that checks ask for, by systemd's word and by the processes that run.

use std::collections::BTreeMap;

use quietcore_measure::Reading;
use quietcore_sys::host::{Trouble, Unit};

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
        let names = Self::units();
        let units = match facts.host().units(&names) {
            Ok(units) => Reading::Measured(units),
            Err(error) if error.trouble == Trouble::Missing => {
                Reading::Unsupported("systemd does not run this host".to_owned())
            }
            Err(error) => Reading::Failed(format!("systemctl show: {}", error.trouble)),
        };
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

    /// The units of interest, in the order in which systemd is asked for them.
    pub fn units() -> Vec<&'static str> {
        KNOWN.iter().map(|(unit, _)| *unit).collect()
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
        let of =
            |running, source: String, value: String| Self { unit, running, enabled, source, value };
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
            Reading::Measured(said) if !said.is_active() && facts.tasks().contained() => of(
                Reading::Failed(facts.tasks().why_incomplete()),
                format!("systemctl show {unit}"),
                format!("{}, {}, in this container", said.load, said.active),
            ),
            Reading::Measured(said) => {
                let file = if said.file.is_empty() { "no unit file" } else { &said.file };
                let value = format!("{}, {}, {file}", said.load, said.active);
                of(Reading::Measured(said.is_active()), format!("systemctl show {unit}"), value)
            }
            // That a container has no systemd tells nothing of the host.
            Reading::Unsupported(_) if !facts.tasks().complete() => {
                of(Reading::Failed(facts.tasks().why_incomplete()), String::new(), String::new())
            }
            // No systemd: no timers, and what processes there are is all there is.
            Reading::Unsupported(why) if process.is_empty() => {
                of(Reading::Measured(false), "systemctl show".to_owned(), why)
            }
            Reading::Unsupported(_) => of(
                Reading::Measured(false),
                "/proc/*/stat".to_owned(),
                format!("no process {process}"),
            ),
            Reading::Failed(why) => of(Reading::Failed(why), String::new(), String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use quietcore_sys::Host;
    use quietcore_sys::host::{Snapshot, Task};
    use serde_json::{Value, json};

    use super::*;

    /// Process 1 is `init`, 2 is `kthreadd` where the whole host is seen.
    fn services_of(units: Value, whole: bool, processes: &[&str]) -> Services {
        let init = if whole { &["init", "kthreadd"][..] } else { &["init"] };
        let task = |(index, name): (usize, &&str)| Task {
            pid: index as u32 + 1,
            tid: index as u32 + 1,
            name: (*name).to_owned(),
            kernel: *name == "kthreadd",
            ..Task::default()
        };
        let tasks: Vec<Task> = init.iter().chain(processes).enumerate().map(task).collect();
        let mut host = Snapshot::new("t");
        host.set(&format!("units {}", Services::units().join(" ")), units);
        host.set("tasks", json!(tasks));
        host.set("list /etc/cron.daily", json!(["apt-compat", "man-db"]));
        Services::read(&Facts::of(Host::recorded(host)))
    }

    fn services(units: Value, processes: &[&str]) -> Services {
        services_of(units, true, processes)
    }

    fn running(services: &Services, unit: &str) -> Option<bool> {
        services.get(unit).unwrap().running.value().copied()
    }

    #[test]
    fn a_process_proves_a_daemon_that_systemd_knows_nothing_of() {
        let units = json!({
            "irqbalance.service": {"load": "not-found", "active": "inactive", "file": ""},
            "tuned.service": {"load": "loaded", "active": "inactive", "file": "enabled"},
        });
        let services = services(units, &["irqbalance", "cron"]);
        assert_eq!(running(&services, "irqbalance.service"), Some(true));
        assert_eq!(running(&services, "tuned.service"), Some(false));
        assert!(services.get("tuned.service").unwrap().enabled);
        assert_eq!(running(&services, "auditd.service"), None, "systemd did not answer for it");
        assert!(services.cron_daily.is_empty(), "its jobs leave the work to the timers");
    }

    #[test]
    fn without_systemd_processes_count_and_cron_has_the_daily_jobs() {
        let services = services(Value::Null, &["systemd-timesyn", "cron"]);
        assert_eq!(running(&services, "systemd-timesyncd.service"), Some(true));
        assert_eq!(running(&services, "irqbalance.service"), Some(false));
        assert_eq!(running(&services, "apt-daily.timer"), Some(false));
        assert_eq!(services.cron_daily, ["apt-compat", "man-db"]);
    }

    #[test]
    fn a_container_proves_what_runs_and_not_what_does_not() {
        let services = services_of(Value::Null, false, &["irqbalance", "cron"]);
        assert_eq!(running(&services, "irqbalance.service"), Some(true));
        assert_eq!(running(&services, "auditd.service"), None);
        assert_eq!(running(&services, "apt-daily.timer"), None);
        // A container that runs a systemd of its own.
        let unit = |active| json!({"load": "loaded", "active": active, "file": ""});
        let units = json!({"tuned.service": unit("active"), "auditd.service": unit("inactive")});
        let services = services_of(units, false, &[]);
        assert_eq!(running(&services, "tuned.service"), Some(true));
        assert_eq!(running(&services, "auditd.service"), None);
    }

    #[test]
    fn where_neither_can_be_asked_nothing_is_known() {
        let services = services(json!({"error": "denied"}), &[]);
        assert_eq!(running(&services, "irqbalance.service"), None);
        assert_eq!(running(&services, "apt-daily.timer"), None);
    }
}
