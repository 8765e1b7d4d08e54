//! Measurements as sections of a run.

use std::io::{self, Write};

use quietcore_measure::{Cell, Distribution, Gap, Section, Series, Table, Timeline};
use quietcore_sys::tsc::Clock;

use crate::article::Article;
use crate::jitter::{CpuJitter, Jitter};
use crate::surroundings::{Around, Surroundings};
use crate::wake::{CpuWake, Wake};

/// A time line of more points is a smear; the longest gaps are the ones to look at.
const TIMELINE_POINTS: usize = 4_000;

/// Interrupts by what raised them, as a summary; `jitter_interrupts` names each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kinds {
    timer: u64,
    /// From other CPUs: rescheduling, function calls, TLB shootdowns.
    ipi: u64,
    device: u64,
    other: u64,
}

impl Kinds {
    fn of(around: &Around, surroundings: &Surroundings) -> Self {
        let mut kinds = Self::default();
        for (label, count) in &around.interrupts {
            let name = surroundings.names.get(label).map_or("", String::as_str);
            let kind = match label.as_str() {
                "LOC" => &mut kinds.timer,
                // A per-CPU device interrupt on arm64.
                _ if name.contains("arch_timer") => &mut kinds.timer,
                "RES" | "CAL" | "TLB" => &mut kinds.ipi,
                label if label.starts_with("IPI") => &mut kinds.ipi,
                label if label.bytes().all(|byte| byte.is_ascii_digit()) => &mut kinds.device,
                _ => &mut kinds.other,
            };
            *kind += count;
        }
        kinds
    }
}

impl Jitter {
    /// Tables `jitter`, `jitter_surroundings`, `jitter_interrupts` and `jitter_clock`,
    /// distributions `jitter_loop` and `jitter_gap` by CPU, time line `jitter_gaps`.
    pub fn sections(&self) -> Vec<Section> {
        let mut sections = vec![Section::Table(self.table())];
        for cpu in &self.cpus {
            let label = cpu.cpu.to_string();
            let of = |name, hist| Distribution::of(name, "ns", &[("cpu", &label)], hist);
            sections.push(Section::Distribution(of("jitter_loop", &cpu.turns)));
            sections.push(Section::Distribution(of("jitter_gap", &cpu.gap_lengths)));
        }
        sections.push(Section::Timeline(self.timeline()));
        sections.extend(self.surroundings.sections("jitter"));
        sections.push(Section::Table(clock_table("jitter_clock", &self.clock)));
        sections
    }

    fn table(&self) -> Table {
        let columns = [
            "cpu",
            "loop_p50_ticks",
            "gaps",
            "gaps_per_s",
            "stolen_ppm",
            "longest_ns",
            "timer_irqs",
            "ipis",
            "device_irqs",
            "other_irqs",
            "threshold_ns",
            "own_ppm",
        ];
        let mut table = Table::new("jitter", "Gaps of the spinning CPUs", &columns);
        for cpu in &self.cpus {
            let around = self.surroundings.cpus.iter().find(|around| around.cpu == cpu.cpu);
            let kinds = around.map(|around| Kinds::of(around, &self.surroundings));
            let kind = |of: fn(&Kinds) -> u64| kinds.as_ref().map_or(Cell::Empty, |k| of(k).into());
            table.rows.push(vec![
                cpu.cpu.into(),
                cpu.median_ticks.into(),
                cpu.gap_count.into(),
                rounded(cpu.gaps_per_second()),
                rounded(cpu.stolen_ppm()),
                cpu.gap_lengths.max().map_or(Cell::Empty, Cell::from),
                kind(|k| k.timer),
                kind(|k| k.ipi),
                kind(|k| k.device),
                kind(|k| k.other),
                cpu.threshold.0.into(),
                rounded(cpu.own.0 as f64 / cpu.elapsed.0.max(1) as f64 * 1e6),
            ]);
        }
        table
    }

    fn timeline(&self) -> Timeline {
        let end = |cpu: &CpuJitter| cpu.late + cpu.elapsed;
        Timeline {
            name: "jitter_gaps".to_owned(),
            title: "Gaps over time".to_owned(),
            unit: "ns".to_owned(),
            span_ns: self.cpus.iter().map(end).max().unwrap_or_default().0,
            series: self.cpus.iter().map(|cpu| series(cpu, self.start_ns)).collect(),
        }
    }

    /// Writes every gap that was kept as a line `cpu start_ns len_ns`, by CPU and by time; the
    /// start is on CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_raw(&self, mut out: impl Write) -> io::Result<()> {
        for cpu in &self.cpus {
            for gap in &cpu.gaps {
                writeln!(out, "{} {} {}", cpu.cpu, gap.start_ns, gap.len_ns.0)?;
            }
        }
        out.flush()
    }
}

fn series(cpu: &CpuJitter, start_ns: u64) -> Series {
    let mut gaps: Vec<Gap> = cpu.gaps.clone();
    gaps.sort_unstable_by_key(|gap| std::cmp::Reverse(gap.len_ns));
    gaps.truncate(TIMELINE_POINTS);
    gaps.sort_unstable_by_key(|gap| gap.start_ns);
    let point = |gap: &Gap| (gap.start_ns.saturating_sub(start_ns), gap.len_ns.0 as f64);
    Series {
        labels: [("cpu".to_owned(), cpu.cpu.to_string())].into(),
        omitted: cpu.gap_count - gaps.len() as u64,
        points: gaps.iter().map(point).collect(),
    }
}

impl Surroundings {
    /// Tables `<prefix>_surroundings` and `<prefix>_interrupts`.
    fn sections(&self, prefix: &str) -> [Section; 2] {
        let mut table = Table::new(
            &format!("{prefix}_surroundings"),
            "What else happened on these CPUs",
            &[
                "cpu",
                "involuntary_switches",
                "voluntary_switches",
                "page_faults",
                "run_queue_wait_ns",
                "steal_ns",
                "smi",
            ],
        );
        let mut interrupts = Table::new(
            &format!("{prefix}_interrupts"),
            "Interrupts of these CPUs",
            &["cpu", "irq", "name", "count"],
        );
        for around in &self.cpus {
            table.rows.push(vec![
                around.cpu.into(),
                around.usage.involuntary_switches.into(),
                around.usage.voluntary_switches.into(),
                (around.usage.minor_faults + around.usage.major_faults).into(),
                around.run_queue.clone().map(|wait| wait.0).into(),
                around.steal.clone().map(|steal| steal.0).into(),
                around.smi.clone().into(),
            ]);
            for (label, count) in &around.interrupts {
                let name = self.names.get(label).map_or("", String::as_str);
                interrupts.rows.push(vec![
                    around.cpu.into(),
                    label.as_str().into(),
                    name.into(),
                    (*count).into(),
                ]);
            }
        }
        [Section::Table(table), Section::Table(interrupts)]
    }
}

/// What was timed with, and why.
fn clock_table(name: &str, clock: &Clock) -> Table {
    let mut table = Table::new(
        name,
        "The clock",
        &["source", "mhz", "step_ns", "rate_error_ppm", "anchor_error_ns", "steering_ppm", "why"],
    );
    let calibration = clock.calibration();
    table.rows.push(vec![
        clock.source().to_string().into(),
        (calibration.rate.hz() / 1e6).into(),
        rounded(calibration.step_ticks as f64 * 1e9 / calibration.rate.hz()),
        rounded(calibration.error_ppm),
        calibration.error_ns.into(),
        rounded(calibration.steering_ppm),
        clock.why().into(),
    ]);
    table
}

impl Article {
    /// Tables `jitter_article` and `jitter_clock`.
    pub fn sections(&self) -> Vec<Section> {
        let mut table = Table::new(
            "jitter_article",
            "The article's loop: a million turns of 100 dummy iterations",
            &[
                "cpu",
                "p50_ns",
                "p99_ns",
                "p99_9_ns",
                "max_ns",
                "page_faults",
                "involuntary_switches",
            ],
        );
        for cpu in &self.cpus {
            table.rows.push(vec![
                cpu.cpu.into(),
                cpu.p50.0.into(),
                cpu.p99.0.into(),
                cpu.p99_9.0.into(),
                cpu.max.0.into(),
                cpu.page_faults.into(),
                cpu.involuntary_switches.into(),
            ]);
        }
        vec![Section::Table(table), Section::Table(clock_table("jitter_clock", &self.clock))]
    }
}

impl Wake {
    /// Tables `wake`, `wake_surroundings` and `wake_interrupts`, distributions `wake_lateness` by
    /// CPU and `wake_lateness_from` by CPU and idle state.
    pub fn sections(&self) -> Vec<Section> {
        let columns =
            ["cpu", "from", "exit_latency_us", "wakes", "p50_ns", "p99_ns", "longest_ns", "missed"];
        let mut table = Table::new("wake", "Lateness of timed wake-ups from idle", &columns);
        let mut distributions = Vec::new();
        for cpu in &self.cpus {
            self.rows(cpu, &mut table);
            let label = cpu.cpu.to_string();
            let all = Distribution::of("wake_lateness", "ns", &[("cpu", &label)], &cpu.lateness);
            distributions.push(Section::Distribution(all));
            for (slumber, hist) in &cpu.by_slumber {
                let labels = [("cpu", label.as_str()), ("from", cpu.name(*slumber))];
                let of = Distribution::of("wake_lateness_from", "ns", &labels, hist);
                distributions.push(Section::Distribution(of));
            }
        }
        let mut sections = vec![Section::Table(table)];
        sections.extend(distributions);
        sections.extend(self.surroundings.sections("wake"));
        sections
    }

    /// One row for each idle state and one for all.
    fn rows(&self, cpu: &CpuWake, table: &mut Table) {
        use crate::wake::Slumber;
        let quantiles = |hist: &quietcore_measure::Hist| {
            [hist.value_at(0.5), hist.value_at(0.99), hist.max()]
                .map(|value| value.map_or(Cell::Empty, Cell::from))
        };
        for (slumber, hist) in &cpu.by_slumber {
            let exit_latency = match slumber {
                Slumber::State(index) => {
                    cpu.states.get(*index).map_or(Cell::Empty, |s| s.exit_latency_us.clone().into())
                }
                Slumber::Mixed | Slumber::Busy | Slumber::Unknown => Cell::Empty,
            };
            let mut row =
                vec![cpu.cpu.into(), cpu.name(*slumber).into(), exit_latency, hist.count().into()];
            row.extend(quantiles(hist));
            row.push(Cell::Empty);
            table.rows.push(row);
        }
        let wakes = cpu.lateness.count() - cpu.missed;
        let mut row = vec![cpu.cpu.into(), "all".into(), Cell::Empty, wakes.into()];
        row.extend(quantiles(&cpu.lateness));
        row.push(cpu.missed.into());
        table.rows.push(row);
    }
}

/// Two digits behind the point are more than any of these figures is worth.
fn rounded(value: f64) -> Cell {
    Cell::Number((value * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    use quietcore_measure::{Nanos, Reading};
    use quietcore_sys::Host;
    use quietcore_sys::sched::{self, Usage};

    use crate::JitterSettings;

    fn around(interrupts: &[(&str, u64)]) -> Around {
        Around {
            cpu: 1,
            interrupts: interrupts.iter().map(|&(l, c)| (l.to_owned(), c)).collect(),
            steal: Reading::Measured(Nanos(0)),
            smi: Reading::Unsupported("none".to_owned()),
            run_queue: Reading::Measured(Nanos(0)),
            usage: Usage::default(),
        }
    }

    #[test]
    fn interrupts_are_summed_by_who_raised_them() {
        let names = BTreeMap::from([("27".to_owned(), "arch_timer".to_owned())]);
        let around = around(&[
            ("LOC", 1),
            ("27", 2),
            ("RES", 4),
            ("CAL", 8),
            ("TLB", 16),
            ("IPI0", 32),
            ("36", 64),
            ("NMI", 128),
        ]);
        let surroundings = Surroundings { cpus: Vec::new(), names };
        let kinds = Kinds::of(&around, &surroundings);
        assert_eq!(kinds, Kinds { timer: 3, ipi: 60, device: 64, other: 128 });
    }

    #[test]
    fn what_is_not_supported_is_not_shown_as_zero() {
        let surroundings = Surroundings { cpus: vec![around(&[])], names: BTreeMap::new() };
        let [Section::Table(table), _] = surroundings.sections("jitter") else { panic!() };
        let smi = table.columns.iter().position(|column| column == "smi").unwrap();
        assert_eq!(table.rows[0][smi], Cell::Unsupported { unsupported: "none".to_owned() });
    }

    #[test]
    fn every_row_is_as_long_as_its_header_and_the_raw_file_has_every_kept_gap() {
        let cpu = sched::affinity(sched::CALLER).unwrap().highest().unwrap();
        let settings = JitterSettings::new([cpu].into_iter().collect(), Nanos::from_ms(50));
        let never = AtomicBool::new(false);
        let jitter = Jitter::run(&settings, &Host::live(), &never, |_| {}).unwrap();
        let sections = jitter.sections();
        for section in &sections {
            if let Section::Table(table) = section {
                assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{table:?}");
            }
        }
        let names: Vec<_> = sections.iter().map(Section::name).collect();
        assert_eq!(
            names,
            [
                "jitter",
                "jitter_loop",
                "jitter_gap",
                "jitter_gaps",
                "jitter_surroundings",
                "jitter_interrupts",
                "jitter_clock"
            ]
        );
        let mut raw = Vec::new();
        jitter.write_raw(&mut raw).unwrap();
        let raw = String::from_utf8(raw).unwrap();
        assert_eq!(raw.lines().count(), jitter.cpus[0].gaps.len());
        assert!(raw.lines().all(|line| line.split(' ').count() == 3));
    }

    #[test]
    fn the_time_line_keeps_the_longest_gaps_in_order() {
        let gap = |start_ns, len| Gap { start_ns, len_ns: Nanos(len) };
        let many = (0..10_000).map(|i| gap(1_000 + i, i * 7_919 % 10_007)).collect();
        let cpu = CpuJitter {
            cpu: 3,
            tid: 1,
            threshold: Nanos(100),
            median_ticks: 20,
            turns: quietcore_measure::Hist::new(Default::default()),
            gap_lengths: quietcore_measure::Hist::new(Default::default()),
            gaps: many,
            gap_count: 12_000,
            omitted: 2_000,
            stolen: Nanos(0),
            elapsed: Nanos(1),
            own: Nanos(0),
            late: Nanos(0),
            backwards: 0,
        };
        let series = series(&cpu, 1_000);
        assert_eq!(series.points.len() as u64 + series.omitted, 12_000);
        assert!(series.points.is_sorted_by_key(|point| point.0));
        let least = series.points.iter().map(|point| point.1 as u64).min().unwrap();
        assert!(least > 5_900, "{least}");
    }
}
