//! The record in the middle: everything measured becomes a [`Run`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Finding, Flame, Nanos, Spikes, Status};

/// The version of the record's shape. It grows when a field changes its meaning or goes away;
/// a reader refuses what is newer than itself.
pub const SCHEMA: u32 = 1;

/// One run of one command: what was measured, where, and how far it can be trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// Version of quietcore that wrote it.
    pub quietcore: String,
    /// The command line that made it.
    pub command: Vec<String>,
    /// Start, in milliseconds since 1970-01-01T00:00:00Z.
    pub started_unix_ms: u64,
    /// How long it took, in nanoseconds.
    pub took_ns: Nanos,
    /// The machine.
    pub host: HostSummary,
    /// How far the figures can be trusted.
    pub validity: Validity,
    /// What was measured.
    pub sections: Vec<Section>,
}

/// The machine a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostSummary {
    /// Host name, or the name of the recording.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Online CPUs in the kernel's list format.
    pub online: String,
    /// Hypervisor, or "none"; empty where it could not be told.
    pub hypervisor: String,
    /// Memory in bytes; 0 where it could not be read.
    pub memory_bytes: u64,
    /// Whether the host was audited from a recording.
    pub recorded: bool,
}

/// Whether a run's figures may be used.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing is known to have spoiled them.
    #[default]
    Valid,
    /// Something else than the subject of the measurement shaped the tail.
    Disturbed,
    /// Events were lost, or the run ended early.
    Incomplete,
}

/// What is known of a run's quality.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Validity {
    /// The worst of what is listed below.
    pub verdict: Verdict,
    /// What disturbed it or was missing, one line each.
    pub notes: Vec<String>,
    /// Events that were lost.
    pub lost_events: u64,
}

impl Validity {
    /// Notes something and lowers the verdict to at least `verdict`.
    pub fn note(&mut self, verdict: Verdict, note: impl Into<String>) {
        self.verdict = self.verdict.max(verdict);
        self.notes.push(note.into());
    }
}

/// A part of a run. A capability names its sections; new kinds are added with care.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Section {
    /// Rows and columns.
    Table(Table),
    /// What the checks found.
    Findings(Findings),
    /// A latency distribution, whole.
    Distribution(Distribution),
    /// Values over time.
    Timeline(Timeline),
    /// Two runs side by side.
    Comparison(Comparison),
    /// Spikes and what they were made of.
    Spikes(Spikes),
    /// Where time went by call stack.
    Flame(Flame),
}

impl Section {
    /// The section's name within its run.
    pub fn name(&self) -> &str {
        match self {
            Self::Table(s) => &s.name,
            Self::Findings(s) => &s.name,
            Self::Distribution(s) => &s.name,
            Self::Timeline(s) => &s.name,
            Self::Comparison(s) => &s.name,
            Self::Spikes(s) => &s.name,
            Self::Flame(s) => &s.name,
        }
    }
}

/// A cell of a table: a value, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Cell {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
    /// This host does not have it.
    Unsupported {
        /// What is missing.
        unsupported: String,
    },
    /// It could not be read.
    Failed {
        /// Why not.
        failed: String,
    },
    /// Nothing belongs here.
    Empty,
}

impl<T: Into<Cell>> From<crate::Reading<T>> for Cell {
    fn from(reading: crate::Reading<T>) -> Self {
        match reading {
            crate::Reading::Measured(value) => value.into(),
            crate::Reading::Unsupported(unsupported) => Self::Unsupported { unsupported },
            crate::Reading::Failed(failed) => Self::Failed { failed },
        }
    }
}

impl From<bool> for Cell {
    fn from(v: bool) -> Self {
        Self::Bool(v)
    }
}

impl From<f64> for Cell {
    fn from(v: f64) -> Self {
        Self::Number(v)
    }
}

impl From<i64> for Cell {
    fn from(v: i64) -> Self {
        Self::Int(v)
    }
}

impl From<u64> for Cell {
    fn from(v: u64) -> Self {
        i64::try_from(v).map_or(Self::Number(v as f64), Self::Int)
    }
}

impl From<usize> for Cell {
    fn from(v: usize) -> Self {
        (v as u64).into()
    }
}

impl From<&str> for Cell {
    fn from(v: &str) -> Self {
        Self::Text(v.to_owned())
    }
}

impl From<String> for Cell {
    fn from(v: String) -> Self {
        Self::Text(v)
    }
}

/// Rows and columns; a column's name carries its unit (`exit_latency_us`, `busy_pct`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// Name within the run, as `power_idle_states`.
    pub name: String,
    /// What the table shows, for people.
    pub title: String,
    /// Column names, units included.
    pub columns: Vec<String>,
    /// One list of cells per row, as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub fn new(name: &str, title: &str, columns: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            columns: columns.iter().map(|&c| c.to_owned()).collect(),
            rows: Vec::new(),
        }
    }
}

/// What the checks found, ranked: failures first, within a status by expected cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Findings {
    /// Name within the run, as `audit`.
    pub name: String,
    /// How many findings have each status.
    pub counts: BTreeMap<String, usize>,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Findings {
    /// Ranks and counts.
    pub fn new(name: &str, mut findings: Vec<Finding>) -> Self {
        findings.sort_by(|a, b| {
            a.status
                .cmp(&b.status)
                .then(b.impact.us.total_cmp(&a.impact.us))
                .then_with(|| a.id.cmp(&b.id))
        });
        let mut counts: BTreeMap<String, usize> =
            Status::ALL.iter().map(|s| (s.name().to_owned(), 0)).collect();
        for finding in &findings {
            *counts.entry(finding.status.name().to_owned()).or_default() += 1;
        }
        Self { name: name.to_owned(), counts, findings }
    }

    /// How many findings have this status.
    pub fn count(&self, status: Status) -> usize {
        self.findings.iter().filter(|f| f.status == status).count()
    }
}

/// A distribution with its percentiles and the whole histogram behind them.
///
/// A percentile that the number of samples cannot prove is `null` and named in `not_provable`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Name within the run, as `jitter_gap`.
    pub name: String,
    /// Unit of every value, as `ns`.
    pub unit: String,
    /// What tells this distribution from its siblings, as `cpu` = `2`.
    pub labels: BTreeMap<String, String>,
    /// Number of samples.
    pub count: u64,
    /// Smallest sample, exact.
    pub min: Option<u64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p99_9: Option<u64>,
    /// 99.99th percentile.
    pub p99_99: Option<u64>,
    /// Largest sample, exact.
    pub max: Option<u64>,
    /// Bounds between which each percentile lies with 95 % confidence.
    pub ci95: BTreeMap<String, [u64; 2]>,
    /// Percentiles left out for lack of samples, with the number that would be needed.
    pub not_provable: BTreeMap<String, u64>,
    /// The histogram: HdrHistogram V2, compressed, base64 (the payload of an interval log line).
    pub hist: String,
}

/// Values over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Name within the run, as `jitter_gaps`.
    pub name: String,
    /// What the values are, for people.
    pub title: String,
    /// Unit of the values, as `ns`.
    pub unit: String,
    /// Length of the time axis in nanoseconds.
    pub span_ns: u64,
    /// One series per labelled thing.
    pub series: Vec<Series>,
}

/// One line of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// What it shows, as `cpu` = `2`.
    pub labels: BTreeMap<String, String>,
    /// Time since the start in nanoseconds, and the value.
    pub points: Vec<(u64, f64)>,
    /// How many more points there were than are kept here.
    pub omitted: u64,
}

/// Two runs side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Name within the run, as `compare`.
    pub name: String,
    /// What A is.
    pub a: String,
    /// What B is.
    pub b: String,
    /// One row per thing compared.
    pub rows: Vec<ComparisonRow>,
}

/// One thing compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonRow {
    /// What is compared, as `jitter_gap{cpu=2} p99_9` or `audit irq.effective-affinity`.
    pub what: String,
    /// Its value in A.
    pub a: Cell,
    /// Its value in B.
    pub b: Cell,
    /// Change from A to B in percent, with its 95 % confidence interval where one can be given.
    pub change_pct: Option<f64>,
    /// Bounds of the change.
    pub ci95_pct: Option<[f64; 2]>,
    /// `better`, `worse`, `same`, `changed` or `not provable`.
    pub verdict: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cause, Impact, Reading};

    fn finding(id: &str, status: Status, us: f64) -> Finding {
        Finding {
            id: id.to_owned(),
            cause: Cause::Irq,
            status,
            title: String::new(),
            evidence: Vec::new(),
            impact: Impact { us, text: String::new(), origin: String::new() },
            fix: None,
            knob: None,
            waiver: None,
        }
    }

    #[test]
    fn findings_are_ranked_by_status_then_cost() {
        let ranked = Findings::new(
            "audit",
            vec![
                finding("p", Status::Pass, 900.0),
                finding("small", Status::Fail, 2.0),
                finding("large", Status::Fail, 50.0),
                finding("w", Status::Warn, 99.0),
            ],
        );
        let ids: Vec<_> = ranked.findings.iter().map(|f| f.id.as_str()).collect();
        assert_eq!(ids, ["large", "small", "w", "p"]);
        assert_eq!(ranked.counts["fail"], 2);
        assert_eq!(ranked.counts["unknown"], 0);
    }

    #[test]
    fn cells_keep_apart_zero_and_not_measured() {
        let cells: Vec<Cell> = vec![
            0u64.into(),
            0.5.into(),
            true.into(),
            "x".into(),
            Cell::from(Reading::<u64>::Unsupported("no PMU".into())),
            Cell::Empty,
        ];
        let json = serde_json::to_string(&cells).unwrap();
        assert_eq!(json, r#"[0,0.5,true,"x",{"unsupported":"no PMU"},null]"#);
        assert_eq!(serde_json::from_str::<Vec<Cell>>(&json).unwrap(), cells);
    }
}
