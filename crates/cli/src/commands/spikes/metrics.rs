//! What Prometheus is told.

use std::collections::BTreeMap;

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};
use prometheus::{Encoder, TextEncoder};
use quietcore_bpf::{Set, State};
use quietcore_measure::{Nanos, Spike};
use quietcore_spike::{Monitor, Tally};
use quietcore_sys::Host;

/// Names of processes that get series of their own; the others share one, lest a host that starts
/// thousands of programs fill the database.
const PROCESSES: usize = 100;
/// What the others are called.
const OTHER: &str = "other";

/// From which length on a spike is how bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Severity {
    warning: Nanos,
    critical: Nanos,
}

/// How bad a spike is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Info,
    Warning,
    Critical,
}

impl Level {
    const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Critical];

    fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl Severity {
    pub fn of(self, length: Nanos) -> Level {
        match length {
            length if length > self.critical => Level::Critical,
            length if length > self.warning => Level::Warning,
            _ => Level::Info,
        }
    }
}

/// Parses `100us,500us`.
pub(super) fn severity(text: &str) -> Result<Severity, String> {
    let parsed = text.split_once(',').and_then(|(warning, critical)| {
        Some(Severity { warning: warning.parse().ok()?, critical: critical.parse().ok()? })
    });
    match parsed {
        Some(severity) if severity.warning < severity.critical => Ok(severity),
        _ => Err(format!("`{text}` is not two lengths, the shorter first: write 100us,500us")),
    }
}

/// What was counted for Prometheus only.
#[derive(Debug)]
pub(super) struct Metrics {
    severity: Severity,
    processes: BTreeMap<String, Process>,
}

#[derive(Debug, Default)]
struct Process {
    /// In the order of [`Level::ALL`].
    spikes: [u64; 3],
    longest: Nanos,
}

impl Metrics {
    pub fn new(severity: Severity) -> Self {
        Self { severity, processes: BTreeMap::new() }
    }

    /// Counts a spike for its process, which the thread's own name stands for once it is gone.
    pub fn add(&mut self, spike: &Spike, host: &Host) {
        let name = host.line(&format!("/proc/{}/comm", spike.thread.pid));
        self.count(name.unwrap_or_else(|_| spike.thread.comm.clone()), spike.len_ns);
    }

    fn count(&mut self, mut name: String, length: Nanos) {
        if !self.processes.contains_key(&name) && self.processes.len() >= PROCESSES {
            name = OTHER.to_owned();
        }
        let process = self.processes.entry(name).or_default();
        process.spikes[self.severity.of(length) as usize] += 1;
        process.longest = process.longest.max(length);
    }

    /// Everything in Prometheus' text format.
    pub fn text(&self, monitor: &Monitor, tally: &Tally) -> anyhow::Result<String> {
        let counts = monitor.counts()?;
        let histograms = monitor.timeline().histograms()?;
        let mut families = self.of_processes();
        let kinds = tally
            .kinds()
            .map(|of| counter(&[("kind", of.kind.name())], of.spikes))
            .filter(|metric| metric.get_counter().get_value() > 0.0);
        families.push(family(
            "quietcore_spikes_total",
            "Spikes by the kind of their largest part",
            MetricType::COUNTER,
            kinds.collect(),
        ));
        for (name, help, value) in [
            ("quietcore_spikes_lost_total", "Spikes lost for want of room", counts.dropped),
            (
                "quietcore_spikes_incomplete_total",
                "Spikes that may not be explained whole",
                tally.incomplete(),
            ),
            ("quietcore_waits_total", "Waits of watched threads, of any length", counts.waits),
            ("quietcore_sleeps_total", "Sleeps that were asked for", counts.voluntary_sleeps),
            ("quietcore_switches_total", "Context switches of all CPUs", counts.switches),
        ] {
            families.push(family(name, help, MetricType::COUNTER, vec![counter(&[], value)]));
        }
        for (name, help, of) in [
            ("quietcore_blocked_seconds", "Time blocked until woken", &histograms.blocked),
            ("quietcore_run_queue_seconds", "Time on a run queue", &histograms.run_queue),
        ] {
            families.push(family(name, help, MetricType::HISTOGRAM, vec![histogram(of)]));
        }
        families.extend(attached(monitor));
        // Families without series have nothing to say, and the encoder refuses them.
        families.retain(|family| !family.get_metric().is_empty());
        let mut text = Vec::new();
        TextEncoder::new().encode(&families, &mut text)?;
        Ok(String::from_utf8(text)?)
    }

    fn of_processes(&self) -> Vec<MetricFamily> {
        let spikes = self.processes.iter().flat_map(|(name, process)| {
            Level::ALL.map(|level| {
                let labels = [("process", name.as_str()), ("severity", level.name())];
                counter(&labels, process.spikes[level as usize])
            })
        });
        let longest = self.processes.iter().map(|(name, process)| {
            let labels = [("process", name.as_str())];
            gauge(&labels, process.longest.as_us())
        });
        vec![
            family(
                "trading_off_cpu_spikes_total",
                "Number of off-CPU events above the threshold",
                MetricType::COUNTER,
                spikes.collect(),
            ),
            family(
                "trading_off_cpu_max_us",
                "Longest off-CPU event seen, in microseconds",
                MetricType::GAUGE,
                longest.collect(),
            ),
        ]
    }
}

/// Whether what was asked for works.
fn attached(monitor: &Monitor) -> Vec<MetricFamily> {
    let programs = monitor.health().iter().filter_map(|one| {
        let works = match one.state {
            State::Ok => 1.0,
            State::Unsupported(_) | State::Broken(_) => 0.0,
            State::NotApplicable(_) => return None,
        };
        let set = Set::of(one.program).map_or("", Set::name);
        Some(gauge(&[("program", one.program), ("set", set)], works))
    });
    let took = gauge(&[], monitor.timeline().attached_in().as_secs());
    vec![
        family(
            "quietcore_program_attached",
            "1 where a BPF program that was asked for works, 0 where it cannot",
            MetricType::GAUGE,
            programs.collect(),
        ),
        family(
            "quietcore_attach_seconds",
            "How long attaching took",
            MetricType::GAUGE,
            vec![took],
        ),
    ]
}

fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn labelled(labels: &[(&str, &str)]) -> Metric {
    let pair = |&(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value.to_owned());
        pair
    };
    Metric::from_label(labels.iter().map(pair).collect())
}

fn counter(labels: &[(&str, &str)], value: u64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(value as f64);
    let mut metric = labelled(labels);
    metric.set_counter(counter);
    metric
}

fn gauge(labels: &[(&str, &str)], value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = labelled(labels);
    metric.set_gauge(gauge);
    metric
}

/// From a microsecond to seventeen seconds; what is shorter or longer is in the first or the last.
fn histogram(of: &quietcore_bpf::Histogram) -> Metric {
    const SHORTEST: u64 = 1 << 10;
    const LONGEST: u64 = 1 << 34;
    let within = |&(below, _): &(u64, u64)| (SHORTEST..=LONGEST).contains(&below);
    let bucket = |(below_ns, count): (u64, u64)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(below_ns as f64 / 1e9);
        bucket.set_cumulative_count(count);
        bucket
    };
    let mut histogram = Histogram::default();
    histogram.set_bucket(of.below_powers_of_two().filter(within).map(bucket).collect());
    histogram.set_sample_count(of.count());
    histogram.set_sample_sum(of.sum_ns as f64 / 1e9);
    let mut metric = labelled(&[]);
    metric.set_histogram(histogram);
    metric
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> Metrics {
        Metrics::new(severity("100us,500us").unwrap())
    }

    fn written(families: &[MetricFamily]) -> String {
        let mut text = Vec::new();
        TextEncoder::new().encode(families, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn spikes_are_counted_by_process_and_severity() {
        let mut metrics = metrics();
        for us in [100, 101, 500, 501, 900] {
            metrics.count("engine".to_owned(), Nanos::from_us(us));
        }
        let text = written(&metrics.of_processes());
        for line in [
            "# TYPE trading_off_cpu_spikes_total counter",
            "trading_off_cpu_spikes_total{process=\"engine\",severity=\"info\"} 1",
            "trading_off_cpu_spikes_total{process=\"engine\",severity=\"warning\"} 2",
            "trading_off_cpu_spikes_total{process=\"engine\",severity=\"critical\"} 2",
            "trading_off_cpu_max_us{process=\"engine\"} 900",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn names_beyond_the_limit_share_a_series() {
        let mut metrics = metrics();
        for i in 0..PROCESSES * 3 {
            metrics.count(format!("p{i}"), Nanos::from_us(1));
        }
        assert_eq!(metrics.processes.len(), PROCESSES + 1);
        assert_eq!(metrics.processes[OTHER].spikes[0], 2 * PROCESSES as u64);
    }

    #[test]
    fn a_name_cannot_break_out_of_its_label() {
        let mut metrics = metrics();
        metrics.count("a\"} 1\nevil_total{x=\"\\".to_owned(), Nanos::from_us(1));
        let text = written(&metrics.of_processes());
        assert!(!text.lines().any(|line| line.starts_with("evil")), "{text}");
    }

    #[test]
    fn buckets_of_a_histogram_add_up() {
        let mut counts = vec![0; 256];
        // Shorter than a microsecond, two of a millisecond, one of a minute.
        (counts[8 * 4], counts[20 * 4], counts[36 * 4]) = (5, 2, 1);
        let of = quietcore_bpf::Histogram { counts, sum_ns: 3_000_000_000 };
        let text =
            written(&[family("x_seconds", "x", MetricType::HISTOGRAM, vec![histogram(&of)])]);
        for line in [
            "x_seconds_bucket{le=\"0.000001024\"} 5",
            "x_seconds_bucket{le=\"0.001048576\"} 5",
            "x_seconds_bucket{le=\"0.002097152\"} 7",
            "x_seconds_bucket{le=\"+Inf\"} 8",
            "x_seconds_sum 3",
            "x_seconds_count 8",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn severities_are_two_lengths_in_order() {
        let default = severity("100us,500us").unwrap();
        assert_eq!(default.of(Nanos::from_us(500)), Level::Warning);
        for wrong in ["", "100us", "500us,100us", "100us,100us", "a,b", "1us,2us,3us"] {
            assert!(severity(wrong).is_err(), "{wrong}");
        }
    }
}
