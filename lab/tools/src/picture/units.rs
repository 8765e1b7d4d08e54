//! systemd's units, as it says itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use super::text::{Class, Entry, escaped};

/// What systemd makes in a folder of its own where it is the first process.
const RUNNING: &str = "/run/systemd/system";

/// Every unit file and whether it is enabled.
pub fn files() -> Class {
    systemctl(&["list-unit-files", "--no-legend", "--no-pager", "--full"], |text| {
        let lines = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?))
        });
        lines.map(|(unit, state)| (escaped(unit.as_bytes()), Entry::new(state.into()))).collect()
    })
}

/// Every service that is not inactive: systemd forgets inactive ones when it likes.
pub fn services() -> Class {
    let show = ["show", "--no-pager", "--property=Id,UnitFileState,ActiveState", "*.service"];
    systemctl(&show, services_of)
}

fn services_of(text: &str) -> BTreeMap<String, Entry> {
    let mut found = BTreeMap::new();
    for unit in text.split("\n\n") {
        let property = |key: &str| {
            unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or("")
        };
        let active = property("ActiveState");
        if !matches!(active, "" | "inactive") {
            let value = format!("{active} {}", property("UnitFileState"));
            found.insert(escaped(property("Id").as_bytes()), Entry::new(value));
        }
    }
    found
}

fn systemctl(args: &[&str], parse: fn(&str) -> BTreeMap<String, Entry>) -> Class {
    if !Path::new(RUNNING).exists() {
        return Class::Absent("systemd does not run".into());
    }
    // An emulated machine that has just booted may need longer than the 25 s that the bus waits,
    // and asking anew only adds to what systemd has to do.
    let mut ask = Command::new("systemctl");
    ask.args(args).env("SYSTEMD_BUS_TIMEOUT", "10min").stdin(Stdio::null());
    match ask.output() {
        Err(error) => Class::Absent(format!("systemctl: {error}")),
        Ok(output) if !output.status.success() => {
            Class::Absent(format!("systemctl {}: {}", args.join(" "), output.status))
        }
        Ok(output) => Class::found(parse(&String::from_utf8_lossy(&output.stdout))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_services_that_do_something_are_kept() {
        let text = "Id=a.service\nActiveState=active\nUnitFileState=enabled\n\n\
                    Id=b.service\nActiveState=inactive\nUnitFileState=disabled\n\n\
                    Id=c.service\nActiveState=failed\nUnitFileState=\n";
        let found = services_of(text);
        let values: Vec<_> = found.iter().map(|(k, e)| format!("{k} {}", e.value)).collect();
        assert_eq!(values, ["a.service active enabled", "c.service failed "]);
    }
}
