//! The kernel: its version, what it was built with, what its log says.

use quietcore_measure::Reading;
use quietcore_sys::host::{KernelLog, LogLine, Trouble, reading};

use crate::Facts;

/// The running kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// As `6.1.0-50-amd64`.
    pub release: String,
    /// Memory in bytes; 0 where it could not be read.
    pub memory_bytes: u64,
    /// Timer interrupts per second, if the configuration could be read.
    pub hz: Option<u64>,
    /// The lines of the log that checks read.
    pub log: Reading<KernelLog>,
}

impl Kernel {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        let memory = host.read("/proc/meminfo").unwrap_or_default();
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib: u64 = total
            .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
            .unwrap_or_default();
        Self {
            release: host.line("/proc/sys/kernel/osrelease").unwrap_or_default(),
            memory_bytes: kib.saturating_mul(1024),
            hz: host.config("HZ").ok().flatten().and_then(|hz| hz.parse().ok()),
            // Every kernel has a log: a container without /dev/kmsg proves nothing by it.
            log: match host.kernel_log() {
                Err(error) if error.trouble == Trouble::Missing => {
                    Reading::Failed("kernel log: there is no /dev/kmsg here".to_owned())
                }
                answer => reading(answer),
            },
        }
    }

    /// Version as (major, minor); (0, 0) where the release does not tell.
    pub fn version(&self) -> (u32, u32) {
        let mut parts = self.release.split(|c: char| !c.is_ascii_digit());
        let mut next = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
        (next(), next())
    }

    /// The first line of the log that holds this text.
    ///
    /// `Measured(None)` proves that there was none; a log that no longer reaches back to boot
    /// proves nothing and gives `Failed`.
    pub fn logged(&self, text: &str) -> Reading<Option<&LogLine>> {
        self.all_logged(|line| line.contains(text)).map(|lines| lines.first().copied())
    }

    /// Every line of this boot's log that is of a kind; none is proven as by [`Kernel::logged`].
    pub fn all_logged(&self, is_kind: impl Fn(&str) -> bool) -> Reading<Vec<&LogLine>> {
        self.log.as_ref().and_then(|log| {
            let found: Vec<_> = log.lines.iter().filter(|line| is_kind(&line.text)).collect();
            match found.is_empty() && log.wrapped {
                true => Reading::Failed(
                    "the kernel log no longer reaches back to boot (log_buf_len=4M keeps more)"
                        .to_owned(),
                ),
                false => Reading::Measured(found),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use quietcore_sys::Host;
    use quietcore_sys::host::Snapshot;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_log_that_is_not_there_was_not_read() {
        let mut host = Snapshot::new("t");
        host.set("kernel log", Value::Null);
        let kernel = Kernel::read(&Facts::of(Host::recorded(host)));
        assert!(matches!(kernel.log, Reading::Failed(_)), "{:?}", kernel.log);
    }
}
