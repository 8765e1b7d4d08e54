//! `quietcore rollback`: takes everything back.

use clap::Args;
use quietcore_console::{Exit, Output, Stopwatch};
use quietcore_facts::Facts;
use quietcore_host::tuning::{LEASE, rollback};
use quietcore_measure::Section;
use quietcore_sys::Host;
use quietcore_sys::lease::names;

use super::tuning::{State, all_back, need_root, taken_back};

/// Take back what was applied: every value that was there before
///
/// Works after a kill, a power cut or a reboot. What somebody else has set since is kept and named;
/// that, or a place that could not be put back, ends in exit code 1 (the latter stays in the
/// journal for another try). Needs root.
#[derive(Args, Debug)]
pub struct Rollback {
    /// What to take back, as `status` names it
    #[arg(default_value = LEASE, value_name = "NAME")]
    name: String,

    /// Everything that `status` names
    #[arg(long, conflicts_with = "name")]
    all: bool,

    #[command(flatten)]
    state: State,

    #[command(flatten)]
    output: Output,
}

impl Rollback {
    pub fn run(self) -> anyhow::Result<Exit> {
        need_root()?;
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let mut host = Host::live();
        let names = match self.all {
            true => names(&self.state.folder)?,
            false => vec![self.name.clone()],
        };
        let (mut well, mut sections) = (true, Vec::new());
        for name in &names {
            let Some(done) = rollback(&mut host, &self.state.folder, name)? else {
                self.output.say(format_args!("{name}: nothing is in force"));
                continue;
            };
            if !done.damaged.is_empty() {
                self.output.say(format_args!(
                    "{name}: lines {:?} of the journal were damaged; what they said is not known (a copy is kept as {name}.damaged)",
                    done.damaged
                ));
            }
            if !done.running.is_empty() {
                self.output.say("the running kernel keeps its boot line until the next reboot");
            }
            if let Some(menu) = &done.menu {
                self.output.say(&menu.what);
                well &= menu.done;
            }
            well &= all_back(&done.places) && done.damaged.is_empty();
            sections.push(Section::Table(taken_back(&done.places)));
        }
        let mut run = watch.stop(Facts::of(Host::live()).summary());
        run.sections = sections;
        sink.write(&run)?;
        Ok(Exit::findings(!well))
    }
}
