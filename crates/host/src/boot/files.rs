//! Files of the boot loader: read whole, replaced with mode and owner kept.

use quietcore_sys::Host;
use quietcore_sys::lease::{Bytes, Content, Lease, Slot, Value};

use super::BootError;

/// A file's text, mode and owner.
pub(super) fn content(host: &Host, path: &str) -> Result<(String, Content), BootError> {
    let unfit = |why: String| BootError::Unfit(format!("{path}: {why}"));
    match host.look(&Slot::File { path: path.to_owned() }) {
        Ok(Value::File(content)) => match String::from_utf8(content.bytes.0.clone()) {
            Ok(text) => Ok((text, content)),
            Err(_) => Err(unfit("is no text".to_owned())),
        },
        Ok(_) => Err(unfit("is not there".to_owned())),
        Err(trouble) => Err(unfit(trouble.to_string())),
    }
}

/// Another text with the mode and owner of a file.
pub(super) fn like(old: &Content, text: String) -> Value {
    Value::File(Content { bytes: Bytes(text.into_bytes()), ..old.clone() })
}

/// The file beside another one.
pub(super) fn beside(path: &str, name: &str) -> String {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{folder}/{name}")
}

/// Where a word stands, as `/etc/default/grub, line 7`.
pub(super) fn line_of(host: &Host, files: &[String], word: &str) -> Option<String> {
    files.iter().find_map(|file| {
        let text = host.read(file).ok()?;
        let has = |line: &str| {
            let words = line.split(|c: char| c.is_whitespace() || "\"'".contains(c));
            !line.trim_start().starts_with('#')
                && words
                    .map(|w| w.replace("+=", "="))
                    .any(|w| w == word || w.ends_with(&format!("LINUX={word}")))
        };
        let number = text.lines().position(has)? + 1;
        Some(format!("{file}, line {number}"))
    })
}

/// A file that somebody else has changed since we did is theirs: what is put back later is what
/// they have made of it (a menu with the new kernel), not what was there before.
pub(super) fn settle(lease: &mut Lease, host: &mut Host, slot: &Slot) -> Result<(), BootError> {
    let Ok(now) = host.look(slot) else { return Ok(()) };
    let theirs = lease.entries().any(|entry| entry.slot == *slot && !entry.is_ours(&now));
    if theirs {
        lease.release(|entry| entry.slot == *slot)?;
    }
    Ok(())
}

/// The text of an EFI variable.
pub(super) fn of_utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    String::from_utf16_lossy(&units)
}
