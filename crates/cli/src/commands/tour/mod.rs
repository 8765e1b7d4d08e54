//! `quietcore tour`: the main job in one go.

mod parts;
mod taxonomy;

use std::path::PathBuf;
use std::process::Output as Said;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use quietcore_bpf::BpfError;
use quietcore_console::{
    Exit, Output, Progress, Stopwatch, check_online, cpus, duration, interrupted,
};
use quietcore_facts::Facts;
use quietcore_facts::power::PowerReading;
use quietcore_host::knobs::Cores;
use quietcore_host::plan::{Reach, plan};
use quietcore_host::profile::Profile;
use quietcore_host::{Audit, Scope, Waivers, audit, power};
use quietcore_measure::{CpuSet, Nanos, Run, Section, Status, Table, Verdict};
use quietcore_report::Format;
use quietcore_spike::{Jitter, JitterSettings, SpikeError, Wake, WakeSettings};
use quietcore_sys::Host;

use super::audit::{today, watch_counters};
use super::feed;
use super::jitter::explain;
use parts::Parts;

/// Time between two timed wake-ups.
const PERIOD: Nanos = Nanos::from_ms(1);

/// Look at this host in one go: audit, idle states, jitter; one HTML report
///
/// Audits the host, watches its counters for two seconds, then measures two CPUs: every gap of a
/// spinning thread and what it was made of (BPF), and how late timed wake-ups come; has the
/// market-data engine follow a made-up market, where it is installed; shows what `apply` would
/// change. Changes nothing. Writes an HTML page and the JSON it was made from; prints
/// a summary. Root sees more.
#[derive(Args, Debug)]
pub struct Tour {
    /// The CPUs to measure [default: two of those meant for latency, else the last two]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,

    /// How long each part measures
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    duration: Nanos,

    /// Where the page is written
    #[arg(long, value_name = "FILE", default_value = "quietcore-report.html")]
    html: PathBuf,

    /// Where the measurements are written
    #[arg(long, value_name = "FILE", default_value = "run.json")]
    json: PathBuf,

    /// Say nothing but the summary
    #[arg(short, long)]
    quiet: bool,

    /// Show more in the summary: checks that passed, every row of long tables
    #[arg(short, long)]
    verbose: bool,
}

impl Tour {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        if self.html == self.json {
            bail!("--html and --json both name {}: give each its own file", self.html.display());
        }
        let to = |format, file: Option<&PathBuf>| Output {
            format: Some(format),
            output: file.cloned(),
            quiet: self.quiet,
            verbose: self.verbose,
        };
        let text = to(Format::Text, None);
        let (page, data) = (to(Format::Html, Some(&self.html)), to(Format::Json, Some(&self.json)));
        let (page_sink, data_sink) = (page.open()?, data.open()?);

        let mut facts = Facts::of(Host::live());
        if let Some(cpus) = &self.cpus {
            check_online(cpus, &facts.cpus().online).map_err(|why| anyhow!(why))?;
        }
        let scope = Scope::of(&facts, None, None);
        let cpus = self.cpus.clone().unwrap_or_else(|| choose(&facts.cpus().online, &scope.cpus));

        text.say("audit: reading the host and watching its counters");
        let online = facts.cpus().online.clone();
        let before = PowerReading::take(&facts, &online);
        let cut_short = watch_counters(&mut facts, Nanos::from_secs(2), &text);
        let after = PowerReading::take(&facts, &online);
        let findings = audit(&facts, &Audit { scope, waivers: Waivers::default(), today: today() });

        let mut parts = Parts::default();
        if cut_short {
            parts.note("audit", "watching the counters was interrupted");
        }
        for cpus in turns(&cpus, &online) {
            text.say(format_args!("jitter: spinning on CPUs {cpus}"));
            parts.jitter(self.jitter(&facts, &cpus, &text));
            text.say(format_args!("wake-ups: every {PERIOD} on CPUs {cpus}"));
            parts.wake(self.wake(&facts, &cpus, &text));
        }

        text.say("feed: a made-up market, every message timed from the socket to the order book");
        parts.feed(self.feed());

        let mut run = watch.stop(facts.summary());
        let mut tables = power::tables(&facts, &before, &after);
        tables.extend(would_change(&facts)?);
        run.sections = parts.sections(findings, tables);
        run.validity = parts.validity;
        let failed = run.sections.iter().any(|section| match section {
            Section::Findings(findings) => findings.count(Status::Fail) > 0,
            _ => false,
        });
        data_sink.write(&run)?;
        page_sink.write(&run)?;
        text.open()?.write(&run)?;
        text.say(format_args!(
            "\nthe report: {}   the measurements: {}",
            self.html.display(),
            self.json.display()
        ));
        Ok(Exit::findings(failed))
    }

    /// The gaps, and what they were made of where BPF is possible.
    fn jitter(
        &self,
        facts: &Facts,
        cpus: &CpuSet,
        output: &Output,
    ) -> anyhow::Result<(Jitter, Vec<Section>)> {
        let settings = JitterSettings::new(cpus.clone(), self.duration);
        let bar = Progress::time(output, "jitter", self.duration);
        let progress = |elapsed: Nanos| bar.set(elapsed.0);
        let (host, stop) = (facts.host(), interrupted());
        match explain(&settings, host, stop, progress) {
            Err(error) if error.is::<BpfError>() => {
                let mut jitter = Jitter::run(&settings, host, stop, progress)?;
                let note = format!("what the gaps were made of is not known: {error:#}");
                jitter.validity.note(Verdict::Valid, note);
                Ok((jitter, Vec::new()))
            }
            result => result,
        }
    }

    /// A market that quietcore-feed makes up and follows: the engine's stages on this host.
    fn feed(&self) -> anyhow::Result<Run> {
        let mut program = feed::program()?;
        let seconds = format!("{}ns", self.duration.0);
        program.args(["run", "--demo", "--quiet", "--format", "json", "--duration", &seconds]);
        let said = program.output().map_err(|error| feed::not_run(&program, error))?;
        read_feed(&said)
    }

    fn wake(&self, facts: &Facts, cpus: &CpuSet, output: &Output) -> Result<Wake, SpikeError> {
        let settings = WakeSettings {
            cpus: cpus.clone(),
            duration: self.duration,
            period: PERIOD,
            fifo: None,
        };
        let bar = Progress::time(output, "wake-ups", self.duration);
        Wake::run(&settings, facts.host(), interrupted(), |elapsed| bar.set(elapsed.0))
    }
}

/// What the market-data engine says of itself.
fn read_feed(said: &Said) -> anyhow::Result<Run> {
    serde_json::from_slice(&said.stdout).with_context(|| {
        let words = String::from_utf8_lossy(&said.stderr);
        words.lines().last().unwrap_or("it said nothing").to_owned()
    })
}

/// What `plan` shows for the profile that every host can take.
fn would_change(facts: &Facts) -> anyhow::Result<Option<Table>> {
    let profile = Profile::load("low-latency")?;
    let housekeeping = facts.cpus().online.clone();
    let cores = Cores { isolated: CpuSet::new(), housekeeping };
    let mut tables = plan(facts, &profile, &cores, Reach::Whole).tables().into_iter();
    Ok(tables.find(|table| table.name == "plan").map(|table| {
        let title = "What `quietcore apply` would change (its profile low-latency)";
        Table { title: title.to_owned(), ..table }
    }))
}

/// Two of the CPUs meant for latency, else the last two: CPU 0 has the most to do besides.
fn choose(online: &CpuSet, latency: &CpuSet) -> CpuSet {
    let from = if latency.is_empty() { online } else { latency };
    let all: Vec<usize> = from.iter().collect();
    all.iter().rev().take(2).copied().collect()
}

/// All at a time if that leaves a CPU for the rest of the host (this program's own thread among
/// it), else one after the other.
fn turns(cpus: &CpuSet, online: &CpuSet) -> Vec<CpuSet> {
    match online.is_subset(cpus) {
        false => vec![cpus.clone()],
        true => cpus.iter().map(|cpu| CpuSet::from_iter([cpu])).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cpus_are_measured_latency_cpus_first() {
        let of = |list: &str| CpuSet::parse_list(list).unwrap();
        assert_eq!(choose(&of("0-7"), &of("")), of("6-7"));
        assert_eq!(choose(&of("0-7"), &of("2-5")), of("4-5"));
    }

    #[test]
    fn cpus_take_turns_where_none_would_be_left_to_others() {
        let of = |list: &str| CpuSet::parse_list(list).unwrap();
        assert_eq!(turns(&of("2-3"), &of("0-3")), [of("2-3")]);
        assert_eq!(turns(&of("0-1"), &of("0-1")), [of("0"), of("1")]);
        assert_eq!(turns(&of("0"), &of("0")), [of("0")]);
    }
}
