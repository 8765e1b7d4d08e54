//! `quietcore tour`: the main job in one go.

mod taxonomy;

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::Args;
use quietcore_console::{
    Exit, Output, Progress, Stopwatch, check_online, cpus, duration, interrupted,
};
use quietcore_facts::Facts;
use quietcore_host::{Audit, Scope, Waivers, audit};
use quietcore_measure::{CpuSet, Findings, Nanos, Section, Status, Validity, Verdict};
use quietcore_report::Format;
use quietcore_spike::{Jitter, JitterSettings, SpikeError, Wake, WakeSettings};
use quietcore_sys::Host;

use super::audit::{today, watch_counters};

/// Time between two timed wake-ups.
const PERIOD: Nanos = Nanos::from_ms(1);

/// Look at this host in one go: audit, idle states, jitter; one HTML report
///
/// Audits the host, watches its counters for two seconds, then measures up to two CPUs: every gap
/// of a spinning thread, and how late timed wake-ups come. Changes nothing. Writes an HTML page and the
/// JSON it was made from; prints a summary. Root sees more.
#[derive(Args, Debug)]
pub struct Tour {
    /// The CPUs to measure [default: two of those meant for latency, else the last two; one is always left to others]
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
        let cut_short = watch_counters(&mut facts, Nanos::from_secs(2), &text);
        let findings = audit(&facts, &Audit { scope, waivers: Waivers::default(), today: today() });

        text.say(format_args!("jitter: a spinning thread on each of CPUs {cpus}"));
        let jitter = self.jitter(&facts, &cpus, &text);
        text.say(format_args!("wake-ups: every {PERIOD} on CPUs {cpus}"));
        let wake = self.wake(&facts, &cpus, &text);

        let mut run = watch.stop(facts.summary());
        if cut_short {
            run.validity.note(Verdict::Incomplete, "audit: watching the counters was interrupted");
        }
        run.sections = sections(findings, &mut run.validity, jitter, wake);
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

    fn jitter(&self, facts: &Facts, cpus: &CpuSet, output: &Output) -> Result<Jitter, SpikeError> {
        let settings = JitterSettings::new(cpus.clone(), self.duration);
        let bar = Progress::time(output, "jitter", self.duration);
        Jitter::run(&settings, facts.host(), interrupted(), |elapsed| bar.set(elapsed.0))
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

/// Two of the CPUs meant for latency, else the last two: CPU 0 has the most to do besides. One is
/// left to the rest of the host, this program's other threads included, if there is more than one.
fn choose(online: &CpuSet, latency: &CpuSet) -> CpuSet {
    let from = if latency.is_empty() { online } else { latency };
    let all: Vec<usize> = from.iter().collect();
    let count = online.len().saturating_sub(1).clamp(1, 2);
    all.iter().rev().take(count).copied().collect()
}

/// What each part has to show; a part that could not be measured is noted, not left out silently.
fn sections(
    findings: Findings,
    validity: &mut Validity,
    jitter: Result<Jitter, SpikeError>,
    wake: Result<Wake, SpikeError>,
) -> Vec<Section> {
    let mut take = |name: &str, error: Option<String>, own: Option<&Validity>| {
        if let Some(error) = error {
            validity.note(Verdict::Incomplete, format!("{name}: {error}"));
        }
        if let Some(own) = own {
            validity.verdict = validity.verdict.max(own.verdict);
            validity.lost_events += own.lost_events;
            validity.notes.extend(own.notes.iter().map(|note| format!("{name}: {note}")));
        }
    };
    take(
        "jitter",
        jitter.as_ref().err().map(ToString::to_string),
        jitter.as_ref().ok().map(|j| &j.validity),
    );
    take(
        "wake-ups",
        wake.as_ref().err().map(ToString::to_string),
        wake.as_ref().ok().map(|w| &w.validity),
    );
    let (jitter, wake) = (jitter.ok(), wake.ok());
    let first = taxonomy::taxonomy(&findings.findings, jitter.as_ref(), wake.as_ref());
    let mut sections = vec![Section::Table(first), Section::Findings(findings)];
    sections.extend(jitter.iter().flat_map(Jitter::sections));
    sections.extend(wake.iter().flat_map(Wake::sections));
    sections
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
    fn one_cpu_is_left_to_others_where_there_are_more() {
        let of = |list: &str| CpuSet::parse_list(list).unwrap();
        assert_eq!(choose(&of("0"), &of("")), of("0"));
        assert_eq!(choose(&of("0-1"), &of("")), of("1"));
        assert_eq!(choose(&of("0-2"), &of("")), of("1-2"));
    }
}
