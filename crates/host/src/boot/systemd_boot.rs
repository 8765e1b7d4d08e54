//! systemd-boot: what it makes of its entries, asked of its own program.

use serde::Deserialize;

use super::program::{find, run};
use super::{BootError, files};

/// Says which boot loader has started the system.
const LOADER_INFO: &str =
    "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(rename = "isDefault", default)]
    is_default: bool,
}

/// Whether it is the boot loader.
pub(super) fn is_running() -> bool {
    let bytes = std::fs::read(LOADER_INFO).unwrap_or_default();
    files::of_utf16(bytes.get(4..).unwrap_or_default()).starts_with("systemd-boot")
}

/// An entry that is booted once must not become the default, for its order or by a pattern.
pub(super) fn is_not_default(id: &str) -> Result<(), BootError> {
    judge(&run(&find(&["bootctl"])?, &["list", "--json=short"], "")?, id)
}

fn judge(list: &str, id: &str) -> Result<(), BootError> {
    let entries: Vec<Entry> = serde_json::from_str(list).unwrap_or_default();
    let default = entries.iter().find(|entry| entry.is_default).map(|entry| entry.id.as_str());
    match default {
        Some(default) if default != id => Ok(()),
        Some(_) => Err(BootError::Unfit(
            "systemd-boot would take the entry on trial for its default: bootctl set-default ID first".to_owned(),
        )),
        None => Err(BootError::Unfit("bootctl does not say which entry is the default".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_on_trial_that_would_be_the_default_is_refused_and_so_is_not_knowing() {
        let list = r#"[{"type":"type1","id":"a.conf","isDefault":true},{"id":"t.conf"}]"#;
        assert!(judge(list, "t.conf").is_ok());
        assert!(judge(list, "a.conf").is_err());
        for unknown in ["", "[]", r#"[{"id":"a.conf"}]"#, "{"] {
            assert!(judge(unknown, "t.conf").is_err(), "{unknown}");
        }
    }
}
