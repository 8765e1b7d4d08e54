//! A machine that can be asked: this one, a tree of files, or a recording.
//!
//! Every question has a key, as `read /proc/cmdline` or `msr 0 0x34`. A live host answers it from
//! the kernel; a recording looks the key up; recording a host is keeping the answers. So a
//! snapshot holds exactly what was asked, failures included, and an offline audit cannot differ.

mod bootfiles;
mod cgroups;
mod ethtool;
mod kernel;
mod live;
mod parameters;
mod process;
mod query;
mod routes;
mod scrub;
mod snapshot;
mod tasks;
mod timekeeping;
mod units;
mod writes;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use quietcore_measure::{CpuSet, Reading};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::lease::{self, Slot};

pub use bootfiles::{BootLine, BootLines};
pub use cgroups::{Bandwidth, ControlGroup, ControlGroups};
pub use ethtool::{Coalesce, Ethtool, Rings};
pub(crate) use ethtool::{set_word as set_ethtool_word, word as ethtool_word};
pub use kernel::{KernelLog, LogLine};
pub use parameters::keeps_value;
pub use process::{CpuLimit, Jvm, JvmCollector, Runtime, ThreadCounters};
pub use query::CpuidLeaf;
pub use scrub::scrub;
pub use snapshot::{Snapshot, SnapshotError};
pub use tasks::Task;
pub use timekeeping::Timekeeping;
pub use units::Unit;
pub use writes::{Answer, Rule, WriteError};
pub(crate) use {live::read as read_file, units::show as show_units};

/// A machine that can be asked.
#[derive(Debug)]
pub struct Host {
    source: Source,
    /// Which reading of a probe is asked for: 0 is the first.
    moment: AtomicUsize,
    recorder: Option<Mutex<Recorder>>,
    config: kernel::ConfigCache,
}

#[derive(Debug)]
struct Recorder {
    snapshot: Snapshot,
    interfaces: scrub::Interfaces,
}

#[derive(Debug)]
enum Source {
    Live,
    Tree(PathBuf),
    Recorded(Box<Recorded>),
}

/// A recording, and what was written to its places since (the files are written in it).
#[derive(Debug)]
struct Recorded {
    snapshot: Snapshot,
    written: BTreeMap<Slot, lease::Value>,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// There is no such file, device or feature.
    #[error("not there")]
    Missing,
    /// The caller may not ask.
    #[error("permission denied (root may, unless a container or kernel lockdown forbids it)")]
    Denied,
    /// The recording does not hold the answer.
    #[error("not in the snapshot (record it again with this version)")]
    NotRecorded,
    /// Anything else, in the kernel's words.
    #[error("{0}")]
    Other(String),
}

/// A question without an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {trouble}")]
pub struct HostError {
    /// The file or query.
    pub what: String,
    /// Why it was not answered.
    pub trouble: Trouble,
}

impl HostError {
    /// As a reading without a value: what is not there is unsupported, the rest failed.
    pub fn into_reading<T>(self) -> Reading<T> {
        match self.trouble {
            Trouble::Missing => Reading::Unsupported(self.to_string()),
            _ => Reading::Failed(self.to_string()),
        }
    }
}

/// An answer as a reading: what is not there is unsupported, other failures failed.
pub fn reading<T>(answer: Result<T, HostError>) -> Reading<T> {
    answer.map_or_else(HostError::into_reading, Reading::Measured)
}

impl Host {
    /// This machine.
    pub fn live() -> Self {
        Self::of(Source::Live)
    }

    /// A machine from `path`: a snapshot file, or a directory that holds its files (an unpacked
    /// image, an archive of a support tool). A directory answers no queries besides its files.
    pub fn from_path(path: &Path) -> Result<Self, SnapshotError> {
        if path.is_dir() {
            // Nothing can be found wrong in an empty folder: that must not look like a clean host.
            if !path.join("proc").is_dir() && !path.join("sys").is_dir() {
                return Err(SnapshotError::NoHost { path: path.to_owned() });
            }
            return Ok(Self::of(Source::Tree(path.to_owned())));
        }
        Snapshot::load(path).map(Self::recorded)
    }

    /// A recorded machine.
    pub fn recorded(snapshot: Snapshot) -> Self {
        Self::of(Source::Recorded(Box::new(Recorded { snapshot, written: BTreeMap::new() })))
    }

    /// Keeps every answer from now on, scrubbed of addresses, names and serial numbers. The asker
    /// is given the scrubbed answer, too, so that what is judged is what is kept.
    #[must_use]
    pub fn recording(mut self, name: &str) -> Self {
        let snapshot = Snapshot::new(name);
        self.recorder = Some(Mutex::new(Recorder { snapshot, interfaces: Default::default() }));
        self
    }

    /// What was kept since [`Host::recording`].
    pub fn into_snapshot(self) -> Option<Snapshot> {
        let recorder = self.recorder?.into_inner();
        Some(recorder.unwrap_or_else(|poisoned| poisoned.into_inner()).snapshot)
    }

    /// The recording that answers.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        match &self.source {
            Source::Recorded(recorded) => Some(&recorded.snapshot),
            _ => None,
        }
    }

    pub(crate) fn snapshot_mut(&mut self) -> Option<&mut Snapshot> {
        match &mut self.source {
            Source::Recorded(recorded) => Some(&mut recorded.snapshot),
            _ => None,
        }
    }

    /// Everything that was written to a recording, by place.
    pub fn written(&self) -> Option<&BTreeMap<Slot, lease::Value>> {
        match &self.source {
            Source::Recorded(recorded) => Some(&recorded.written),
            _ => None,
        }
    }

    pub(crate) fn note_written(&mut self, slot: &Slot, value: lease::Value) {
        if let Source::Recorded(recorded) = &mut self.source {
            recorded.written.insert(slot.clone(), value);
        }
    }

    /// Whether the answers come from this machine, now.
    pub fn is_live(&self) -> bool {
        matches!(self.source, Source::Live)
    }

    /// The name of the recording, read or made, or `None` on this machine.
    pub fn recording_name(&self) -> Option<String> {
        if let Some(recorder) = self.recorder() {
            return Some(recorder.snapshot.name.clone());
        }
        match &self.source {
            Source::Live => None,
            Source::Tree(root) => Some(root.display().to_string()),
            Source::Recorded(recorded) => Some(recorded.snapshot.name.clone()),
        }
    }

    /// Whether a second reading can be had: live always, recorded only if it was recorded.
    pub fn has_second_moment(&self) -> bool {
        match &self.source {
            Source::Live => true,
            Source::Tree(_) => false,
            Source::Recorded(recorded) => recorded.snapshot.moments.len() > 1,
        }
    }

    /// Asks about the second reading of a probe.
    pub fn at_second_moment<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.moment.store(1, Ordering::Relaxed);
        let answer = ask();
        self.moment.store(0, Ordering::Relaxed);
        answer
    }

    /// The text of a file.
    ///
    /// # Errors
    /// [`HostError`] with the path; bytes that are not UTF-8 are replaced, not refused.
    pub fn read(&self, path: &str) -> Result<String, HostError> {
        let real = self.real(path);
        self.answer(format!("read {path}"), |root| live::read(root, &real))
    }

    /// The text of a file without the white space around it.
    pub fn line(&self, path: &str) -> Result<String, HostError> {
        self.read(path).map(|text| text.trim().to_owned())
    }

    /// The number in a file: decimal, signed.
    pub fn number(&self, path: &str) -> Result<i64, HostError> {
        let text = self.line(path)?;
        text.parse().map_err(|_| HostError {
            what: path.to_owned(),
            trouble: Trouble::Other(format!("expected a number, found `{}`", clip(&text))),
        })
    }

    /// The CPUs in a file in the kernel's list format, as `0,2-5`.
    pub fn cpu_list(&self, path: &str) -> Result<CpuSet, HostError> {
        CpuSet::parse_list(&self.line(path)?).map_err(|e| HostError {
            what: path.to_owned(),
            trouble: Trouble::Other(e.to_string()),
        })
    }

    /// The CPUs in a file in the kernel's mask format, as `ff,ffffffff`.
    pub fn cpu_mask(&self, path: &str) -> Result<CpuSet, HostError> {
        CpuSet::parse_mask(&self.line(path)?).map_err(|e| HostError {
            what: path.to_owned(),
            trouble: Trouble::Other(e.to_string()),
        })
    }

    /// The names in a directory, sorted (numbers by value).
    pub fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        let real = self.real(path);
        self.answer(format!("list {path}"), |root| live::list(root, &real))
    }

    /// Where a symbolic link points.
    pub fn link(&self, path: &str) -> Result<String, HostError> {
        let real = self.real(path);
        self.answer(format!("link {path}"), |root| live::link(root, &real))
    }

    /// Whether a path is there.
    pub fn exists(&self, path: &str) -> bool {
        let real = self.real(path);
        self.answer(format!("exists {path}"), |root| live::exists(root, &real)).unwrap_or(false)
    }

    /// The one way every question takes: look up, or ask the kernel; keep if recording.
    fn answer<T: Serialize + DeserializeOwned>(
        &self,
        key: String,
        ask: impl FnOnce(&Path) -> Result<T, Trouble>,
    ) -> Result<T, HostError> {
        let moment = self.moment.load(Ordering::Relaxed);
        let failed = |trouble| {
            let what = key.strip_prefix("read ").unwrap_or(&key).to_owned();
            HostError { what, trouble }
        };
        let real = self.real(&key);
        let ask = || match &self.source {
            Source::Live => ask(Path::new("/")),
            Source::Tree(root) => ask(root),
            Source::Recorded(recorded) => recorded.snapshot.look_up(moment, &real),
        };
        let Some(mut recorder) = self.recorder() else { return ask().map_err(failed) };
        let Recorder { snapshot, interfaces } = &mut *recorder;
        // A question asked twice gets the answer that was kept: judged and recorded are the same.
        let kept = snapshot.keep(moment, &key, || {
            snapshot::encode(ask().and_then(|value| {
                let mut value =
                    serde_json::to_value(value).map_err(|e| Trouble::Other(e.to_string()))?;
                interfaces.scrub_value(&mut value);
                Ok(value)
            }))
        });
        snapshot::decode(&kept).map_err(failed)
    }

    fn recorder(&self) -> Option<MutexGuard<'_, Recorder>> {
        let recorder = self.recorder.as_ref()?.lock();
        Some(recorder.unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// A key or a path as the host itself names things, where recording has renamed them.
    fn real<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.recorder() {
            Some(recorder) => Cow::Owned(recorder.interfaces.real(text)),
            None => Cow::Borrowed(text),
        }
    }

    fn of(source: Source) -> Self {
        Self {
            source,
            moment: AtomicUsize::new(0),
            recorder: None,
            config: kernel::ConfigCache::default(),
        }
    }

    /// Whether queries beyond files can be answered at all.
    fn is_tree(&self) -> bool {
        matches!(self.source, Source::Tree(_))
    }
}

/// A text short enough for an error message.
fn clip(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

type Moment = BTreeMap<String, Value>;
