//! `quietcore feed capacity`: how many instruments one core follows at a promised P99.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use quietcore_console::{Exit, Output, Stopwatch, check_online, cpus, duration, interrupted};
use quietcore_facts::Facts;
use quietcore_measure::{Cell, CpuSet, Nanos, Section, Table, Validity, Verdict};
use quietcore_sys::{Host, sched};

use super::DRAIN;
use super::made_up::MadeUp;
use super::run::mode;
use crate::engine::{Config, Engine, Mode, Notice, Watch};
use crate::server::{Begin, Config as VenueConfig, Pace};
use crate::stages::StageHists;
use crate::sync::State;
use crate::venues;

/// More load than from so many instruments comes from their being busier: a venue allows few
/// snapshots a minute.
const INSTRUMENTS: u32 = 40;
/// How long books may take to be proven.
const PATIENCE: Duration = Duration::from_secs(20);
/// From then until it is measured.
const SETTLE: Duration = Duration::from_secs(1);
/// Of the messages that a load should bring: below it the market is what cannot keep up.
const KEPT_UP: f64 = 0.85;
/// A connection each for books and for trades.
const CONNECTIONS: usize = 2;

/// Find how many instruments one core follows at a promised P99, and how to split more of them
/// over instances
///
/// A market is made up and served over TLS on this host, with more and more instruments (beyond 40
/// with busier ones: 400 are 40 at ten times their pace), until the P99 from the kernel's stamp to the
/// book is beyond the promise, a book is not proven, or the market itself cannot be made faster. Give
/// the engine the CPU that it will have; the market takes the others, and needs one.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore feed capacity --p99 200us                        blocking, anywhere
    quietcore feed capacity --p99 20us --mode recv-spin --cpu 3 --instruments 300
                                                               and how to split 300 of them")]
pub struct Capacity {
    /// The promise: P99 of a message's whole way, from the kernel's stamp to the book
    #[arg(long, value_name = "DURATION", default_value = "200us", value_parser = duration)]
    p99: Nanos,

    /// How the hot thread waits: block (sleeps), poll-spin, recv-spin (never sleep)
    #[arg(long, value_name = "MODE", default_value = "block", value_parser = mode())]
    mode: Mode,

    /// The CPU of the hot thread [default: any]
    #[arg(long, value_name = "CPU", value_parser = cpus)]
    cpu: Option<CpuSet>,

    /// Run the hot thread in SCHED_FIFO with this priority
    #[arg(long, value_name = "1-99", value_parser = clap::value_parser!(u8).range(1..=99))]
    fifo: Option<u8>,

    /// How many instruments there are to follow: propose the split
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    instruments: Option<u32>,

    /// The most to try
    #[arg(long, value_name = "COUNT", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    most: u32,

    /// How long each load is measured
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    time: Nanos,

    #[command(flatten)]
    output: Output,
}

/// What a load came to.
struct Trial {
    load: u32,
    hists: StageHists,
    seconds: f64,
    /// Messages whose times were lost, and whether the market closed us for reading slowly.
    missed: u64,
    slow: u64,
    unproven: usize,
    switched_out: u64,
}

impl Trial {
    fn rate(&self) -> f64 {
        self.hists.messages() as f64 / self.seconds
    }

    /// Why the load is too much; nothing where it is not.
    fn trouble(&self, p99: Nanos) -> Option<String> {
        let found = self.hists.total().value_at(0.99);
        match found {
            _ if self.unproven > 0 => Some(format!("{} books not proven", self.unproven)),
            _ if self.slow > 0 => Some("read too slowly".to_owned()),
            _ if self.missed > 0 => Some("times were lost".to_owned()),
            None => Some("nothing came".to_owned()),
            Some(ns) if ns > p99.0 => Some("P99 beyond the promise".to_owned()),
            Some(_) => None,
        }
    }
}

impl Capacity {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let facts = Facts::of(Host::live());
        let online = &facts.cpus().online;
        if let Some(cpu) = &self.cpu {
            check_online(cpu, online).map_err(|why| anyhow!(why))?;
            let others = online.minus(cpu);
            if others.is_empty() {
                bail!("the market needs a CPU besides the engine's, and this host has no other");
            }
            // Of the market's threads, which are made by this one.
            sched::place(0, &others).context("placing the market")?;
        }
        let (trials, end) = self.search()?;
        let mut run = watch.stop(facts.summary());
        run.validity = validity(&trials);
        run.sections = vec![Section::Table(self.table(&trials, &end))];
        let sustained = trials.iter().filter(|trial| trial.trouble(self.p99).is_none());
        let capacity = sustained.map(|trial| trial.load).max();
        if let (Some(instruments), Some(capacity)) = (self.instruments, capacity) {
            let isolated = facts.cpus().isolated.value().cloned().unwrap_or_default();
            let cpus: Vec<_> = isolated.iter().collect();
            run.sections.push(Section::Table(split_table(instruments, capacity, &cpus)));
        }
        sink.write(&run)?;
        Ok(Exit::findings(capacity.is_none()))
    }

    /// Every load that was tried, and why there was no other.
    fn search(&self) -> anyhow::Result<(Vec<Trial>, String)> {
        let end = interrupted();
        let (mut trials, mut tried) = (Vec::<Trial>::new(), Vec::new());
        while let Some(load) = next_load(&tried, self.most) {
            self.output.say(format_args!("{load} instruments …"));
            let Some(trial) = self.measure(load, end)? else {
                return Ok((trials, "interrupted".to_owned()));
            };
            let is_sustained = trial.trouble(self.p99).is_none();
            if is_sustained && !kept_up(&trials, &trial) {
                let most = tried_most(&tried);
                let why = format!("the market cannot be made faster here: at least {most}");
                return Ok((trials, why));
            }
            tried.push((load, is_sustained));
            trials.push(trial);
        }
        let why = match tried.iter().all(|(_, is_sustained)| *is_sustained) {
            true => "more was not tried (--most)".to_owned(),
            false => "within an eighth".to_owned(),
        };
        Ok((trials, why))
    }

    /// `None`: interrupted.
    fn measure(&self, load: u32, end: &AtomicBool) -> anyhow::Result<Option<Trial>> {
        let count = load.min(INSTRUMENTS);
        let symbols: Vec<String> = (1..=count).map(|n| format!("MADE{n}USDT")).collect();
        let market = VenueConfig {
            pace: Pace::Rate(f64::from(load) / f64::from(count)),
            begin: Begin::WithListeners(CONNECTIONS),
            queue: 1 << 16,
            weight_per_minute: u32::MAX,
            ..VenueConfig::default()
        };
        let market = MadeUp::start(&symbols, market)?;
        let binance = venues::find("binance-usdm")?;
        let config = market.followed(Config {
            mode: self.mode,
            cpus: self.cpu.clone().unwrap_or_default(),
            fifo: self.fifo,
            ring: 1 << 18,
            publish: false,
            ..Config::new(binance, symbols)
        });
        let (engine, mut watch) = Engine::new(config, ())?;
        let stop = Arc::new(AtomicBool::new(false));
        let hot = thread::Builder::new().name("feed-hot".to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || engine.run(&stop)
        });
        let hot = hot.context("starting the hot thread")?;
        let goes_on = || !end.load(Ordering::Relaxed) && !hot.is_finished();
        let proven = warm_up(&mut watch, count as usize, goes_on);
        // What came while the books were not proven yet is worked off first.
        let settled = Instant::now() + SETTLE;
        while proven && goes_on() && Instant::now() < settled {
            thread::sleep(DRAIN);
            watch.drain.drain(|_| {});
        }
        let missed = watch.drain.missed();
        let mut hists = StageHists::default();
        let begin = Instant::now();
        while proven && goes_on() && begin.elapsed() < Duration::from_nanos(self.time.0) {
            thread::sleep(DRAIN);
            let rate = watch.rate;
            watch.drain.drain(|passed| hists.record(&passed.way.times(rate)));
        }
        let seconds = begin.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        let summary = hot.join().map_err(|_| anyhow!("the hot thread died"))??;
        let slow = market.stop().slow_readers;
        let unproven =
            summary.markets.iter().filter(|market| market.state() != State::Live).count();
        let switched_out = summary.usage.map_or(0, |usage| usage.involuntary_switches);
        let missed = watch.drain.missed() - missed;
        let trial = Trial { load, hists, seconds, missed, slow, unproven, switched_out };
        Ok((!end.load(Ordering::Relaxed)).then_some(trial))
    }

    fn table(&self, trials: &[Trial], end: &str) -> Table {
        let title = format!(
            "Instruments on one core, {}, P99 at most {} ({end})",
            self.mode.name(),
            self.p99
        );
        let mut table = Table::new(
            "feed_capacity",
            &title,
            &["instruments", "messages_per_s", "p50_ns", "p99_ns", "p999_ns", "sustained"],
        );
        let mut trials: Vec<_> = trials.iter().collect();
        trials.sort_by_key(|trial| trial.load);
        table.rows = trials
            .into_iter()
            .map(|trial| {
                let at = |q| trial.hists.total().value_at(q).map_or(Cell::Empty, Cell::from);
                let verdict = trial.trouble(self.p99).unwrap_or_else(|| "yes".to_owned());
                vec![
                    u64::from(trial.load).into(),
                    Cell::Number(trial.rate().round()),
                    at(0.5),
                    at(0.99),
                    at(0.999),
                    verdict.into(),
                ]
            })
            .collect();
        table
    }
}

/// Whether the market went as fast as it was to: its pace is only beyond a real one's where the load
/// is, and then the loads before tell what an instrument brings.
fn kept_up(before: &[Trial], trial: &Trial) -> bool {
    let real = before.iter().filter(|trial| trial.load <= INSTRUMENTS).max_by_key(|t| t.load);
    let expected = real.map_or(0.0, |real| real.rate() / f64::from(real.load));
    trial.load <= INSTRUMENTS || trial.rate() >= KEPT_UP * expected * f64::from(trial.load)
}

/// Waits until so many books are proven. Whether they are.
fn warm_up(watch: &mut Watch, books: usize, goes_on: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    let mut proven = 0;
    while proven < books && goes_on() && begin.elapsed() < PATIENCE {
        thread::sleep(DRAIN);
        watch.drain.drain(|_| {});
        for notice in watch.notices.try_iter() {
            match notice {
                Notice::Synced { .. } => proven += 1,
                Notice::Unsynced { .. } => proven -= 1,
                _ => {}
            }
        }
    }
    proven == books
}

/// The next load to try, from those that were and whether they were sustained: doubled until one is
/// too much, then halfway between until an eighth is left.
fn next_load(tried: &[(u32, bool)], most: u32) -> Option<u32> {
    let low = tried_most(tried);
    let high = tried.iter().filter(|(_, is_sustained)| !is_sustained).map(|(load, _)| *load).min();
    match high {
        None if tried.is_empty() => Some(most.min(4)),
        None => Some(low.saturating_mul(2).min(most)).filter(|next| *next > low),
        Some(high) => (high - low > low / 8 + 1).then_some(low + (high - low) / 2),
    }
}

/// The largest load that was sustained.
fn tried_most(tried: &[(u32, bool)]) -> u32 {
    let sustained = tried.iter().filter(|(_, is_sustained)| *is_sustained);
    sustained.map(|(load, _)| *load).max().unwrap_or(0)
}

/// Instruments by instance: as many instances as it takes, all with as many as the others or one
/// more.
fn split(instruments: u32, capacity: u32) -> Vec<Range<u32>> {
    let instances = instruments.div_ceil(capacity.max(1));
    let bound = |n: u32| (u64::from(instruments) * u64::from(n) / u64::from(instances)) as u32;
    (0..instances).map(|n| bound(n)..bound(n + 1)).collect()
}

fn split_table(instruments: u32, capacity: u32, isolated: &[usize]) -> Table {
    let title = format!("{instruments} instruments, as busy as the market's here");
    let mut table =
        Table::new("feed_split", &title, &["instance", "cpu", "first", "last", "count"]);
    let parts = split(instruments, capacity).into_iter().enumerate();
    table.rows = parts
        .map(|(number, part)| {
            // Nothing where no isolated CPU is left.
            let cpu = isolated.get(number).map_or(Cell::Empty, |cpu| Cell::from(*cpu as u64));
            let [instance, first, last, count] =
                [number as u32 + 1, part.start + 1, part.end, part.end - part.start]
                    .map(|number| Cell::from(u64::from(number)));
            vec![instance, cpu, first, last, count]
        })
        .collect();
    table
}

fn validity(trials: &[Trial]) -> Validity {
    let mut validity = Validity::default();
    let switched_out: u64 = trials.iter().map(|trial| trial.switched_out).sum();
    if switched_out > 0 {
        let note = format!(
            "the hot thread was switched out {switched_out} times: with a CPU of its own it may sustain more"
        );
        validity.note(Verdict::Disturbed, note);
    }
    validity
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All loads tried where so many are sustained.
    fn search(capacity: u32, most: u32) -> Vec<u32> {
        let mut tried = Vec::new();
        while let Some(load) = next_load(&tried, most) {
            assert!(tried.iter().all(|(other, _)| *other != load), "{tried:?}");
            tried.push((load, load <= capacity));
        }
        tried.into_iter().map(|(load, _)| load).collect()
    }

    #[test]
    fn the_search_comes_within_an_eighth_of_what_is_sustained() {
        assert_eq!(search(37, 100), [4, 8, 16, 32, 64, 48, 40, 36]);
        assert_eq!(search(1_000, 30), [4, 8, 16, 30]);
        assert_eq!(search(0, 30), [4, 2, 1]);
        for capacity in 1..500 {
            let tried = search(capacity, 400);
            let found = tried.iter().filter(|load| **load <= capacity).max().unwrap();
            let wanted = capacity.min(400);
            assert!(*found <= wanted && *found + found / 8 + 1 >= wanted, "{capacity}: {tried:?}");
        }
    }

    #[test]
    fn instances_share_evenly_and_none_has_more_than_it_sustains() {
        for (instruments, capacity) in [(1, 1), (7, 3), (300, 37), (40, 40), (5, 100)] {
            let parts = split(instruments, capacity);
            let sizes: Vec<_> = parts.iter().map(|part| part.end - part.start).collect();
            assert_eq!(sizes.iter().sum::<u32>(), instruments);
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(*most <= capacity && most - least <= 1, "{sizes:?}");
            assert!(parts.windows(2).all(|two| two[0].end == two[1].start));
        }
    }
}
