//! `quietcore audit`: what on this host costs latency.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use quietcore_console::{
    Exit, Output, Place, Progress, Stopwatch, check_online, cpus, duration, interrupted,
};
use quietcore_facts::Facts;
use quietcore_host::{Audit as Asked, Scope, Waivers, audit};
use quietcore_measure::{CpuSet, Nanos, Section, Status, Verdict};
use quietcore_sys::Host;
use quietcore_sys::host::Trouble;

/// Say what on this host costs latency: findings with evidence, ranked by expected cost
///
/// Reads /proc, /sys, the kernel log and a few driver settings; changes nothing. Root sees more;
/// what could not be read is `unknown`, never a pass. Exits with 1 if a check failed.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore audit                          this host, as it is
    quietcore audit --cpus 2-5               judge CPUs 2-5 as meant for latency
    quietcore audit --pid 4711 --probe 2s    a process besides, and what only counters can prove
    quietcore audit --record host.json       keep everything the checks read
    quietcore audit --root host.json         judge a recorded host, on any machine")]
pub struct Audit {
    /// The CPUs that are meant for latency [default: those the boot line isolates]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,

    /// Examine this process besides the host
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// Watch counters for this long: proves what a single look cannot
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    probe: Option<Nanos>,

    /// Judge a recorded host, or a directory that holds a host's files
    #[arg(long, value_name = "DIR|FILE")]
    root: Option<PathBuf>,

    /// Keep everything the checks read, scrubbed of addresses and serial numbers
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    record: Option<PathBuf>,

    /// Failures that are accepted, each with a reason and a last day (TOML)
    #[arg(long, value_name = "FILE")]
    waivers: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
}

impl Audit {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let record = self.record.as_deref().map(|path| Place::open(Some(path))).transpose()?;
        let waivers = match &self.waivers {
            Some(path) => Waivers::load(path)?,
            None => Waivers::default(),
        };
        let mut facts = Facts::of(self.host()?).examining(self.pid);
        check_process(self.pid, facts.host())?;
        if let Some(cpus) = &self.cpus {
            check_online(cpus, &facts.cpus().online).map_err(|why| anyhow!(why))?;
        }
        let cut_short = self.take_probe(&mut facts);
        let scope = Scope::of(&facts, self.cpus.clone(), self.pid);
        let findings = audit(&facts, &Asked { scope, waivers, today: today() });
        let mut run = watch.stop(facts.summary());
        if cut_short {
            run.validity.note(Verdict::Incomplete, "the probe was interrupted");
        }
        let failed = findings.count(Status::Fail) > 0;
        run.sections.push(Section::Findings(findings));
        if let (Some(place), Some(path)) = (record, &self.record) {
            let snapshot = facts.into_host().into_snapshot().context("nothing was recorded")?;
            place.write(snapshot.to_json()?.as_bytes())?;
            self.output.say(format_args!("recorded to {}", path.display()));
        }
        sink.write(&run)?;
        Ok(Exit::findings(failed))
    }

    fn host(&self) -> anyhow::Result<Host> {
        let host = match &self.root {
            Some(path) => Host::from_path(path)?,
            None => Host::live(),
        };
        Ok(match &self.record {
            Some(path) => {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                host.recording(&name)
            }
            None => host,
        })
    }

    /// Whether it was interrupted.
    fn take_probe(&self, facts: &mut Facts) -> bool {
        if let Some(length) = self.probe {
            return watch_counters(facts, length, &self.output);
        }
        // A recorded host that was probed is judged with its probe.
        if !facts.host().is_live() && facts.host().has_second_moment() {
            facts.take_probe(|| {});
        }
        false
    }
}

/// Reads the counters twice, `length` apart; says whether that was cut short.
pub fn watch_counters(facts: &mut Facts, length: Nanos, output: &Output) -> bool {
    let bar = Progress::time(output, "watching counters", length);
    let mut cut_short = false;
    facts.take_probe(|| {
        let start = Instant::now();
        while start.elapsed() < length.into() && !cut_short {
            bar.set(Nanos::from(start.elapsed()).0);
            let rest = Duration::from(length).saturating_sub(start.elapsed());
            thread::sleep(rest.min(Duration::from_millis(100)));
            cut_short = interrupted().load(Ordering::Relaxed);
        }
    });
    cut_short
}

/// A process that is not there is a mistake, too.
fn check_process(pid: Option<u32>, host: &Host) -> anyhow::Result<()> {
    let Some(pid) = pid else { return Ok(()) };
    match host.threads(pid) {
        Ok(_) => Ok(()),
        Err(error) if error.trouble == Trouble::Missing => bail!("--pid {pid}: no such process"),
        Err(error) if error.trouble == Trouble::NotRecorded => bail!(
            "--pid {pid}: the snapshot was recorded without it (audit --pid {pid} --record FILE keeps it)"
        ),
        Err(error) => Err(error).with_context(|| format!("--pid {pid}")),
    }
}

/// Days since 1970-01-01, for waivers.
pub fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() / 86_400)
}
