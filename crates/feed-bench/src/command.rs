//! `quietcore feed bench`: what is asked for, and the result.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use quietcore_console::{Exit, Output, Stopwatch};
use quietcore_facts::Facts;
use quietcore_feed::server::Channel;
use quietcore_measure::{Cell, CpuSet, Section, Table, Validity, Verdict};
use quietcore_sys::tsc::{Clock, Source};
use quietcore_sys::{Host, sched};

use crate::end_to_end::{Found, Plan};
use crate::market::Sample;
use crate::pipe::Ends;
use crate::{book, end_to_end, scan, stamps, tls, turns, websocket, whole};

/// Messages of the mixed stream.
const MESSAGES: usize = 20_000;
/// Messages of changes of the book alone.
const CHANGES: usize = 2_000;

/// Measure the engine beside the libraries that one would build it from
///
/// S2 beside OpenSSL and rustls, S3 beside fastwebsockets and tungstenite, S4 beside sonic-rs and
/// serde_json, S5 beside BTreeMap, S2 to S5 in memory and end to end over loopback beside stacks of
/// them, all within one run and by turns. Before a figure is shown both sides have to have computed
/// the same. Ratios hold on a busy machine where times do not: a ratio is the median of its rounds,
/// between their 10th and 90th percentile. sonic-rs wants the CPU's own instructions: build with
/// RUSTFLAGS='-C target-cpu=native'.
#[derive(Debug, Parser)]
#[command(name = "quietcore-feed-bench", bin_name = "quietcore feed bench", version)]
#[command(after_help = "\
EXAMPLES:
    quietcore feed bench                      everything, in about two minutes
    quietcore feed bench --quick --check      for CI: exit code 1 where a target is missed
    quietcore feed bench --file btc.gz        messages of a recording")]
pub struct Bench {
    /// Messages of a recording of Binance USD-M instead of made-up ones (not end to end)
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// The seed of the made-up market
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Fewer rounds
    #[arg(long)]
    quick: bool,

    /// Where it runs [default: the highest CPU that it may use]
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,

    /// Leave out what goes over the network stack
    #[arg(long)]
    in_memory: bool,

    /// Exit code 1 if a target is missed
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    output: Output,
}

impl Bench {
    /// Runs it.
    ///
    /// # Errors
    /// Two sides that computed different things, a recording that cannot be used, and whatever the
    /// system refuses.
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let facts = Facts::of(Host::live());
        let allowed = sched::affinity(sched::CALLER)?;
        let cpu = self.cpu.or(allowed.highest()).context("there is no CPU to run on")?;
        let cpu: CpuSet = [cpu].into_iter().collect();
        sched::place(sched::CALLER, &cpu).context("--cpu")?;
        let clock = Clock::start(&cpu);
        let before = sched::usage()?;
        let (mut rows, mut sections) = self.in_memory(&clock)?;
        let usage = sched::usage()?.since(&before);
        let mut validity = validity(usage.involuntary_switches, &clock);
        if !self.in_memory {
            let found = self.end_to_end(&cpu, &allowed)?;
            if found.switches > 0 {
                let note = format!(
                    "end to end: the spinning thread was switched out {} times",
                    found.switches
                );
                validity.note(Verdict::Disturbed, note);
            }
            rows.extend(found.rows);
            sections.extend(found.distributions.into_iter().map(Section::Distribution));
        }
        let mut run = watch.stop(facts.summary());
        run.validity = validity;
        run.sections = vec![Section::Table(turns::table(&rows)), Section::Table(self.setup(&cpu))];
        run.sections.extend(sections);
        sink.write(&run)?;
        Ok(Exit::findings(self.check && rows.iter().any(turns::Row::is_missed)))
    }

    fn in_memory(&self, clock: &Clock) -> anyhow::Result<(Vec<turns::Row>, Vec<Section>)> {
        let say = |what: &str| self.output.say(what);
        let less = |full: usize, quick: usize| if self.quick { quick } else { full };
        say("messages");
        let mixed = self.sample(MESSAGES, false)?;
        let depths = self.sample(CHANGES, true)?;
        let ends = Ends::new()?;
        say("S2 TLS");
        let mut rows = tls::rows(&ends, less(1_000, 200))?;
        say("S3 WebSocket");
        rows.extend(websocket::rows(&mixed, less(1_000, 200))?);
        say("S4 JSON");
        rows.extend(scan::rows(&depths, &mixed, less(4_000, 800))?);
        say("S5 book");
        rows.extend(book::rows(&depths, less(30, 5))?);
        say("S2 to S5");
        let (more, distributions) = whole::rows(&ends, &mixed, clock.rate(), less(15, 3))?;
        rows.extend(more);
        say("stamps");
        rows.extend(stamps::rows(&ends, &mixed, less(10, 3))?);
        Ok((rows, distributions.into_iter().map(Section::Distribution).collect()))
    }

    fn end_to_end(&self, cpu: &CpuSet, allowed: &CpuSet) -> anyhow::Result<Found> {
        let plan = Plan {
            cpu: cpu.clone(),
            others: allowed.minus(cpu),
            turns: if self.quick { 3 } else { 12 },
            length: Duration::from_secs(2),
            seed: self.seed,
        };
        end_to_end::follow_both(&plan, |what| self.output.say(what))
    }

    fn sample(&self, count: usize, depth_only: bool) -> anyhow::Result<Sample> {
        let channels = match depth_only {
            true => &[Channel::DepthAtOnce][..],
            false => &[Channel::DepthAtOnce, Channel::BookTicker, Channel::AggTrade],
        };
        match &self.file {
            Some(path) => Sample::recorded(path, count, depth_only),
            None => Sample::generated(self.seed, count, channels),
        }
    }

    fn setup(&self, cpu: &CpuSet) -> Table {
        let mut table = Table::new("feed_bench_setup", "How it was measured", &["what", "value"]);
        let mut row = |what: &str, value: Cell| table.rows.push(vec![what.into(), value]);
        row(
            "messages",
            match &self.file {
                Some(_) => "a recording's".into(),
                None => format!("made up, seed {}", self.seed).into(),
            },
        );
        row("CPU", cpu.to_string().into());
        row("tungstenite stack", "rustls, tungstenite, serde_json, BTreeMap".into());
        row("tokio-tungstenite stack", "rustls, tokio-tungstenite, serde_json, BTreeMap".into());
        row("OpenSSL", openssl::version::version().into());
        row("built with AVX2 (sonic-rs)", cfg!(target_feature = "avx2").into());
        table
    }
}

fn validity(involuntary_switches: u64, clock: &Clock) -> Validity {
    let mut validity = Validity::default();
    if involuntary_switches > 0 {
        let note = format!(
            "the thread was switched out {involuntary_switches} times: hold on to ratios, not times"
        );
        validity.note(Verdict::Disturbed, note);
    }
    if cfg!(target_arch = "x86_64") && !cfg!(target_feature = "avx2") {
        let note = "built without AVX2: sonic-rs is slower than it need be";
        validity.note(Verdict::Disturbed, note);
    }
    if clock.source() != Source::Counter {
        let note = format!("the time stamp counter is not to be trusted: {}", clock.why());
        validity.note(Verdict::Disturbed, note);
    }
    validity
}
