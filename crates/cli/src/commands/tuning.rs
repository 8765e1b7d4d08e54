//! What `plan`, `apply` and their kin share: which profile, which CPUs, which journal.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use quietcore_console::{NotPossible, cpus};
use quietcore_facts::Facts;
use quietcore_host::knobs::Cores;
use quietcore_host::places::fold;
use quietcore_host::plan::Reach;
use quietcore_host::planner::{self, Reason, Refusal, Wish};
use quietcore_host::profile::Profile;
use quietcore_measure::{Cell, CpuSet, Table};
use quietcore_sys::lease::{Outcome, STATE, TakenBack};

/// The folder that outlives a reboot.
#[derive(Args, Debug, Clone)]
pub struct State {
    /// Where the journal is kept: a folder on a disk, for it must outlive a reboot
    #[arg(long = "state", value_name = "DIR", default_value = STATE)]
    pub folder: PathBuf,
}

/// What is to be applied.
#[derive(Args, Debug, Clone)]
pub struct Choice {
    /// The CPUs to keep for latency [default: those that are isolated, or a proposal]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,

    /// Propose so many cores, where no CPUs are named
    #[arg(long, value_name = "CORES", conflicts_with = "cpus")]
    isolate: Option<usize>,

    /// Propose CPUs near this network interface [default: that of the default route]
    #[arg(long, value_name = "INTERFACE", conflicts_with = "cpus")]
    near: Option<String>,

    /// A shipped profile (low-latency, trading) or a file, as ./own.toml
    #[arg(long, value_name = "NAME|FILE", default_value = "low-latency")]
    profile: String,

    /// Give a knob another value, or leave it alone with KNOB=untouched; may be repeated
    #[arg(long = "set", value_name = "KNOB=VALUE")]
    overrides: Vec<String>,

    /// Leave out the boot line and the service that tunes at boot: nothing outlasts a reboot
    #[arg(long)]
    runtime_only: bool,

    /// Accept CPUs that are refused otherwise (CPU 0)
    #[arg(long)]
    force: bool,
}

impl Choice {
    pub fn profile(&self) -> anyhow::Result<Profile> {
        let mut profile = Profile::load(&self.profile)?;
        for assignment in &self.overrides {
            profile.set(assignment)?;
        }
        Ok(profile)
    }

    pub fn reach(&self) -> Reach {
        if self.runtime_only { Reach::Runtime } else { Reach::Whole }
    }

    /// The CPUs asked for.
    pub fn cpus(&self) -> Option<&CpuSet> {
        self.cpus.as_ref()
    }

    /// The CPUs asked for; for a profile that sets none apart, none; else those that are isolated
    /// already, or a proposal.
    pub fn cores(&self, facts: &Facts, profile: &Profile) -> anyhow::Result<Chosen> {
        let isolated = match &self.cpus {
            Some(cpus) => cpus.clone(),
            None if !profile.isolates => CpuSet::new(),
            None => match facts.cpus().isolated.value() {
                Some(isolated) if !isolated.is_empty() && !self.asks() => isolated.clone(),
                _ => return self.proposed(facts),
            },
        };
        let why = match isolated.is_empty() {
            true => Vec::new(),
            false => planner::examine(facts, &isolated, self.force).map_err(refused)?,
        };
        let housekeeping = facts.cpus().online.minus(&isolated);
        Ok(Chosen { cores: Cores { isolated, housekeeping }, why, is_proposal: false })
    }

    /// Whether a proposal is asked for.
    fn asks(&self) -> bool {
        self.isolate.is_some() || self.near.is_some()
    }

    fn proposed(&self, facts: &Facts) -> anyhow::Result<Chosen> {
        let wish = Wish { isolate: self.isolate, near: self.near.clone(), force: self.force };
        let split = planner::propose(facts, &wish)?;
        let cores = Cores { isolated: split.isolated, housekeeping: split.housekeeping };
        Ok(Chosen { cores, why: split.why, is_proposal: true })
    }
}

/// The CPUs, and why those.
pub struct Chosen {
    pub cores: Cores,
    pub why: Vec<Reason>,
    /// Whether nobody has named them.
    pub is_proposal: bool,
}

impl Chosen {
    pub fn table(&self) -> Table {
        let title = match self.is_proposal {
            true => "CPUs, as proposed (name them with --cpus)",
            false => "CPUs",
        };
        let mut table = Table::new("plan_cpus", title, &["cpus", "for", "why"]);
        let mut row = |cells: [&str; 3]| {
            table.rows.push(cells.map(|cell| Cell::Text(cell.to_owned())).to_vec());
        };
        row([&self.cores.isolated.to_string(), "latency", ""]);
        row([&self.cores.housekeeping.to_string(), "everything else", ""]);
        for reason in &self.why {
            row(["", if reason.is_warning { "mind" } else { "" }, &reason.text]);
        }
        table
    }
}

fn refused(refusals: Vec<Refusal>) -> anyhow::Error {
    let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    anyhow::anyhow!(lines.join("\n           "))
}

/// Changing a host takes root.
pub fn need_root() -> anyhow::Result<()> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(NotPossible::new("changing the host takes root: run it with sudo (plan, verify and status do not need it)").into()),
    }
}

/// What became of every place that was taken back.
pub fn taken_back(places: &[TakenBack]) -> Table {
    let columns = ["outcome", "place", "places", "value"];
    let mut table = Table::new("rollback", "What was taken back", &columns);
    let row =
        |place: &TakenBack| ((place.outcome.clone(), place.before.clone()), place.slot.to_string());
    // In the order in which they were changed: it is the one that people know from the plan.
    for row in fold(places.iter().rev().map(row)) {
        let (outcome, before) = &row.key;
        let (outcome, value) = match outcome {
            Outcome::Restored => ("restored", before.to_string()),
            Outcome::Already => ("was back", before.to_string()),
            Outcome::Rebooted => ("rebooted", "the reboot has reset it".to_owned()),
            Outcome::Gone => ("gone", "there is no such thing any more".to_owned()),
            Outcome::Kept { now, ours } => (
                "KEPT",
                format!("{now}: somebody else has set it since (ours was {ours}, before {before})"),
            ),
            Outcome::Failed(why) => ("FAILED", why.clone()),
        };
        table.rows.push(vec![
            outcome.into(),
            row.to_string().into(),
            row.places.into(),
            value.into(),
        ]);
    }
    table
}

/// Whether everything went as it should.
pub fn all_back(places: &[TakenBack]) -> bool {
    !places.iter().any(|p| matches!(p.outcome, Outcome::Kept { .. } | Outcome::Failed(_)))
}

/// `3 min ago`, for a moment in seconds since 1970.
pub fn ago(at: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let seconds = now.saturating_sub(at);
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}
