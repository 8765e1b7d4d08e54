//! `quietcore apply`: changes the host, and can take every change back.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use anyhow::bail;
use clap::Args;
use quietcore_console::{Exit, Output, Stopwatch, duration};
use quietcore_facts::Facts;
use quietcore_host::knobs::State as Item;
use quietcore_host::places::fold;
use quietcore_host::tuning::{self, Applied, AtBoot, LEASE, Order, Phase, apply, at_boot};
use quietcore_measure::{Nanos, Section, Table};
use quietcore_sys::Host;
use quietcore_sys::lease::{self, STATE};

use super::tuning::{Choice, State, need_root, taken_back};

/// Change this host as a profile says; every change can be taken back
///
/// What every place held is on the disk before the first is written (`--state`), and each write is
/// read back. A refusal takes back what was done before it. `rollback` restores every value, after
/// a kill, a power cut or a reboot, too; what somebody else has set since is kept. Needs root
/// (CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_SYS_NICE). A new boot line is booted once; `confirm` it
/// after a boot that verifies, or the old line boots the next time.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore apply --profile trading --cpus 2-5        then reboot, verify, confirm
    quietcore apply --runtime-only                      nothing outlasts a reboot
    quietcore apply --confirm-within 10m                taken back unless confirmed: for remote hosts")]
pub struct Apply {
    #[command(flatten)]
    choice: Choice,

    /// Take it back unless it is confirmed within this time
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    confirm_within: Option<Nanos>,

    /// Go on after a boot with what is in force: what the service does
    #[arg(long, hide = true)]
    at_boot: bool,

    #[command(flatten)]
    state: State,

    #[command(flatten)]
    output: Output,
}

impl Apply {
    pub fn run(self) -> anyhow::Result<Exit> {
        need_root()?;
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let facts = Facts::of(Host::live());
        let summary = facts.summary();
        let folder = &self.state.folder;
        if self.at_boot {
            let done = at_boot(facts, folder, || guardian(folder))?;
            let well = done.is_well();
            let mut run = watch.stop(summary);
            run.sections.extend(self.sections(&done));
            sink.write(&run)?;
            return Ok(Exit::findings(!well));
        }
        let mut profile = self.choice.profile()?;
        // The service has to find this journal.
        if profile.knobs.contains_key("at-boot") && folder != Path::new(STATE) {
            profile.set(&format!("at-boot={}", std::path::absolute(folder)?.display()))?;
        }
        let chosen = self.choice.cores(&facts, &profile)?;
        if chosen.is_proposal {
            let cpus = &chosen.cores.isolated;
            bail!(
                "{} sets CPUs apart: name them. `quietcore plan --profile {}` proposes --cpus {cpus} and says why",
                profile.name,
                profile.name
            );
        }
        let order = Order {
            profile,
            cpus: chosen.cores,
            reach: self.choice.reach(),
            confirm_within: self.confirm_within.map(|within| within.0),
        };
        let (_, applied) = apply(facts, folder, &order, || guardian(folder))?;
        let mut run = watch.stop(summary);
        run.sections.extend(sections(&applied));
        sink.write(&run)?;
        applied.menu.iter().for_each(|menu| self.output.say(&menu.what));
        self.output.say(next_step(&applied, order.confirm_within.map(Nanos)));
        Ok(Exit::Clean)
    }

    fn sections(&self, done: &AtBoot) -> Vec<Section> {
        match done {
            AtBoot::Nothing => {
                self.output.say("nothing is in force");
                Vec::new()
            }
            AtBoot::Applied(applied) => sections(applied),
            AtBoot::TakenBack { why, done } => {
                self.output.say(format_args!("taken back: {why}"));
                done.menu.iter().for_each(|menu| self.output.say(&menu.what));
                vec![Section::Table(taken_back(&done.places))]
            }
        }
    }
}

/// Starts the process that takes an unconfirmed change back.
fn guardian(folder: &Path) -> io::Result<()> {
    let program = std::env::current_exe()?;
    let folder = folder.canonicalize()?;
    let args = [OsStr::new("guardian"), OsStr::new("--state"), folder.as_os_str()];
    let unit = format!("quietcore-guardian-{}", std::process::id());
    lease::spawn(&unit, &program, &args)
}

fn sections(applied: &Applied) -> Vec<Section> {
    let columns = ["knob", "place", "places", "before", "now"];
    let mut table = Table::new("apply", "What was changed", &columns);
    let rows = applied.plan.items().filter_map(|(knob, item)| {
        let Item::Change(before) = &item.state else { return None };
        let now = match applied.made.iter().find(|made| made.slot == item.slot)?.refused.as_ref() {
            Some(why) => format!("refused: {why}"),
            None => item.after.to_string(),
        };
        Some(((knob.id, before.clone(), now), item.slot.to_string()))
    });
    for row in fold(rows) {
        let (knob, before, now) = &row.key;
        table.rows.push(vec![
            (*knob).into(),
            row.to_string().into(),
            row.places.into(),
            before.to_string().into(),
            now.as_str().into(),
        ]);
    }
    let mut sections = vec![Section::Table(table)];
    if !applied.taken_back.is_empty() {
        sections.push(Section::Table(taken_back(&applied.taken_back)));
    }
    sections
}

fn next_step(applied: &Applied, within: Option<Nanos>) -> String {
    let within =
        within.map_or(String::new(), |time| format!(" within {time}, else it is taken back"));
    match &applied.phase {
        Phase::Trial { .. } => format!(
            "the new boot line boots once: reboot, then `quietcore verify` and `quietcore confirm`{within}"
        ),
        Phase::Unconfirmed => format!("`quietcore confirm`{within}"),
        Phase::Kept | Phase::Changing => {
            "`quietcore verify` shows what holds, `quietcore rollback` takes it back".to_owned()
        }
    }
}

/// The guardian: waits until the term is over, then takes the lease back.
#[derive(Args, Debug)]
pub struct Guardian {
    #[command(flatten)]
    state: State,

    /// The lease to watch
    #[arg(long, default_value = LEASE)]
    lease: String,
}

impl Guardian {
    pub fn run(self) -> anyhow::Result<Exit> {
        loop {
            if lease::wait(&self.state.folder, &self.lease, &Host::live())? == lease::Over::Never {
                return Ok(Exit::Clean);
            }
            match tuning::expire(&self.state.folder, &self.lease) {
                // Whoever holds it may be confirming it at this moment.
                Err(tuning::TuneError::Lease(lease::LeaseError::Locked { .. })) => {
                    std::thread::sleep(std::time::Duration::from_millis(200));
                }
                done => return done.map(|()| Exit::Clean).map_err(Into::into),
            }
        }
    }
}
