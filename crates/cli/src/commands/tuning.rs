//! What `plan`, `apply` and their kin share: which profile, which CPUs, which journal.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use clap::Args;
use quietcore_console::{NotPossible, check_online, cpus};
use quietcore_facts::Facts;
use quietcore_host::knobs::Cores;
use quietcore_host::plan::Reach;
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

    /// The CPUs asked for, or those that are isolated already.
    pub fn cores(&self, facts: &Facts) -> anyhow::Result<Cores> {
        let online = &facts.cpus().online;
        let isolated = match &self.cpus {
            Some(cpus) => cpus.clone(),
            None => facts.cpus().isolated.value().cloned().unwrap_or_default(),
        };
        check_online(&isolated, online).map_err(|why| anyhow::anyhow!(why))?;
        let housekeeping = online.minus(&isolated);
        if housekeeping.is_empty() {
            bail!("--cpus {isolated}: no CPU is left for everything else");
        }
        if isolated.contains(0) && !self.force {
            bail!(
                "--cpus {isolated}: CPU 0 keeps the time and takes what cannot move; --force isolates it all the same"
            );
        }
        Ok(Cores { isolated, housekeeping })
    }
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
    let columns = ["outcome", "place", "value"];
    let mut table = Table::new("rollback", "What was taken back", &columns);
    for place in places {
        let (outcome, value) = match &place.outcome {
            Outcome::Restored => ("restored", place.before.to_string()),
            Outcome::Already => ("was back", place.before.to_string()),
            Outcome::Rebooted => ("rebooted", "the reboot has reset it".to_owned()),
            Outcome::Gone => ("gone", "there is no such thing any more".to_owned()),
            Outcome::Kept { now, ours } => (
                "KEPT",
                format!(
                    "{now}: somebody else has set it since (ours was {ours}, before {})",
                    place.before
                ),
            ),
            Outcome::Failed(why) => ("FAILED", why.clone()),
        };
        let cells = [outcome, &place.slot.to_string(), &value];
        table.rows.push(cells.map(|cell| Cell::Text(cell.to_owned())).to_vec());
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
