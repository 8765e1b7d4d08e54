//! `quietcore place`: the threads of a running process, each onto its own CPU.

use std::io::ErrorKind;

use anyhow::{anyhow, bail};
use clap::{ArgGroup, Args};
use quietcore_console::{Exit, NotPossible, Output, Stopwatch};
use quietcore_facts::{Cgroups, Facts};
use quietcore_host::placement::{
    Caution, Ground, Map, Moved, PlaceError, Placement, State as Outcome, assign, cautions,
    lease_of, place,
};
use quietcore_host::profile::Profile;
use quietcore_measure::{Cell, Section, Table};
use quietcore_sys::Host;
use quietcore_sys::host::Trouble;
use quietcore_sys::lease::LeaseError;

use super::tuning::State;

/// Put the threads of a running process onto CPUs, by name
///
/// A thread is meant by its name (the kernel keeps 15 bytes of it), by the beginning of it where
/// only one thread begins so, as `main` (the one that the process began with) or as `tid:NUMBER`;
/// `*` means all others. Every thread gets its own CPU unless --share says otherwise. All that are
/// named are placed, or none. The CPUs from before are in the journal: `quietcore rollback
/// place-PID` gives them back. Threads that start later are not caught: they take the CPUs of the
/// thread that starts them. For a process that is yet to be started: `quietcore exec`.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("what").args(["map", "profile"]).required(true).multiple(true)),
    after_help = "\
PRIVILEGES:
    Threads of another user take CAP_SYS_NICE; the journal's default folder takes root

EXAMPLES:
    quietcore place --pid 4711 --map btc=4,eth=5,encoder=7
    quietcore place --pid 4711 --map 'main=2,tid:4718=3,*=0-1'
    quietcore place --pid 4711 --profile ./trading.toml     its [placement]: btc = 4"
)]
pub struct Place {
    /// The process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: u32,

    /// Threads and their CPUs; an entry overrides the profile's
    #[arg(long, value_name = "NAME=CPUS,…")]
    map: Option<Map>,

    /// Take the [placement] of a profile
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,

    /// Let several threads be on one CPU
    #[arg(long)]
    share: bool,

    #[command(flatten)]
    state: State,

    #[command(flatten)]
    output: Output,
}

impl Place {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let map = self.map()?;
        let facts = Facts::of(Host::live());
        let placements = self.placements(&facts, &map)?;
        let cautions = cautions(&facts, &placements);
        let summary = facts.summary();
        let mut host = facts.into_host();
        let moved = place(&mut host, &self.state.folder, self.pid, &map, &placements)
            .map_err(not_possible)?;
        let mut run = watch.stop(summary);
        run.sections.push(Section::Table(placed(&moved)));
        if !cautions.is_empty() {
            run.sections.push(Section::Table(warned(&cautions)));
        }
        sink.write(&run)?;
        self.output.say(format_args!(
            "threads that start from now on take the CPUs of the one that starts them; `quietcore \
             rollback {}` takes it back",
            lease_of(self.pid)
        ));
        Ok(Exit::findings(moved.iter().any(is_astray)))
    }

    fn map(&self) -> anyhow::Result<Map> {
        let mut map = match &self.profile {
            Some(name) => Profile::load(name)?.placement,
            None => Map::default(),
        };
        map.extend(self.map.clone().unwrap_or_default());
        match (map.is_empty(), &self.profile) {
            (true, Some(name)) => bail!("{name}: the profile has no [placement]: add btc = 4"),
            _ => Ok(map),
        }
    }

    fn placements(&self, facts: &Facts, map: &Map) -> anyhow::Result<Vec<Placement>> {
        let pid = self.pid;
        let threads = facts.host().threads(pid).map_err(|error| match error.trouble {
            Trouble::Missing => anyhow!("--pid {pid}: there is no such process"),
            _ => error.into(),
        })?;
        let online = &facts.cpus().online;
        let member = Cgroups::membership(facts, Some(pid));
        let cpuset = member.and_then(|member| facts.cgroups().cpus_of(facts, &member));
        let cpuset = cpuset.value().cloned();
        let ground = Ground { pid, threads: &threads, online, cpuset };
        assign(map, &ground, self.share).map_err(|refusals| {
            let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            anyhow!(lines.join("; "))
        })
    }
}

/// Before and after, per thread.
fn placed(moved: &[Moved]) -> Table {
    let columns = ["thread", "meant by", "before", "wanted", "state"];
    let mut table = Table::new("placement", "Where the threads are", &columns);
    for Moved { placement: Placement { task, cpus, who }, state } in moved {
        let state = match state {
            Outcome::Placed => "placed".to_owned(),
            Outcome::Already => "was there".to_owned(),
            Outcome::Ended => "has ended".to_owned(),
            Outcome::Elsewhere(now) => format!("ON {now}: somebody else has moved it"),
            Outcome::Refused(why) => format!("REFUSED: {why}"),
        };
        let cells =
            [task.label(), who.to_string(), task.affinity.to_string(), cpus.to_string(), state];
        table.rows.push(cells.map(Cell::Text).to_vec());
    }
    table
}

fn is_astray(moved: &Moved) -> bool {
    matches!(moved.state, Outcome::Elsewhere(_) | Outcome::Refused(_))
}

fn warned(cautions: &[Caution]) -> Table {
    let columns = ["thread", "warning", "source", "value"];
    let mut table = Table::new("cautions", "What may disturb them there", &columns);
    for Caution { thread, text, evidence } in cautions {
        let cells = [thread, text, &evidence.source, &evidence.value];
        table.rows.push(cells.map(|cell| Cell::Text(cell.clone())).to_vec());
    }
    table
}

/// A folder of root's is no error of the command line.
fn not_possible(error: PlaceError) -> anyhow::Error {
    match &error {
        PlaceError::Lease(LeaseError::State { source, .. })
            if source.kind() == ErrorKind::PermissionDenied =>
        {
            NotPossible::new(format!(
                "{error}: run it with sudo, or keep the journal in --state DIR"
            ))
            .into()
        }
        _ => error.into(),
    }
}
