//! `quietcore jitter`: what takes a CPU away from a thread that only wants to run.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use quietcore_bpf::{BpfError, State, Timeline};
use quietcore_console::{
    Exit, NotPossible, Output, Place, Progress, Stopwatch, check_online, cpus, duration,
    interrupted,
};
use quietcore_facts::Facts;
use quietcore_measure::{CpuSet, Nanos, Section, Validity, Verdict};
use quietcore_spike::{
    Article, Explained, Jitter as Measured, JitterSettings, SpikeError, Tape, Wake, WakeSettings,
    gaps,
};
use quietcore_sys::Host;
use quietcore_sys::sched::SchedError;

use super::trace::Trace;

/// Measure every gap of a spinning CPU, or the lateness of timed wake-ups from idle
///
/// One pinned thread per CPU reads the time stamp counter in a loop and keeps every gap with its
/// start and length. Needs no privilege; CAP_IPC_LOCK lets it lock its memory, CAP_SYS_NICE (or
/// RLIMIT_RTPRIO) is needed for --fifo, and root for the SMI counter. Takes all of each CPU while
/// it runs, and 2 MB of memory per CPU. Writes nothing but its result. Ctrl-C ends it early.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore jitter --cpus 2-3 --duration 60s     every gap of 100 ns and more
    quietcore jitter --cpus 2 --threshold 1us      only those of 1 µs and more
    quietcore jitter --cpus 2 --explain            what each gap was made of (BPF)
    quietcore jitter --cpus 2 --wake 1ms           how late a wake-up every millisecond is
    quietcore jitter --cpus 2 --loop article       the loop of the article, for comparison")]
pub struct Jitter {
    /// The CPUs to measure [default: those that are isolated]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,

    /// How long to measure
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    duration: Nanos,

    /// What counts as a gap; never less than four turns of the loop
    #[arg(long, value_name = "DURATION", default_value = "100ns", value_parser = duration)]
    threshold: Nanos,

    /// Sleep and wake up this often (50us to 10s) instead of spinning
    #[arg(
        long,
        value_name = "PERIOD",
        num_args = 0..=1,
        default_missing_value = "1ms",
        value_parser = duration,
        conflicts_with_all = ["threshold", "spin", "raw"],
    )]
    wake: Option<Nanos>,

    /// Which loop spins
    #[arg(long = "loop", id = "spin", value_name = "LOOP", default_value = "own")]
    spin: Loop,

    /// Run in SCHED_FIFO with this priority; refused for all CPUs at once
    #[arg(long, value_name = "1-99", value_parser = clap::value_parser!(u8).range(1..=99))]
    fifo: Option<u8>,

    /// Also write the gaps to FILE, one line `cpu start_ns len_ns` each (CLOCK_MONOTONIC)
    ///
    /// Of very many gaps the longest and a random sample of the others; the result says so.
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,

    /// Say what each gap was made of; needs BPF, and its probes lengthen interrupts a little
    #[arg(long, conflicts_with = "wake")]
    explain: bool,

    #[command(flatten)]
    trace: Trace,

    #[command(flatten)]
    output: Output,
}

/// Which loop spins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Loop {
    /// quietcore's, for the whole duration
    Own,
    /// A million turns of 100 dummy iterations each, as published in an article on quiet cores
    Article,
}

impl Jitter {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        self.check()?;
        let sink = self.output.open()?;
        let trace = self.trace.open()?;
        let raw_place = self.raw.as_deref().map(|path| Place::open(Some(path))).transpose()?;
        let facts = Facts::of(Host::live());
        let cpus = self.cpus(&facts)?;
        let mut raw = Vec::new();
        let (validity, sections) =
            self.measure(cpus, facts.host(), interrupted(), &mut raw).map_err(not_possible)?;
        let mut run = watch.stop(facts.summary());
        run.validity = validity;
        run.sections = sections;
        // All are tried: one full disk must not cost the other results.
        let (shown, traced) = (sink.write(&run), trace.write(&run));
        if let Some(place) = raw_place {
            place.write(&raw)?;
        }
        shown?;
        traced?;
        Ok(Exit::Clean)
    }

    /// Refuses what would measure nothing and yet look like a result.
    fn check(&self) -> anyhow::Result<()> {
        let duration = self.duration;
        if let Some(period) = self.wake.filter(|&period| period > duration) {
            bail!("--wake {period}: not one wake-up would be due in --duration {duration}");
        }
        if self.wake.is_none() && self.threshold > duration {
            bail!("--threshold {}: no gap in --duration {duration} is that long", self.threshold);
        }
        if self.trace.is_wanted() && !self.explain {
            bail!("--perfetto: what gaps were made of is known with --explain");
        }
        if self.spin == Loop::Article && self.raw.is_some() {
            bail!("--raw: the article's loop knows no start of a gap; use --loop own");
        }
        if self.spin == Loop::Article && self.explain {
            bail!("--explain: the article's loop knows no start of a gap; use --loop own");
        }
        Ok(())
    }

    fn measure(
        &self,
        cpus: CpuSet,
        host: &Host,
        stop: &AtomicBool,
        raw: &mut Vec<u8>,
    ) -> anyhow::Result<(Validity, Vec<Section>)> {
        let bar = Progress::time(&self.output, "measuring", self.duration);
        let progress = |elapsed: Nanos| bar.set(elapsed.0.min(self.duration.0));
        let (duration, fifo) = (self.duration, self.fifo);
        if let Some(period) = self.wake {
            let settings = WakeSettings { cpus, duration, period, fifo };
            let wake = Wake::run(&settings, host, stop, progress)?;
            let sections = wake.sections();
            return Ok((wake.validity, sections));
        }
        if self.spin == Loop::Article {
            let article = Article::run(&cpus, fifo, host)?;
            let sections = article.sections();
            return Ok((article.validity, sections));
        }
        let settings = JitterSettings {
            threshold: self.threshold,
            fifo,
            ..JitterSettings::new(cpus, duration)
        };
        let (mut jitter, explained) = match self.explain {
            true => explain(&settings, host, stop, progress)?,
            false => (Measured::run(&settings, host, stop, progress)?, Vec::new()),
        };
        if self.raw.is_some() {
            jitter.write_raw(raw)?;
        }
        let mut sections = jitter.sections();
        sections.extend(explained);
        Ok((std::mem::take(&mut jitter.validity), sections))
    }

    fn cpus(&self, facts: &Facts) -> anyhow::Result<CpuSet> {
        let online = &facts.cpus().online;
        let cpus = match &self.cpus {
            Some(cpus) => cpus.clone(),
            None => isolated(facts.host()).filter(|isolated| !isolated.is_empty()).with_context(
                || format!("no CPU is isolated here: name some by --cpus ({online} are online)"),
            )?,
        };
        check_online(&cpus, online).map_err(|why| anyhow!(why))?;
        Ok(cpus)
    }
}

/// Measures with the recorder running, after a short measurement without it that tells what the
/// recorder adds.
pub(super) fn explain(
    settings: &JitterSettings,
    host: &Host,
    stop: &AtomicBool,
    mut progress: impl FnMut(Nanos),
) -> anyhow::Result<(Measured, Vec<Section>)> {
    let duration = Nanos((settings.duration.0 / 5).min(Nanos::from_secs(1).0));
    let without =
        Measured::run(&JitterSettings { duration, ..settings.clone() }, host, stop, |_| {})?;
    let mut timeline = Timeline::start(&gaps::recorder())?;
    let mut tape = Tape::new(&timeline, &settings.cpus, host);
    let mut failed = None;
    let mut jitter = Measured::run(settings, host, stop, |elapsed| {
        failed = failed.take().or_else(|| tape.pull(&mut timeline).err());
        progress(elapsed);
    })?;
    tape.pull(&mut timeline)?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    for health in timeline.health() {
        if let State::Broken(why) | State::Unsupported(why) = &health.state {
            jitter
                .validity
                .note(Verdict::Valid, format!("not recorded: {}: {why}", health.program));
        }
    }
    drop(timeline);
    let explained = Explained::of(&jitter, &tape);
    if let (Some(before), Some(with)) = (Explained::typical(&without), Explained::typical(&jitter))
    {
        jitter.validity.note(
            Verdict::Valid,
            format!(
                "the recorder lengthens what it records: the median gap of 1 µs and more was \
                 {before} in {duration} without it, {with} with it"
            ),
        );
    }
    Ok((jitter, explained.sections()))
}

fn isolated(host: &Host) -> Option<CpuSet> {
    CpuSet::parse_list(&host.line("/sys/devices/system/cpu/isolated").ok()?).ok()
}

/// A privilege that is missing is not an error of the command line.
fn not_possible(error: anyhow::Error) -> anyhow::Error {
    if error.downcast_ref().is_some_and(BpfError::not_possible_here) {
        return NotPossible::new(error.to_string()).into();
    }
    match error.downcast_ref::<SpikeError>() {
        Some(SpikeError::Sched(
            SchedError::SetClass { error: os, .. } | SchedError::Place { error: os, .. },
        )) if os.kind() == ErrorKind::PermissionDenied => {
            NotPossible::new(error.to_string()).into()
        }
        _ => error,
    }
}
