//! systemd units, by systemd's own interface, as `inactive disabled`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Trouble;
use crate::host::{Unit, show_units};
use crate::lease::value::Value;

/// Units by name, asked for together.
pub(super) type Units = Result<BTreeMap<String, Unit>, Trouble>;

/// Asks systemd once; not at all if nothing is asked for.
pub(super) fn ask(names: &[&str]) -> Units {
    if names.is_empty() { Ok(BTreeMap::new()) } else { show_units(names) }
}

pub(super) fn read(name: &str) -> Result<Value, Trouble> {
    state(&ask(&[name]), name)
}

pub(super) fn state(units: &Units, name: &str) -> Result<Value, Trouble> {
    describe(&of(units, name)?)
}

fn of(units: &Units, name: &str) -> Result<Unit, Trouble> {
    units.as_ref().map(|all| all.get(name).cloned().unwrap_or_default()).map_err(Clone::clone)
}

/// A unit on its way is waited for by `systemctl start`, so only the ends are seen.
pub(crate) fn describe(unit: &Unit) -> Result<Value, Trouble> {
    if unit.load == "not-found" || unit.load.is_empty() {
        return Err(Trouble::Missing);
    }
    let runs = if unit.is_active() { "active" } else { "inactive" };
    Ok(Value::text(format!("{runs} {}", unit.file)))
}

/// Starting comes after enabling and stopping before disabling, as `--now` does it.
pub(super) fn write(name: &str, value: &Value) -> Result<(), Trouble> {
    let before = read(name)?;
    for verb in verbs(before.as_text().unwrap_or_default(), value.as_text().unwrap_or_default())? {
        systemctl(&[verb, name])?;
    }
    Ok(())
}

/// Where units of this host's own are, and drop-ins for those of the distribution.
const FOLDER: &str = "/etc/systemd/system";

/// systemd goes on with what it has read of a file until it is told, a daemon with what it was
/// started with: called when a file was changed, whoever's it is.
pub(super) fn file_changed(path: &Path) -> Result<(), Trouble> {
    let Ok(file) = path.strip_prefix(FOLDER) else { return Ok(()) };
    if !Path::new("/run/systemd/system").exists() {
        return Ok(());
    }
    systemctl(&["daemon-reload"])?;
    let folder = file.parent().and_then(Path::to_str).unwrap_or_default();
    match folder.strip_suffix(".d") {
        Some(unit) => systemctl(&["try-restart", unit]),
        None => Ok(()),
    }
}

/// A unit that is not there (yet) does not start at boot.
pub(super) fn enabled(name: &str) -> Result<Value, Trouble> {
    starts(&ask(&[name]), name)
}

pub(super) fn starts(units: &Units, name: &str) -> Result<Value, Trouble> {
    let enabled = of(units, name)?.is_enabled();
    Ok(Value::text(if enabled { "enabled" } else { "disabled" }))
}

pub(super) fn enable(name: &str, value: &Value) -> Result<(), Trouble> {
    let verb = if value.as_text() == Some("enabled") { "enable" } else { "disable" };
    systemctl(&[verb, name])
}

fn verbs(now: &str, wanted: &str) -> Result<Vec<&'static str>, Trouble> {
    let split = |text: &str| {
        let (runs, file) = text.split_once(' ').unwrap_or((text, ""));
        (runs.to_owned(), file.to_owned())
    };
    let ((runs, file), (shall_run, shall_file)) = (split(now), split(wanted));
    let mut verbs = Vec::new();
    if runs == "active" && shall_run == "inactive" {
        verbs.push("stop");
    }
    if file != shall_file {
        if file == "masked" {
            verbs.push("unmask");
        }
        match shall_file.as_str() {
            "enabled" => verbs.push("enable"),
            "disabled" if file == "enabled" => verbs.push("disable"),
            "masked" => verbs.push("mask"),
            _ if file == "masked" => {}
            other => {
                let text = format!("a unit file that is {file} cannot be made {other}");
                return Err(Trouble::Other(text));
            }
        }
    }
    if runs == "inactive" && shall_run == "active" {
        verbs.push("start");
    }
    Ok(verbs)
}

/// Runs systemctl; it dies with us, so that nothing is still changing when we are taken back.
fn systemctl(args: &[&str]) -> Result<(), Trouble> {
    let output =
        super::next_boot::dies_with_us(Command::new("systemctl").arg("--quiet").args(args))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Trouble::Other(format!("systemctl: {error}")))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let words = String::from_utf8_lossy(&output.stderr);
            // RefuseManualStop=yes, as Red Hat ships auditd: its records name who stopped it.
            let why = match words.contains("refuse manual") {
                true => {
                    "it refuses to be stopped by systemctl: stop it its own way (`service auditd stop`, `auditctl --signal stop`)"
                }
                false => words.trim(),
            };
            Err(Trouble::Other(format!("systemctl {}: {why}", args.join(" "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_between_two_states_is_found_in_both_directions() {
        let way = |now, wanted| verbs(now, wanted).unwrap();
        assert_eq!(way("active enabled", "inactive disabled"), ["stop", "disable"]);
        assert_eq!(way("inactive disabled", "active enabled"), ["enable", "start"]);
        assert_eq!(way("active static", "inactive masked"), ["stop", "mask"]);
        assert_eq!(way("inactive masked", "active static"), ["unmask", "start"]);
        assert!(way("active enabled", "active enabled").is_empty());
        assert!(verbs("active static", "inactive disabled").is_err());
    }

    #[test]
    fn a_unit_that_is_not_there_has_no_state() {
        let unit = Unit { load: "not-found".into(), ..Unit::default() };
        assert_eq!(describe(&unit), Err(Trouble::Missing));
    }
}
