//! `quietcore status`: what is in force, and since when.

use clap::Args;
use quietcore_console::{Exit, Output, Stopwatch};
use quietcore_facts::Facts;
use quietcore_host::tuning::{Phase, tuning_of};
use quietcore_measure::{Cell, Nanos, Section, Table};
use quietcore_sys::Host;
use quietcore_sys::lease::{Standing, Term, is_over, look, names};

use super::tuning::{State, ago};

/// Say what is in force, since when, and what it waits for
///
/// Reads the journals only: `verify` reads the places.
#[derive(Args, Debug)]
pub struct Status {
    #[command(flatten)]
    state: State,

    #[command(flatten)]
    output: Output,
}

impl Status {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let host = Host::live();
        let columns = ["name", "what", "cpus", "since", "places", "state"];
        let mut table = Table::new("status", "What is in force", &columns);
        for name in names(&self.state.folder)? {
            let Some(standing) = look(&self.state.folder, &name, &host)? else { continue };
            table.rows.push(row(&name, &standing, &host));
        }
        if table.rows.is_empty() {
            self.output.say("nothing is in force");
        }
        let mut run = watch.stop(Facts::of(host).summary());
        run.sections.push(Section::Table(table));
        sink.write(&run)?;
        Ok(Exit::Clean)
    }
}

fn row(name: &str, standing: &Standing, host: &Host) -> Vec<Cell> {
    let tuning = tuning_of(&standing.about).ok().flatten();
    let what = tuning.as_ref().map_or("", |tuning| &tuning.profile.name);
    let cpus = tuning.as_ref().map_or(String::new(), |tuning| tuning.cpus.isolated.to_string());
    let phase = tuning.as_ref().map(|tuning| &tuning.phase);
    let cells = [
        name,
        what,
        &cpus,
        &ago(standing.at),
        &standing.entries.len().to_string(),
        &state(standing, phase, host),
    ];
    cells.map(|cell| Cell::Text(cell.to_owned())).to_vec()
}

fn state(standing: &Standing, phase: Option<&Phase>, host: &Host) -> String {
    if standing.other_machine {
        return "written on another machine".to_owned();
    }
    if !standing.damaged.is_empty() {
        return "journal damaged: rollback".to_owned();
    }
    let over = is_over(&standing.term, host);
    match (phase, &standing.term) {
        (_, Term::While { .. }) if over => "interrupted: rollback".to_owned(),
        (_, Term::Until { .. }) if over => "time is up: rollback".to_owned(),
        (Some(Phase::Trial { .. }), _) => "boot line on trial: reboot, verify, confirm".to_owned(),
        (_, Term::Until { nanos, .. }) => {
            let now = host.uptime().map_or(0, |now| now.0);
            format!("confirm within {}", Nanos(nanos.saturating_sub(now)))
        }
        (_, Term::While { pid, .. }) => format!("while process {pid} lives"),
        (_, Term::Kept) => "in force".to_owned(),
    }
}
