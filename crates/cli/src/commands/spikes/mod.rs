//! `quietcore spikes`: every wait over a threshold, as it happens, and what it was made of.

mod endpoint;
mod metrics;
mod stream;
mod tables;
mod target;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args};
use jiff::Zoned;
use jiff::civil::Time;
use quietcore_bpf::{BpfError, Set, Settings, Timeline};
use quietcore_console::{Exit, NotPossible, Output, Sink, Stopwatch, cpus, duration, interrupted};
use quietcore_facts::Facts;
use quietcore_measure::{CpuSet, Nanos, Run, Verdict};
use quietcore_spike::{Monitor, Tally, syscalls};
use quietcore_sys::Host;

use super::trace::{OpenTrace, Trace};
use endpoint::Endpoint;
use metrics::{Metrics, Severity};
use stream::{Live, Stream};
use target::Target;

/// How often it looks whether what is watched still lives.
const LOOK: Duration = Duration::from_secs(1);

/// Watch threads, processes or CPUs for spikes, and name the cause of each
///
/// Whenever a watched thread did not run for longer than the threshold, it says how long, and what
/// that time was made of: blocked and on what, woken by whom, behind whom on the run queue, which
/// interrupts came in between. Sleeps that were asked for (nanosleep, epoll_wait, …) count from the
/// moment when they were to end. Needs CAP_BPF and CAP_PERFMON, or root; CAP_SYSLOG adds the names
/// of the kernel's functions, CAP_SYS_RESOURCE is needed before Linux 5.11. Changes nothing; what it
/// attached goes with it, however it ends. Ctrl-C ends it and prints the result. Exit code 1 if
/// there was a spike.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("whom").required(true).args(["pid", "tid", "watched", "all"]),
    after_help = "\
EXAMPLES:
    quietcore spikes --pid 812                             one process until Ctrl-C
    quietcore spikes --cpus 2-3 --threshold 20us           whatever runs on these CPUs
    quietcore spikes --all --duration 10s -o spikes.html   who waited longest, drawn
    quietcore spikes --tid 815 --live jsonl | jq .         every spike as a line of JSON
    quietcore spikes --pid 812 --metrics 127.0.0.1:9101    for Prometheus, until Ctrl-C"
)]
pub struct Spikes {
    /// All threads of these processes
    #[arg(long, value_name = "PID", num_args = 1.., value_delimiter = ',')]
    pid: Vec<u32>,

    /// These threads
    #[arg(long, value_name = "TID", num_args = 1.., value_delimiter = ',')]
    tid: Vec<u32>,

    /// Whatever runs on these CPUs
    #[arg(id = "watched", long = "cpus", value_name = "LIST", value_parser = cpus)]
    cpus: Option<CpuSet>,

    /// Every thread of this host but quietcore's own
    #[arg(long)]
    all: bool,

    /// What counts as a spike
    #[arg(long, value_name = "DURATION", default_value = "50us", value_parser = duration)]
    threshold: Nanos,

    /// How long to watch [default: until Ctrl-C, or until what is watched has ended]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    duration: Option<Nanos>,

    /// What is recorded besides waits: more explains more and costs more
    #[arg(
        long,
        value_name = "SETS",
        value_delimiter = ',',
        default_value = "sched,idle,irq",
        value_parser = sets(),
    )]
    probe: Vec<Probe>,

    /// From where on a spike is a warning, and critical
    #[arg(
        long,
        value_name = "WARNING,CRITICAL",
        default_value = "100us,500us",
        value_parser = metrics::severity,
    )]
    severity: Severity,

    /// Count sleeps that were asked for as spikes, too
    #[arg(long)]
    include_sleeps: bool,

    /// Serve counters and histograms to Prometheus here, under /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,

    /// Attach at this time of day (local), out of trading hours
    ///
    /// Attaching stops no program, but it takes the kernel some milliseconds.
    #[arg(long, value_name = "HH:MM", value_parser = time_of_day)]
    attach_at: Option<Time>,

    /// How spikes are shown as they happen, on stdout [default: text on a terminal, else none]
    ///
    /// With jsonl stdout holds nothing else: -o FILE keeps the result.
    #[arg(long, value_name = "HOW")]
    live: Option<Live>,

    #[command(flatten)]
    trace: Trace,

    #[command(flatten)]
    output: Output,
}

/// A set of programs, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Only(Set),
    All,
}

fn sets() -> impl TypedValueParser<Value = Probe> {
    let names = Set::ALL.iter().map(|set| set.name()).chain(["all"]);
    PossibleValuesParser::new(names).map(|name| {
        let known = Set::ALL.into_iter().find(|set| set.name() == name);
        known.map_or(Probe::All, Probe::Only)
    })
}

/// Parses `17:30`.
fn time_of_day(text: &str) -> Result<Time, String> {
    let well_formed = text.len() == 5 && text.as_bytes()[2] == b':';
    let time = Time::strptime("%H:%M", text).ok().filter(|_| well_formed);
    time.ok_or_else(|| format!("`{text}` is not a time of day: write 07:30 or 17:05"))
}

impl Spikes {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let live = Live::choose(self.live, &self.output)?;
        // Stdout belongs to the lines of JSON.
        let sink = match live == Live::Jsonl && self.output.file().is_none() {
            true => None,
            false => Some(self.output.open()?),
        };
        let trace = self.trace.open()?;
        let facts = Facts::of(Host::live());
        let target = Target::find(&self, &facts)?;
        let endpoint = self.metrics.map(Endpoint::bind).transpose()?;
        Timeline::possible().map_err(not_possible)?;
        // From here on Ctrl-C ends it in order.
        interrupted();
        if let Some(time) = self.attach_at {
            wait_until(time, &self.output)?;
        }
        let place = target.keep_away();
        let mut monitor =
            Monitor::start(&self.settings(&target), facts.host()).map_err(not_possible)?;
        self.announce(&target, &monitor);
        for pid in target.processes(facts.host()) {
            self.watch_runtime(&mut monitor, pid);
        }
        if let Some(endpoint) = &endpoint {
            endpoint.serve()?;
            self.output.say(format_args!("metrics: http://{}/metrics", endpoint.address()));
        }

        let mut seen = Seen {
            tally: Tally::new(self.threshold),
            metrics: Metrics::new(self.severity),
            stream: Stream::new(live, self.severity, &self.output),
        };
        let end = self.watch(&target, &mut monitor, &mut seen, endpoint.as_ref(), facts.host())?;
        let run = watch.stop(facts.summary());
        self.finish(run, &monitor, seen, (end, &place), (sink, trace))
    }

    fn settings(&self, target: &Target) -> Settings {
        let wanted =
            |set: &Set| self.probe.contains(&Probe::All) || self.probe.contains(&Probe::Only(*set));
        let mut settings = Settings::new(target.watch.clone(), self.threshold);
        settings.sets = Set::ALL.into_iter().filter(wanted).collect();
        if !self.include_sleeps {
            settings.voluntary = syscalls::asked_to_sleep();
            settings.timed = syscalls::locks();
        }
        settings
    }

    fn announce(&self, target: &Target, monitor: &Monitor) {
        let (works, asked, missing) = tables::programs(monitor.health());
        for line in missing {
            self.output.say(format_args!("not here: {line}"));
        }
        let ends = if self.duration.is_none() { "; Ctrl-C ends it" } else { "" };
        self.output.say(format_args!(
            "attached {works} of {asked} programs in {}; watching {target} for waits of {} and \
             more{ends}",
            monitor.timeline().attached_in(),
            self.threshold
        ));
    }

    /// What a thread of such a process blocks on while all of it is stopped is only the means.
    fn watch_runtime(&self, monitor: &mut Monitor, pid: u32) {
        match monitor.watch_pauses(pid) {
            Ok(runtimes) if runtimes.is_empty() => {}
            Ok(runtimes) => {
                let names: Vec<&str> = runtimes.iter().map(|runtime| runtime.name()).collect();
                let names = names.join(", ");
                self.output.say(format_args!("process {pid}: watching for stops by {names}"));
            }
            Err(why) => self.output.say(format_args!("stops of process {pid}: {why}")),
        }
    }

    fn watch(
        &self,
        target: &Target,
        monitor: &mut Monitor,
        seen: &mut Seen,
        endpoint: Option<&Endpoint>,
        host: &Host,
    ) -> anyhow::Result<End> {
        let start = Instant::now();
        let limit = self.duration.map(Duration::from);
        let mut looked = start;
        loop {
            let rest = limit.map(|limit| limit.saturating_sub(start.elapsed()));
            let patience = monitor.patience();
            thread::sleep(rest.map_or(patience, |rest| rest.min(patience)));
            // Asked before the last drain, so that it misses nothing of what came before.
            let end = if interrupted().load(Ordering::Relaxed) {
                Some(End::Interrupted)
            } else if limit.is_some_and(|limit| start.elapsed() >= limit) {
                Some(End::Time)
            } else if looked.elapsed() >= LOOK {
                looked = Instant::now();
                (!target.lives(host)).then_some(End::Gone)
            } else {
                None
            };
            for spike in monitor.spikes()? {
                if endpoint.is_some() {
                    seen.metrics.add(&spike, host);
                }
                seen.stream.show(&spike)?;
                seen.tally.add(spike);
            }
            seen.stream.catch_up()?;
            if let Some(endpoint) = endpoint {
                endpoint.answer(|| seen.metrics.text(monitor, &seen.tally))?;
            }
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    fn finish(
        &self,
        mut run: Run,
        monitor: &Monitor,
        seen: Seen,
        (end, place): (End, &CpuSet),
        (sink, trace): (Option<Sink>, OpenTrace),
    ) -> anyhow::Result<Exit> {
        seen.stream.end()?;
        let counts = monitor.counts()?;
        let (found, incomplete) = (seen.tally.count(), seen.tally.incomplete());
        let validity = &mut run.validity;
        match end {
            End::Interrupted if self.duration.is_some() => {
                validity.note(Verdict::Incomplete, "stopped before its time");
            }
            End::Gone if self.duration.is_some() => {
                validity.note(Verdict::Incomplete, "what was watched ended before its time");
            }
            End::Interrupted | End::Gone | End::Time => {}
        }
        if counts.dropped > 0 {
            validity.lost_events += counts.dropped;
            validity.note(Verdict::Incomplete, "there was no room for every spike");
        }
        if incomplete > 0 {
            let note = format!("{incomplete} of {found} spikes may not be explained whole");
            validity.note(Verdict::Incomplete, note);
        }
        let title = format!("Spikes of {} and more", self.threshold);
        run.sections = seen.tally.sections("spikes", &title);
        run.sections.extend(tables::all(monitor, place)?);
        // Both are tried: one full disk must not cost the other result.
        let traced = trace.write(&run);
        match sink {
            Some(sink) => sink.write(&run)?,
            None => self.output.say(format_args!("{found} spikes")),
        }
        traced?;
        Ok(Exit::findings(found > 0))
    }
}

/// What became of the spikes so far.
struct Seen {
    tally: Tally,
    metrics: Metrics,
    stream: Stream,
}

/// Why watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Time,
    Interrupted,
    Gone,
}

/// Sleeps until the next such time of day.
fn wait_until(time: Time, output: &Output) -> anyhow::Result<()> {
    let now = Zoned::now();
    let today = now.date().to_datetime(time).to_zoned(now.time_zone().clone())?;
    let at = match today > now {
        true => today,
        false => now.date().tomorrow()?.to_datetime(time).to_zoned(now.time_zone().clone())?,
    };
    output.say(format_args!("attaching at {}", at.strftime("%F %H:%M %Z")));
    while Zoned::now() < at {
        if interrupted().load(Ordering::Relaxed) {
            bail!("interrupted before anything was attached");
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// What this host can never do is not an error of the command line.
fn not_possible(error: BpfError) -> anyhow::Error {
    match error.not_possible_here() {
        true => NotPossible::new(error.to_string()).into(),
        false => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_has_two_digits_each() {
        assert_eq!(time_of_day("07:30").map(|time| (time.hour(), time.minute())), Ok((7, 30)));
        for wrong in ["7:30", "24:00", "17:60", "17.30", "now", "", "17:30:00", "é:30"] {
            assert!(time_of_day(wrong).is_err(), "{wrong}");
        }
    }
}
