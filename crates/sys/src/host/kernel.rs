//! The kernel's build configuration and its log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};

use super::parameters::{Quoting, without_values};
use super::{Host, HostError, Trouble, live};

#[derive(Debug, Default)]
pub(super) struct ConfigCache(OnceLock<Result<BTreeMap<String, String>, Trouble>>);

/// The part of the kernel log that checks read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLog {
    /// The log no longer reaches back to boot: what is not in it proves nothing.
    pub wrapped: bool,
    /// The lines, oldest first.
    pub lines: Vec<LogLine>,
}

/// One line of the kernel log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Microseconds since boot.
    pub at_us: u64,
    /// The message.
    pub text: String,
}

/// Lines that a check reads hold one of these; all others stay on the host.
const MARKERS: &[&str] = &[
    "NO_HZ",
    "rcu:",
    "Dynamic Preempt:",
    "Housekeeping:",
    "Unknown kernel command line",
    "Malformed early option",
    "isolcpus",
    "nohz_full",
    "tsc:",
    "TSC",
    "clocksource",
    "throttled",
    "temperature above threshold",
    "temperature/speed normal",
    "Hardware Error",
    "machine check",
    "EDAC",
    "soft lockup",
    "hard LOCKUP",
    "sched: RT throttling activated",
    "perf: interrupt took too long",
    "NMI watchdog",
    "NMI handler",
    "irq ",
    "nobody cared",
    "lockdown",
    "hung_task",
    "blocked for more than",
    "Out of memory",
    "page allocation failure",
    "CPU Bandwidth",
];

/// How a recording says that a build option is not set.
const NOT_SET: &str = "n";

impl Host {
    /// A build option of the running kernel, as `y`, `m`, `1000`; `None` where it is not set.
    ///
    /// # Errors
    /// Missing where neither /proc/config.gz nor /boot/config-RELEASE is there.
    pub fn config(&self, option: &str) -> Result<Option<String>, HostError> {
        // In a recording, nothing stands for "no such file": "not set" needs a word of its own.
        let value = self.answer(format!("config {option}"), |root| {
            let config = self.config.0.get_or_init(|| read_config(root)).as_ref();
            let value = config.map(|map| map.get(option).cloned()).map_err(Clone::clone)?;
            Ok(value.unwrap_or_else(|| NOT_SET.to_owned()))
        })?;
        Ok(Some(value).filter(|value| value != NOT_SET))
    }

    /// The kernel log (needs root where kernel.dmesg_restrict is set).
    pub fn kernel_log(&self) -> Result<KernelLog, HostError> {
        self.answer("kernel log".to_owned(), |root| {
            read_log(live::open_with(root, "/dev/kmsg", libc::O_NONBLOCK)?)
        })
    }
}

fn read_config(root: &Path) -> Result<BTreeMap<String, String>, Trouble> {
    let mut text = String::new();
    match live::open(root, "/proc/config.gz") {
        Ok(file) => {
            GzDecoder::new(file).read_to_string(&mut text)?;
        }
        Err(_) => {
            let release = live::read(root, "/proc/sys/kernel/osrelease")?;
            text = live::read(root, &format!("/boot/config-{}", release.trim()))?;
        }
    }
    let options = text.lines().filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('='));
    Ok(options.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned())).collect())
}

/// /dev/kmsg gives one record per read and EAGAIN at the end; EPIPE says that records were
/// overwritten between two reads. (Documentation/ABI/testing/dev-kmsg)
fn read_log(mut file: File) -> Result<KernelLog, Trouble> {
    let mut log = KernelLog::default();
    let mut first = true;
    let mut buffer = vec![0; 8192];
    loop {
        let length = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(e) if e.raw_os_error() == Some(libc::EPIPE) => {
                log.wrapped = true;
                continue;
            }
            Err(e) => return Err(e.into()),
        };
        let Some((sequence, line)) = parse_record(&String::from_utf8_lossy(&buffer[..length]))
        else {
            continue;
        };
        log.wrapped |= first && sequence > 0;
        first = false;
        if MARKERS.iter().any(|marker| line.text.contains(marker)) {
            log.lines.push(line);
        }
    }
    Ok(log)
}

/// `6,339,5140900,-;NET: Registered protocol family 10`, then continuation lines.
fn parse_record(record: &str) -> Option<(u64, LogLine)> {
    let (prefix, message) = record.split_once(';')?;
    let mut fields = prefix.split(',').skip(1);
    let sequence = fields.next()?.parse().ok()?;
    let at_us = fields.next()?.parse().ok()?;
    let text = message.lines().next().unwrap_or_default();
    let text = match text.contains("ernel command line") {
        true => without_values(text, Quoting::Message),
        false => text.to_owned(),
    };
    Some((sequence, LogLine { at_us, text }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn records_of_the_kernel_log_are_read() {
        let record = "6,339,5140900,-;NO_HZ: Full dynticks CPUs: 2-3.\n SUBSYSTEM=x\n";
        let (sequence, line) = parse_record(record).unwrap();
        assert_eq!((sequence, line.at_us), (339, 5_140_900));
        assert_eq!(line.text, "NO_HZ: Full dynticks CPUs: 2-3.");
        let line = parse_record("5,0,0,-;Kernel command line: pass=x isolcpus=2").unwrap().1;
        assert_eq!(line.text, "Kernel command line: pass isolcpus=2");
        for garbage in ["", ";", "6,x,1,-;m", "6;m", "6,1;m"] {
            assert!(parse_record(garbage).is_none(), "{garbage}");
        }
    }

    #[test]
    fn a_tree_of_files_answers_from_its_boot_folder() {
        let root = tempfile::tempdir().unwrap();
        let path = |p: &str| root.path().join(p);
        fs::create_dir_all(path("proc/sys/kernel")).unwrap();
        fs::create_dir_all(path("boot")).unwrap();
        fs::write(path("proc/sys/kernel/osrelease"), "6.1.0\n").unwrap();
        fs::write(path("boot/config-6.1.0"), "CONFIG_HZ=250\n# CONFIG_NO_HZ_FULL is not set\n")
            .unwrap();
        let host = Host::from_path(root.path()).unwrap();
        assert_eq!(host.config("HZ").unwrap().as_deref(), Some("250"));
        assert_eq!(host.config("NO_HZ_FULL").unwrap(), None);
        let recording = Host::from_path(root.path()).unwrap().recording("r");
        assert_eq!(recording.config("NO_HZ_FULL").unwrap(), None);
        let recorded = Host::recorded(recording.into_snapshot().unwrap());
        assert_eq!(recorded.config("NO_HZ_FULL").unwrap(), None);
        assert_eq!(host.kernel_log().unwrap_err().trouble, Trouble::Missing);
    }
}
