//! A made-up run with every kind of section. The figures are invented but not implausible, and
//! the same every time.

use std::collections::BTreeMap;

use quietcore_measure::{
    Cause, Cell, Comparison, ComparisonRow, Distribution, Evidence, Finding, Findings, Hist,
    HistConfig, HostSummary, Impact, Kind, KindCount, Nanos, Run, SCHEMA, Section, Segment, Series,
    Spike, Spikes, Status, Table, Thread, Timeline, Validity, Verdict, Waiver,
};
use serde_json::Value;

/// What a tour of a badly tuned host looks like.
pub fn run() -> Run {
    let mut validity = Validity { lost_events: 12, ..Validity::default() };
    validity.note(Verdict::Disturbed, "CPU 2: 132 involuntary switches while it was measured");
    validity.note(Verdict::Incomplete, "12 kernel events were lost: the ring was too small");
    let mut sections = vec![Section::Findings(Findings::new("audit", findings()))];
    let gaps: Vec<(&str, Gaps)> = vec![
        ("2", Gaps { seed: 7, samples: 1_204_331, rare: 400, reach: 2_000 }),
        ("3", Gaps { seed: 11, samples: 12_004, rare: 90, reach: 300 }),
    ];
    for (cpu, gaps) in &gaps {
        let hist = gaps.hist();
        let section = Distribution::of("jitter_gap", "ns", &[("cpu", cpu)], &hist);
        sections.push(Section::Distribution(section));
    }
    let series = gaps.iter().map(|(cpu, gaps)| gaps.series(cpu)).collect();
    sections.push(Section::Timeline(Timeline {
        name: "jitter_gaps".into(),
        title: "Gaps above 2 µs".into(),
        unit: "ns".into(),
        span_ns: 10_000_000_000,
        series,
    }));
    sections.push(Section::Table(idle_states()));
    sections.push(Section::Comparison(comparison()));
    sections.push(Section::Spikes(spikes()));
    Run {
        schema: SCHEMA,
        quietcore: "0.1.0".into(),
        command: ["quietcore", "tour", "--cpus", "2-3", "-o", "tour.html"].map(String::from).into(),
        started_unix_ms: 1_773_480_413_000,
        took_ns: Nanos::from_ms(62_400),
        host: HostSummary {
            name: "trading-1".into(),
            kernel: "6.1.0-18-amd64".into(),
            cpu: "AMD EPYC 7763 64-Core Processor".into(),
            online: "0-3".into(),
            hypervisor: "kvm".into(),
            memory_bytes: 16_777_216_000,
            recorded: false,
        },
        validity,
        sections,
    }
}

/// A run whose every text tries to break out of wherever it is put.
pub fn hostile(text: &str) -> Run {
    let mut value = serde_json::to_value(run()).unwrap();
    replace_texts(&mut value, text);
    let mut run: Run = serde_json::from_value(value).unwrap();
    for section in &mut run.sections {
        if let Section::Comparison(comparison) = section {
            comparison.rows.iter_mut().for_each(|row| row.verdict = text.to_owned());
        }
    }
    run
}

/// Replaces texts, but not the names that the schema itself gives.
fn replace_texts(value: &mut Value, text: &str) {
    const FIXED: [&str; 7] = ["type", "kind", "cause", "status", "verdict", "hist", "counts"];
    match value {
        Value::String(s) => *s = text.to_owned(),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_texts(item, text)),
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut().filter(|(key, _)| !FIXED.contains(&key.as_str()))
            {
                match field {
                    Value::Object(labels) if key == "labels" => {
                        labels.clear();
                        labels.insert(text.to_owned(), Value::String(text.to_owned()));
                    }
                    other => replace_texts(other, text),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Gaps of a spinning loop: mostly the loop itself, a few interrupts, rarely something worse.
struct Gaps {
    seed: u64,
    samples: u64,
    rare: u64,
    reach: u64,
}

impl Gaps {
    fn values(&self) -> impl Iterator<Item = u64> + '_ {
        let mut random = Random(self.seed);
        (0..self.samples).map(move |_| {
            let (common, rare) = (random.next(), random.next() % 1_000_000);
            match rare {
                r if r < self.rare / 20 => 20_000 + common % (self.reach * 190),
                r if r < self.rare => 3_000 + common % (self.reach * 6) + common % 1_700,
                r if r < 20_000 => 140 + common % 700,
                _ => 84 + (common % 9) * (common >> 8 & 3) / 2,
            }
        })
    }

    fn hist(&self) -> Hist {
        let mut hist = Hist::new(HistConfig::default());
        self.values().for_each(|value| hist.record(value));
        hist
    }

    fn series(&self, cpu: &str) -> Series {
        let step = 10_000_000_000 / self.samples;
        let large = self.values().enumerate().filter(|&(_, value)| value > 2_000);
        let points: Vec<_> = large.map(|(i, value)| (i as u64 * step, value as f64)).collect();
        Series { labels: labels(&[("cpu", cpu)]), points, omitted: 0 }
    }
}

/// Knuth's linear congruential generator, upper half.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn finding(
    (id, cause, status): (&str, Cause, Status),
    title: &str,
    evidence: &[(&str, &str)],
    (us, text, origin): (f64, &str, &str),
    fix: Option<&str>,
) -> Finding {
    let read =
        |&(source, value): &(&str, &str)| Evidence { source: source.into(), value: value.into() };
    Finding {
        id: id.into(),
        cause,
        status,
        title: title.into(),
        evidence: evidence.iter().map(read).collect(),
        impact: Impact { us, text: text.into(), origin: origin.into() },
        fix: fix.map(String::from),
        knob: None,
        waiver: None,
    }
}

fn findings() -> Vec<Finding> {
    let mut waived = finding(
        ("virt.steal", Cause::Virtualisation, Status::Waived),
        "the hypervisor took 0.8 % of CPU 2",
        &[("/proc/stat", "cpu2 steal +16 ticks in 2 s")],
        (1_000.0, "a host time slice, 1 to 4 ms, a few times a second", "measured by this probe"),
        None,
    );
    waived.waiver = Some(Waiver {
        reason: "the lab runs on a shared host until the move".into(),
        expires: "2026-06-30".into(),
    });
    vec![
        finding(
            ("irq.effective-affinity", Cause::Irq, Status::Fail),
            "IRQ 24 (nvme0q1) and IRQ 31 (ens5-Tx-Rx-2) fire on CPU 2, 132 times in 2 s",
            &[
                ("/proc/irq/24/effective_affinity_list", "2"),
                ("/proc/irq/31/effective_affinity_list", "2"),
                ("/proc/interrupts", "CPU2 +132 in 2.0 s"),
            ],
            (
                20.0,
                "8 to 20 µs for each interrupt and its softirq, 66 a second",
                "kernel documentation, core-api/irq/irq-affinity",
            ),
            Some(
                "echo 0-1 > /proc/irq/24/smp_affinity_list\necho 0-1 > /proc/irq/31/smp_affinity_list",
            ),
        ),
        finding(
            ("power.idle-states", Cause::CState, Status::Fail),
            "CPUs 2-3 may enter C6, which takes 133 µs to leave",
            &[
                ("/sys/devices/system/cpu/cpu2/cpuidle/state3/latency", "133"),
                ("/sys/devices/system/cpu/cpu2/cpuidle/state3/disable", "0"),
            ],
            (
                133.0,
                "up to 133 µs at the first packet after a pause",
                "the driver's own exit latency",
            ),
            Some("quietcore apply --cpus 2-3 --profile trading"),
        ),
        finding(
            ("sched.rt-throttling", Cause::Scheduler, Status::Fail),
            "a SCHED_FIFO spinner loses 50 ms of every second",
            &[("/proc/sys/kernel/sched_rt_runtime_us", "950000")],
            (50_000.0, "50 ms once a second for a thread that never sleeps", "measured"),
            Some("sysctl -w kernel.sched_rt_runtime_us=-1"),
        ),
        finding(
            ("tick.nohz-full", Cause::Tick, Status::Warn),
            "the tick fires 250 times a second on CPUs 2-3",
            &[("/proc/interrupts LOC", "CPU2 +500 in 2.0 s")],
            (4.0, "2 to 4 µs, 250 times a second", "article 1"),
            Some("add nohz_full=2-3 to the kernel command line"),
        ),
        finding(
            ("memory.thp", Cause::Memory, Status::Warn),
            "huge pages are assembled in the fault path",
            &[("/sys/kernel/mm/transparent_hugepage/defrag", "always")],
            (
                900.0,
                "up to 900 µs for a fault that compacts memory",
                "kernel documentation, admin-guide/mm/transhuge",
            ),
            Some("echo madvise > /sys/kernel/mm/transparent_hugepage/defrag"),
        ),
        finding(
            ("rcu.nocbs", Cause::Rcu, Status::Unknown),
            "whether RCU callbacks are offloaded cannot be told: the boot log has wrapped",
            &[("/dev/kmsg", "first line is 8123 s after boot")],
            (300.0, "up to 300 µs for a batch of callbacks", "article 2"),
            None,
        ),
        waived,
        finding(
            ("clock.source", Cause::Clock, Status::Pass),
            "the clock source is tsc",
            &[("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc")],
            (1.0, "a system call for each reading of the clock", "measured"),
            None,
        ),
        finding(
            ("memory.swap", Cause::Memory, Status::Pass),
            "no swap is in use",
            &[("/proc/swaps", "no entries")],
            (0.0, "", ""),
            None,
        ),
        finding(
            ("numa.balancing", Cause::Numa, Status::NotApplicable),
            "there is one memory node",
            &[("/sys/devices/system/node/online", "0")],
            (0.0, "", ""),
            None,
        ),
    ]
}

fn idle_states() -> Table {
    let mut table = Table::new(
        "power_idle_states",
        "Idle states",
        &["cpu", "state", "exit_latency_us", "residency_pct", "entered", "disabled"],
    );
    for cpu in 2..4i64 {
        for (state, latency, residency) in [("POLL", 0, 0.01), ("C1", 2, 12.5), ("C6", 133, 87.49)]
        {
            let entered: Cell = if state == "POLL" {
                Cell::Unsupported { unsupported: "the driver does not count polling".into() }
            } else {
                Cell::Int(90_210 / latency)
            };
            table.rows.push(vec![
                cpu.into(),
                state.into(),
                latency.into(),
                residency.into(),
                entered,
                false.into(),
            ]);
        }
    }
    table.rows.push(vec![
        1i64.into(),
        "C1".into(),
        Cell::Failed { failed: "EIO reading residency".into() },
        Cell::Empty,
        Cell::Empty,
        true.into(),
    ]);
    table
}

fn spikes() -> Spikes {
    let part = |at: u64, len: u64, kind: Kind, by: &str, evidence: &[&str]| Segment {
        at_ns: Nanos::from_us(at),
        len_ns: Nanos::from_us(len),
        kind,
        by: by.into(),
        evidence: evidence.iter().map(|&line| line.to_owned()).collect(),
    };
    let spike = Spike {
        start_ns: 62_000_000_000,
        len_ns: Nanos::from_us(900),
        thread: Thread { tid: 815, pid: 812, comm: "tx-0".into() },
        cpu: 2,
        segments: vec![
            part(0, 620, Kind::Lock, "book (tid 816)", &["sched_switch CPU 2 at +0 ns: it left"]),
            part(620, 20, Kind::WakeIpi, "", &[]),
            part(640, 260, Kind::RunQueue, "kworker/2:1 (tid 99)", &["it came, priority 120"]),
        ],
        incomplete: Some("events of CPU 3 were overwritten".into()),
        stack: vec!["futex_wait".into(), "lock_book".into()],
    };
    let count = |kind, spikes, total, max| KindCount {
        kind,
        spikes,
        total_ns: Nanos::from_us(total),
        max_ns: Nanos::from_us(max),
    };
    Spikes {
        name: "spikes".into(),
        title: "Spikes of 50.0 µs and more".into(),
        threshold_ns: Nanos::from_us(50),
        kinds: vec![
            count(Kind::Lock, 2, 710, 900),
            count(Kind::RunQueue, 1, 330, 70),
            count(Kind::WakeIpi, 0, 20, 0),
        ],
        spikes: vec![spike],
        omitted: 2,
    }
}

fn comparison() -> Comparison {
    let row = |what: &str, a: Cell, b: Cell, change: Option<(f64, [f64; 2])>, verdict: &str| {
        ComparisonRow {
            what: what.into(),
            a,
            b,
            change_pct: change.map(|(pct, _)| pct),
            ci95_pct: change.map(|(_, ci)| ci),
            verdict: verdict.into(),
        }
    };
    Comparison {
        name: "compare".into(),
        a: "trading-1, before (2026-03-14 09:26 UTC)".into(),
        b: "trading-1, profile trading (2026-03-14 10:02 UTC)".into(),
        rows: vec![
            row(
                "jitter_gap{cpu=2} p50",
                86i64.into(),
                86i64.into(),
                Some((0.0, [-0.8, 0.8])),
                "same",
            ),
            row(
                "jitter_gap{cpu=2} p99_9",
                9_120i64.into(),
                3_430i64.into(),
                Some((-62.4, [-66.0, -58.1])),
                "better",
            ),
            row(
                "jitter_gap{cpu=3} p99",
                412i64.into(),
                498i64.into(),
                Some((20.9, [4.2, 41.3])),
                "worse",
            ),
            row("jitter_gap{cpu=3} p99_99", Cell::Empty, Cell::Empty, None, "not provable"),
            row("audit irq.effective-affinity", "fail".into(), "pass".into(), None, "better"),
        ],
    }
}
