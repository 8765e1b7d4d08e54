//! The systemd unit that tunes the host again at every boot.
//!
//! A driver that udev loads late puts its interrupts where it likes, and daemons that set what we
//! set do so when they start: the unit waits for all of them. It fails, for all to see, when what
//! was applied does not hold.

use std::path::{Path, PathBuf};

use quietcore_facts::Facts;
use quietcore_sys::lease::{Slot, Value};

/// The unit.
pub const UNIT: &str = "quietcore.service";
/// Its file.
pub const FILE: &str = "/etc/systemd/system/quietcore.service";

/// Which program tunes the host, and by which journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Absolute path of `quietcore`.
    pub program: PathBuf,
    /// Absolute path of the folder of the journal.
    pub state: PathBuf,
}

/// Between program and folder in the unit's file.
const COMMAND: &str = " apply --at-boot --quiet --state ";

impl Service {
    /// What is installed, where it is ours and its program is there; else this program.
    pub fn of(facts: &Facts, state: &Path) -> Self {
        let host = facts.host();
        let installed = host.read(FILE).ok().and_then(|text| Self::parse(&text));
        let usable = |service: &Self| {
            service.state == state && (!host.is_live() || service.program.exists())
        };
        installed.filter(usable).unwrap_or_else(|| Self {
            program: std::env::current_exe().unwrap_or_default(),
            state: state.to_owned(),
        })
    }

    /// Reads a file that [`Service::text`] wrote; `None` for any other.
    pub fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("ExecStart="))?;
        let (program, state) = line.split_once(COMMAND)?;
        let service = Self { program: program.into(), state: state.into() };
        (service.text() == text).then_some(service)
    }

    /// The places that make the service: its file, then that it starts at boot.
    pub fn places(&self) -> [(Slot, Value); 2] {
        [
            (Slot::File { path: FILE.to_owned() }, Value::file(self.text(), 0o644)),
            (Slot::Enabled { name: UNIT.to_owned() }, Value::text("enabled")),
        ]
    }

    /// The text of the unit's file.
    pub fn text(&self) -> String {
        let (program, state) = (self.program.display(), self.state.display());
        format!(
            "\
# Tunes this host at boot as it was applied last: `quietcore status`. Written by quietcore;
# `quietcore rollback` takes it away.
#
# A program that must not start on a host that is not as it should be says in its own unit:
#   [Unit]
#   Requires={UNIT}
#   After={UNIT}
[Unit]
Description=Tune this host for latency, and verify that it holds
# Drivers place their interrupts when udev loads them; daemons set what they set when they start.
# Whoever comes later undoes it.
After=systemd-udev-settle.service systemd-modules-load.service systemd-sysctl.service
After=network-online.target irqbalance.service tuned.service cpupower.service cpufrequtils.service
After=cpuspeed.service cpufreqd.service ondemand.service thermald.service
After=power-profiles-daemon.service auditd.service ksmtuned.service numad.service
Wants=network-online.target
RequiresMountsFor={state}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStartPre=-udevadm settle --timeout=60
ExecStart={program}{COMMAND}{state}
ExecStartPost={program} verify --quiet --state {state}
TimeoutStartSec=3min

[Install]
WantedBy=multi-user.target
"
        )
    }

    /// Why it cannot be installed, if it cannot; else what speaks against it, if anything does.
    ///
    /// # Errors
    /// In words: a path that a reboot may remove, or that cannot stand in a unit's file.
    pub fn examine(&self) -> Result<Option<String>, String> {
        for path in [&self.program, &self.state] {
            let shown = path.display();
            let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:".contains(c);
            let text = path.to_str().filter(|text| text.chars().all(plain));
            let Some(text) = text.filter(|text| text.starts_with('/')) else {
                return Err(format!(
                    "{shown}: cannot stand in a unit's file: install it under a plain, absolute path"
                ));
            };
            let passing = ["/tmp/", "/var/tmp/", "/run/", "/var/run/", "/dev/", "/proc/"];
            if passing.iter().any(|folder| format!("{text}/").starts_with(folder)) {
                return Err(format!(
                    "{shown}: a reboot may remove it: install the program as /usr/local/sbin/quietcore, keep the journal in /var/lib"
                ));
            }
        }
        let text = self.program.to_string_lossy();
        let private = ["/home/", "/root/"].iter().any(|folder| text.starts_with(folder));
        let built = ["/target/debug/", "/target/release/", "/deps/"];
        Ok((private || built.iter().any(|folder| text.contains(folder))).then(|| {
            format!(
                "{text}: a home or a build folder: it may change or vanish, and whoever may write there becomes root at boot"
            )
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(program: &str, state: &str) -> Service {
        Service { program: program.into(), state: state.into() }
    }

    #[test]
    fn what_was_written_is_read_again_and_what_was_edited_is_not_ours() {
        let own = service("/usr/sbin/quietcore", "/var/lib/quietcore");
        let text = own.text();
        assert_eq!(Service::parse(&text), Some(own));
        assert_eq!(Service::parse(&text.replace("3min", "9min")), None);
        assert_eq!(Service::parse("[Service]\nExecStart=/bin/true\n"), None);
    }

    #[test]
    fn a_path_that_a_reboot_removes_is_refused_and_a_home_is_warned_of() {
        let of = |program, state| service(program, state).examine();
        assert_eq!(of("/usr/local/sbin/quietcore", "/var/lib/quietcore"), Ok(None));
        assert!(of("/tmp/quietcore", "/var/lib/quietcore").unwrap_err().contains("reboot"));
        assert!(of("/usr/sbin/quietcore", "/run/quietcore").is_err());
        assert!(of("/usr/sbin/quietcore", "relative").is_err());
        assert!(of("/opt/a b/quietcore", "/var/lib/q").unwrap_err().contains("plain"));
        assert!(of("/home/me/quietcore", "/var/lib/q").unwrap().is_some());
        assert!(of("/src/target/release/quietcore", "/var/lib/q").unwrap().is_some());
    }
}
