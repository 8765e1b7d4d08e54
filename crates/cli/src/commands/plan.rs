//! `quietcore plan`: what a profile would change.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use quietcore_console::{Exit, Output, Place, Stopwatch};
use quietcore_facts::Facts;
use quietcore_host::export;
use quietcore_host::plan::plan;
use quietcore_measure::Section;
use quietcore_sys::Host;

use super::tuning::Choice;

/// Show what a profile would change on this host, and why: before, after, price, risk
///
/// Reads only; `apply` with the same arguments writes what is shown and nothing else. Exits with 1
/// if anything would change, 0 if the host is as the profile wants it.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore plan                                      the profile low-latency
    quietcore plan --profile trading --cpus 2-5         CPUs of their own
    quietcore plan --profile ./own.toml --set swappiness=1 --set governor=untouched
    quietcore plan --root host.json --profile trading   a recorded host, on any machine
    quietcore plan --as sh -o tune.sh                   then read it, `sh tune.sh apply`, `sh tune.sh undo`
    quietcore plan --as ansible -o tune.yml             for a fleet that has quietcore")]
pub struct Plan {
    #[command(flatten)]
    choice: Choice,

    /// Plan for a recorded host
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,

    /// Write it as something else to run; ends with 0 whether anything would change or not
    #[arg(long = "as", value_name = "FORM", conflicts_with = "format")]
    form: Option<Form>,

    #[command(flatten)]
    output: Output,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Form {
    /// A shell script for this host, with its undo: to read, and to run without quietcore
    Sh,
    /// An Ansible playbook that runs quietcore on a fleet
    Ansible,
}

impl Plan {
    pub fn run(self) -> anyhow::Result<Exit> {
        if let Some(form) = self.form {
            return self.export(form);
        }
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let profile = self.choice.profile()?;
        let facts = self.facts()?;
        let chosen = self.choice.cores(&facts, &profile)?;
        let plan = plan(&facts, &profile, &chosen.cores, self.choice.reach());
        let mut run = watch.stop(facts.summary());
        if profile.isolates {
            run.sections.push(Section::Table(chosen.table()));
        }
        run.sections.extend(plan.tables().into_iter().map(Section::Table));
        sink.write(&run)?;
        Ok(Exit::findings(!plan.is_empty()))
    }

    fn facts(&self) -> anyhow::Result<Facts> {
        Ok(Facts::of(match &self.root {
            Some(path) => Host::from_path(path)?,
            None => Host::live(),
        }))
    }

    fn export(&self, form: Form) -> anyhow::Result<Exit> {
        let place = Place::open(self.output.file())?;
        let (profile, reach) = (self.choice.profile()?, self.choice.reach());
        let facts = self.facts()?;
        let cores = self.choice.cores(&facts, &profile)?.cores;
        let text = match form {
            Form::Sh => {
                let plan = plan(&facts, &profile, &cores, reach);
                let host = facts.summary();
                let cpus = match cores.isolated.is_empty() {
                    true => String::new(),
                    false => format!(", CPUs {}", cores.isolated),
                };
                let title = format!(
                    "Profile {}{cpus}: made by quietcore {} for {} and its kernel {}",
                    profile.name,
                    env!("CARGO_PKG_VERSION"),
                    host.name,
                    host.kernel
                );
                export::sh(&plan, &title)
            }
            Form::Ansible => {
                let cpus = self.choice.cpus().map(ToString::to_string);
                export::ansible(&export::Fleet { profile: &profile, cpus, reach })
            }
        };
        place.write(text.as_bytes())?;
        Ok(Exit::Clean)
    }
}
