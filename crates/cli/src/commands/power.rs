//! `quietcore power`: how CPUs sleep, how fast they run, how hot they are.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::Args;
use quietcore_console::{
    Exit, Output, Progress, Sink, Stopwatch, check_online, cpus, duration, interrupted, new_run,
    print,
};
use quietcore_facts::Facts;
use quietcore_facts::power::PowerReading;
use quietcore_host::power::{self, Alert};
use quietcore_measure::{CpuSet, Nanos, Run, Section, Table, Verdict};
use quietcore_report::{Format, Options, render};
use quietcore_sys::Host;

/// Show idle states, frequency, temperature and throttling per CPU
///
/// Reads every CPU twice: residency of each idle state, the share of the time it was busy (in C0:
/// polling while idle counts as busy, as turbostat has it), frequency beside the rated one,
/// governor, temperature, throttle counters. A busy CPU below 0.9 of its rated frequency and a
/// throttle counter that grows are reported on stderr as soon as they are seen, and end in exit
/// code 1. Works without privileges; root adds the frequency by counted cycles (APERF/MPERF, msr
/// module) and PM QoS. Changes nothing. Cost: about 30 files per CPU and reading; asking for a
/// register or a temperature interrupts that CPU for some microseconds.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore power                         one second of this host
    quietcore power --interval 10s          ten
    quietcore power --watch                 live until Ctrl-C, then the whole time in sum
    quietcore power --watch 60 --cpus 2-5 --format json -o power.json
    quietcore power --root host.json        a host recorded by audit --probe 2s --record")]
pub struct Power {
    /// Show it live, for so many seconds [default: until Ctrl-C]
    #[arg(
        long,
        value_name = "SEC",
        num_args = 0..=1,
        default_missing_value = "2000000",
        value_parser = seconds,
        conflicts_with = "root",
    )]
    watch: Option<Nanos>,

    /// Time between two readings
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    interval: Nanos,

    /// Alert when a busy CPU runs below this share of its rated frequency
    #[arg(long, value_name = "SHARE", default_value_t = power::ALERT_BELOW, value_parser = share)]
    alert_below: f64,

    /// The CPUs to show [default: all]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,

    /// Show a recorded host; residency needs one that was recorded with a probe
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
}

/// What was seen so far.
struct Seen {
    alerts: Table,
    /// CPUs that were slow at the last look: news is told once.
    slow: BTreeSet<usize>,
}

impl Power {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let facts = Facts::of(match &self.root {
            Some(path) => Host::from_path(path)?,
            None => Host::live(),
        });
        if let Some(cpus) = &self.cpus {
            check_online(cpus, &facts.cpus().online).map_err(|why| anyhow!(why))?;
        }
        if self.root.is_some() {
            return self.recorded(watch, sink, &facts);
        }
        self.live(watch, sink, &facts)
    }

    fn cpus(&self, facts: &Facts) -> CpuSet {
        self.cpus.clone().unwrap_or_else(|| facts.cpus().online.clone())
    }

    fn recorded(&self, watch: Stopwatch, sink: Sink, facts: &Facts) -> anyhow::Result<Exit> {
        let cpus = self.cpus(facts);
        let first = PowerReading::take(facts, &cpus);
        let again = facts.host().has_second_moment();
        let second = match again {
            true => facts.host().at_second_moment(|| PowerReading::take(facts, &cpus)),
            false => first.clone(),
        };
        let mut seen = Seen::new();
        seen.look(power::watch(facts, &first, &second, self.alert_below), Nanos(0));
        let mut run = watch.stop(facts.summary());
        if !again {
            let note = "the snapshot holds one reading: no residency (audit --probe 2s --record)";
            run.validity.note(Verdict::Incomplete, note);
        }
        seen.finish(run, sink, power::tables(facts, &first, &second))
    }

    fn live(&self, watch: Stopwatch, sink: Sink, facts: &Facts) -> anyhow::Result<Exit> {
        let cpus = self.cpus(facts);
        let total = self.watch.unwrap_or(self.interval);
        let bar = (!self.shows_live()).then(|| Progress::time(&self.output, "watching", total));
        let first = PowerReading::take(facts, &cpus);
        let start = Instant::now();
        let mut seen = Seen::new();
        let mut last = first.clone();
        let fresh = loop {
            let elapsed = Nanos::from(start.elapsed());
            let length = Nanos(self.interval.0.min(total.0.saturating_sub(elapsed.0)));
            let goes_on = wait(length, || {
                if let Some(bar) = &bar {
                    bar.set(Nanos::from(start.elapsed()).0);
                }
            });
            // Settings may have been changed meanwhile, CPUs taken offline.
            let fresh = Facts::of(Host::live());
            let now = PowerReading::take(&fresh, &cpus.and(&fresh.cpus().online));
            let elapsed = Nanos::from(start.elapsed());
            seen.look(power::watch(&fresh, &last, &now, self.alert_below), elapsed);
            if self.shows_live() {
                show(&fresh, &last, &now)?;
            }
            last = now;
            if !goes_on || elapsed >= total {
                break fresh;
            }
        };
        drop(bar);
        if self.shows_live() {
            print("\nthe whole time:\n\n")?;
        }
        let mut run = watch.stop(fresh.summary());
        if interrupted().load(Ordering::Relaxed) && self.watch.is_none() {
            run.validity.note(Verdict::Incomplete, "interrupted before the interval was over");
        }
        seen.finish(run, sink, power::tables(&fresh, &first, &last))
    }

    /// Blocks are for people: other formats hold the sum only.
    fn shows_live(&self) -> bool {
        self.watch.is_some() && self.output.format() == Format::Text && self.output.file().is_none()
    }
}

impl Seen {
    fn new() -> Self {
        let title = "Alerts";
        let alerts = Table::new("power_alerts", title, &["after_s", "cpu", "alert"]);
        Self { alerts, slow: BTreeSet::new() }
    }

    /// Tells what is new at once, and keeps it.
    fn look(&mut self, alerts: Vec<Alert>, at: Nanos) {
        let is_slow = |alert: &&Alert| matches!(alert, Alert::Slow { .. });
        let slow: BTreeSet<usize> = alerts.iter().filter(is_slow).map(Alert::cpu).collect();
        for alert in &alerts {
            if is_slow(&alert) && self.slow.contains(&alert.cpu()) {
                continue;
            }
            // Not Output::say: --quiet silences talk, not findings.
            eprintln!("quietcore: {}", alert.text());
            self.alerts.rows.push(vec![
                at.as_secs().into(),
                alert.cpu().into(),
                alert.text().into(),
            ]);
        }
        self.slow = slow;
    }

    fn finish(self, mut run: Run, sink: Sink, tables: Vec<Table>) -> anyhow::Result<Exit> {
        let alerted = !self.alerts.rows.is_empty();
        if alerted {
            run.sections.push(Section::Table(self.alerts));
        }
        run.sections.extend(tables.into_iter().map(Section::Table));
        sink.write(&run)?;
        Ok(Exit::findings(alerted))
    }
}

/// One block; on a terminal it replaces the one before.
fn show(facts: &Facts, first: &PowerReading, second: &PowerReading) -> anyhow::Result<()> {
    let mut run = new_run(vec!["quietcore".to_owned(), "power".to_owned()], facts.summary());
    run.took_ns = Nanos(second.at.0.saturating_sub(first.at.0));
    let tables = power::tables(facts, first, second);
    run.sections = tables.into_iter().map(Section::Table).collect();
    let text = render(&run, Format::Text, &Options::default())?;
    let home = if std::io::stdout().is_terminal() { "\x1b[H\x1b[J" } else { "" };
    print(&format!("{home}{text}"))?;
    Ok(())
}

/// Waits; whether to go on (it was not interrupted).
fn wait(length: Nanos, mut tick: impl FnMut()) -> bool {
    let start = Instant::now();
    while start.elapsed() < length.into() {
        if interrupted().load(Ordering::Relaxed) {
            return false;
        }
        tick();
        let rest = Duration::from(length).saturating_sub(start.elapsed());
        thread::sleep(rest.min(Duration::from_millis(100)));
    }
    !interrupted().load(Ordering::Relaxed)
}

/// Parses `60` as seconds, and any duration with its unit.
pub fn seconds(text: &str) -> Result<Nanos, String> {
    match text.parse::<u32>() {
        Ok(_) => duration(&format!("{text}s")),
        Err(_) => duration(text),
    }
}

/// Parses a share above 0, at most 1.
fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(format!("`{text}` is not a share: give a number above 0 and up to 1, as 0.9")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_to_watch_is_seconds() {
        assert_eq!(seconds("60"), Ok(Nanos::from_secs(60)));
        assert_eq!(seconds("500ms"), Ok(Nanos::from_ms(500)));
        assert!(seconds("0").is_err() && seconds("-1").is_err() && seconds("x").is_err());
    }

    #[test]
    fn a_share_is_above_zero_and_at_most_one() {
        assert_eq!(share("0.9"), Ok(0.9));
        for text in ["0", "-0.1", "1.1", "90", "nan", "inf", ""] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_cpu_that_stays_slow_is_told_once_and_again_when_it_falls_back() {
        let slow = || vec![Alert::Slow { cpu: 2, mhz: 800.0, base_mhz: 3400.0 }];
        let mut seen = Seen::new();
        seen.look(slow(), Nanos::from_secs(1));
        seen.look(slow(), Nanos::from_secs(2));
        seen.look(Vec::new(), Nanos::from_secs(3));
        seen.look(slow(), Nanos::from_secs(4));
        assert_eq!(seen.alerts.rows.len(), 2);
    }
}
