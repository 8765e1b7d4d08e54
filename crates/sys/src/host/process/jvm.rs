//! The performance data that a Java virtual machine keeps in a file it has mapped
//! (`/tmp/hsperfdata_USER/PID`), for `jstat` and whoever else can read it.
//!
//! It holds the flags in force, with those of the environment in their place, and what the
//! collectors and safepoints have cost so far: what the command line can only let one guess.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::host::{Trouble, live};

/// The file is 32 KiB unless `-XX:PerfDataMemorySize` says otherwise.
const LARGEST: u64 = 4 << 20;

/// What a Java virtual machine says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jvm {
    /// Version, as `17.0.15`.
    pub version: String,
    /// The `-X…` options in the order in which they count, those of the environment among them.
    pub options: Vec<String>,
    /// The collectors.
    pub collectors: Vec<JvmCollector>,
    /// Times all threads were stopped, for whatever reason.
    pub safepoints: Option<u64>,
    /// Time they were stopped in all, in nanoseconds.
    pub stopped_ns: Option<u64>,
    /// The file system that the file lies on, as `tmpfs`, `ext4`; empty if unknown.
    pub filesystem: String,
}

/// One collector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JvmCollector {
    /// As the virtual machine names it, as `G1 young collection pauses`.
    pub name: String,
    /// How often it ran.
    pub runs: u64,
    /// How long in all, in nanoseconds.
    pub took_ns: u64,
}

pub(super) fn read(root: &Path, pid: u32) -> Result<Jvm, Trouble> {
    let maps = live::read(root, &format!("/proc/{pid}/maps"))?;
    let path = maps
        .lines()
        .filter_map(super::path_of)
        .find(|path| path.contains("/hsperfdata_"))
        .ok_or(Trouble::Missing)?;
    // The file is the target's to choose: no link is followed, no pipe waited for.
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(live::below(root, &format!("/proc/{pid}/root{path}"))?)?;
    if !file.metadata()?.is_file() {
        return Err(Trouble::Other(format!("{path} is not a file")));
    }
    let mut bytes = Vec::new();
    Read::by_ref(&mut file).take(LARGEST).read_to_end(&mut bytes)?;
    let values = entries(&bytes)
        .ok_or_else(|| Trouble::Other(format!("{path} is not a performance data file")))?;
    let mounts = live::read(root, &format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    Ok(Jvm { filesystem: filesystem(&mounts, path).unwrap_or_default(), ..Jvm::of(&values) })
}

/// A value of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Number(u64),
    Text(String),
}

impl Jvm {
    fn of(values: &BTreeMap<String, Entry>) -> Self {
        let number = |name: &str| match values.get(name) {
            Some(Entry::Number(number)) => Some(*number),
            _ => None,
        };
        let text = |name: &str| match values.get(name) {
            Some(Entry::Text(text)) => text.as_str(),
            _ => "",
        };
        let frequency = number("sun.os.hrt.frequency").filter(|hz| *hz > 0);
        let ns = |ticks: u64| {
            let ns = u128::from(ticks) * 1_000_000_000 / u128::from(frequency?);
            u64::try_from(ns).ok()
        };
        let collector = |index: usize| {
            let name = format!("sun.gc.collector.{index}");
            Some(JvmCollector {
                name: match values.get(&format!("{name}.name"))? {
                    Entry::Text(text) => text.clone(),
                    Entry::Number(_) => return None,
                },
                runs: number(&format!("{name}.invocations"))?,
                took_ns: ns(number(&format!("{name}.time"))?)?,
            })
        };
        let words = text("java.rt.vmFlags").split_whitespace();
        let words = words.chain(text("java.rt.vmArgs").split_whitespace());
        Self {
            version: text("java.property.java.version").to_owned(),
            // A property (-D) may hold a password; none is kept.
            options: words.filter_map(super::options::kept).collect(),
            collectors: (0..8).map_while(collector).collect(),
            safepoints: number("sun.rt.safepoints"),
            stopped_ns: number("sun.rt.safepointTime").and_then(ns),
            filesystem: String::new(),
        }
    }
}

/// The entries of the file (HotSpot's `perfMemory.hpp`): a prologue of 32 bytes, then entries of
/// 20 bytes with the offsets of a name and a value. Little-endian files only, which is what every
/// machine that runs this writes.
fn entries(bytes: &[u8]) -> Option<BTreeMap<String, Entry>> {
    let [_, _, _, _, order, major, ..] = *bytes else { return None };
    if !bytes.starts_with(&[0xca, 0xfe, 0xc0, 0xc0]) || order != 1 || major != 2 {
        return None;
    }
    let (mut at, count) = (int(bytes, 24)?, int(bytes, 28)?);
    let mut values = BTreeMap::new();
    for _ in 0..count.min(bytes.len() / 20) {
        let entry = bytes.get(at..)?;
        let length = int(entry, 0).filter(|length| *length >= 20)?;
        let name = text(entry.get(int(entry, 4)?..)?)?;
        let data = entry.get(int(entry, 16)?..)?;
        let value = match (*entry.get(12)?, int(entry, 8)?) {
            (b'J', 0) => data.first_chunk().map(|eight| Entry::Number(u64::from_le_bytes(*eight))),
            (b'B', size @ 1..) => data.get(..size).and_then(text).map(Entry::Text),
            _ => None,
        };
        if let Some(value) = value {
            values.insert(name, value);
        }
        at = at.checked_add(length)?;
    }
    Some(values)
}

fn int(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8(bytes[..end].to_vec()).ok()
}

/// The type of the file system with the longest mount point above `path`
/// (`36 35 98:0 /root /mnt opts shared:1 - ext4 /dev/x rw`).
fn filesystem(mountinfo: &str, path: &str) -> Option<String> {
    let mount = |line: &str| {
        let (head, tail) = line.split_once(" - ")?;
        let point = head.split(' ').nth(4)?.to_owned();
        Some((point, tail.split(' ').next()?.to_owned()))
    };
    let above = |point: &str| {
        path.strip_prefix(point).is_some_and(|rest| point == "/" || rest.starts_with('/'))
    };
    let mounts = mountinfo.lines().filter_map(mount).filter(|(point, _)| above(point));
    // Of two mounts on one point the later one is seen.
    mounts.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file as HotSpot writes it.
    fn file(entries: &[(&str, Entry)]) -> Vec<u8> {
        let mut bytes = vec![0xca, 0xfe, 0xc0, 0xc0, 1, 2, 0, 1];
        bytes.extend([0; 16]);
        bytes.extend(32_i32.to_le_bytes());
        bytes.extend((entries.len() as i32).to_le_bytes());
        for (name, value) in entries {
            let data_at = (20 + name.len() + 1).next_multiple_of(8);
            let (kind, vector, data) = match value {
                Entry::Number(n) => (b'J', 0, n.to_le_bytes().to_vec()),
                Entry::Text(t) => (b'B', t.len() + 1, [t.as_bytes(), &[0]].concat()),
            };
            let length = (data_at + data.len()).next_multiple_of(8);
            let start = bytes.len();
            for word in [length, 20, vector] {
                bytes.extend((word as i32).to_le_bytes());
            }
            bytes.extend([kind, 0, 1, 1]);
            bytes.extend((data_at as i32).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.resize(start + data_at, 0);
            bytes.extend(data);
            bytes.resize(start + length, 0);
        }
        bytes
    }

    fn made() -> Vec<u8> {
        let text = |t: &str| Entry::Text(t.to_owned());
        file(&[
            ("java.property.java.version", text("17.0.15")),
            ("java.rt.vmArgs", text("-XX:+UseG1GC -Dpassword=-Xmx -Dp=q -Xmx1g")),
            ("sun.os.hrt.frequency", Entry::Number(1_000_000_000)),
            ("sun.gc.collector.0.name", text("G1 young collection pauses")),
            ("sun.gc.collector.0.invocations", Entry::Number(12)),
            ("sun.gc.collector.0.time", Entry::Number(36_000_000)),
            ("sun.rt.safepoints", Entry::Number(20)),
            ("sun.rt.safepointTime", Entry::Number(50_000_000)),
        ])
    }

    #[test]
    fn flags_and_pauses_are_read_and_properties_left_out() {
        let jvm = Jvm::of(&entries(&made()).unwrap());
        assert_eq!(jvm.version, "17.0.15");
        assert_eq!(jvm.options, ["-XX:+UseG1GC", "-Xmx1g"]);
        let young = JvmCollector {
            name: "G1 young collection pauses".to_owned(),
            runs: 12,
            took_ns: 36_000_000,
        };
        assert_eq!(jvm.collectors, [young]);
        assert_eq!((jvm.safepoints, jvm.stopped_ns), (Some(20), Some(50_000_000)));
    }

    #[test]
    fn the_file_system_is_that_of_the_nearest_mount() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /tmp rw shared:1 - tmpfs tmpfs rw\n\
            3 1 0:6 / /tm rw - xfs x rw\ngarbage\n";
        assert_eq!(filesystem(mounts, "/tmp/hsperfdata_a/1").as_deref(), Some("tmpfs"));
        assert_eq!(filesystem(mounts, "/tmpx/a").as_deref(), Some("ext4"));
        assert_eq!(filesystem("", "/tmp/a"), None);
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        for bytes in [&b""[..], b"\xca\xfe\xc0\xc0", b"\xca\xfe\xc0\xc0\x00\x02\0\x01xxxxxxxx"] {
            assert_eq!(entries(bytes), None);
        }
        assert_eq!(Jvm::of(&BTreeMap::new()), Jvm::default());
    }

    proptest! {
        #[test]
        fn no_damage_makes_the_reader_panic(cut in 0usize..700, damage in proptest::collection::vec((0usize..700, any::<u8>()), 0..8)) {
            let mut bytes = made();
            for (at, byte) in damage {
                if let Some(there) = bytes.get_mut(at) {
                    *there = byte;
                }
            }
            bytes.truncate(cut);
            if let Some(values) = entries(&bytes) {
                let _ = Jvm::of(&values);
            }
        }
    }
}
