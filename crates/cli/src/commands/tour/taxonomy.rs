//! The first thing a tour shows: the causes of a latency tail, with this host's figures beside.
//!
//! Cause, typical size, frequency and mitigation are those of the article on determinism (its six
//! root causes) and of the articles on isolation and on C-states (the rows below them).

use quietcore_measure::{Cell, Finding, Nanos, Status, Table};
use quietcore_spike::{Jitter, Wake};

/// What a row's last column is taken from.
enum Figure {
    /// What these checks found, the worst first.
    Checks(&'static [&'static str]),
    /// The spinning CPUs.
    Gaps,
    /// Timer interrupts on the spinning CPUs.
    Ticks,
    /// The lateness of timed wake-ups, and what these checks found.
    Wakes(&'static [&'static str]),
    /// Not to be had from a look at the host.
    Needs(&'static str),
}

struct Row {
    cause: &'static str,
    typical: &'static str,
    frequency: &'static str,
    mitigation: &'static str,
    figure: Figure,
}

const ROWS: &[Row] = &[
    Row {
        cause: "GC pause (JVM, Go)",
        typical: "1–100 ms",
        frequency: "every 1–30 s",
        mitigation: "language, GC tuning",
        figure: Figure::Needs("seen in a process: quietcore audit --pid PID"),
    },
    Row {
        cause: "Scheduler jitter",
        typical: "50–500 µs",
        frequency: "every 10–100 ms",
        mitigation: "CPU isolation, SCHED_FIFO",
        figure: Figure::Gaps,
    },
    Row {
        cause: "Lock contention",
        typical: "100 µs–10 ms",
        frequency: "under load",
        mitigation: "lock-free structures",
        figure: Figure::Needs("seen in a process: quietcore audit --pid PID"),
    },
    Row {
        cause: "Thermal throttling",
        typical: "50–500 µs",
        frequency: "every 30–300 s",
        mitigation: "cooling, power profile",
        figure: Figure::Checks(&[
            "thermal.throttling-now",
            "thermal.throttle-count",
            "thermal.log",
        ]),
    },
    Row {
        cause: "NUMA access",
        typical: "50–200 ns",
        frequency: "per cache miss",
        mitigation: "pin threads and memory",
        figure: Figure::Checks(&["numa.balancing", "numa.remote-memory", "numa.latency-cpus-span"]),
    },
    Row {
        cause: "Interrupt coalescing",
        typical: "10–200 µs",
        frequency: "every N packets",
        mitigation: "coalescing, IRQ affinity",
        figure: Figure::Checks(&["net.coalescing", "irq.nic-queues"]),
    },
    Row {
        cause: "Timer tick",
        typical: "1–5 µs",
        frequency: "every 1–4 ms",
        mitigation: "nohz_full, one task per CPU",
        figure: Figure::Ticks,
    },
    Row {
        cause: "Idle states",
        typical: "2–200 µs",
        frequency: "per wake-up",
        mitigation: "C-states off",
        figure: Figure::Wakes(&["cstate.exit-latency"]),
    },
    Row {
        cause: "SMI",
        typical: "100–300 µs",
        frequency: "firmware's choice",
        mitigation: "firmware settings",
        figure: Figure::Checks(&["smi.rising", "smi.count"]),
    },
    Row {
        cause: "Hypervisor",
        typical: "µs to ms",
        frequency: "host load",
        mitigation: "dedicated hosts, bare metal",
        figure: Figure::Checks(&["virt.steal", "virt.steal-since-boot", "virt.hypervisor"]),
    },
];

/// The table; what was not measured is left to the checks, and said.
pub fn taxonomy(findings: &[Finding], jitter: &[Jitter], wake: &[Wake]) -> Table {
    let mut table = Table::new(
        "taxonomy",
        "What can stand in a latency tail, and what this host has of it",
        &["cause", "typical", "frequency", "mitigation", "this_host"],
    );
    for row in ROWS {
        let figure = match row.figure {
            Figure::Checks(ids) => found(findings, ids),
            Figure::Gaps => measured(jitter.iter().flat_map(gaps)),
            Figure::Ticks => measured(jitter.iter().flat_map(ticks)),
            Figure::Wakes(ids) if wake.is_empty() => found(findings, ids),
            Figure::Wakes(_) => measured(wake.iter().flat_map(wakes)),
            Figure::Needs(what) => what.into(),
        };
        let words = [row.cause, row.typical, row.frequency, row.mitigation];
        table.rows.push(words.into_iter().map(Cell::from).chain([figure]).collect());
    }
    table
}

fn not_measured() -> Cell {
    Cell::Failed { failed: "not measured".to_owned() }
}

/// One figure per CPU.
fn measured(figures: impl Iterator<Item = String>) -> Cell {
    let figures: Vec<String> = figures.collect();
    match figures.is_empty() {
        true => not_measured(),
        false => figures.join("; ").into(),
    }
}

/// The worst of what these checks say; what does not apply only if nothing else was said.
fn found(findings: &[Finding], ids: &[&str]) -> Cell {
    let about = findings.iter().filter(|f| ids.contains(&f.id.as_str()));
    let worst = about.min_by_key(|f| (f.status, ids.iter().position(|id| *id == f.id)));
    match worst {
        None => not_measured(),
        Some(f) if f.status == Status::Unknown => format!("unknown: {}", f.title).into(),
        Some(f) => f.title.as_str().into(),
    }
}

fn gaps(jitter: &Jitter) -> Vec<String> {
    let of = |cpu: &quietcore_spike::CpuJitter| {
        let longest =
            cpu.gap_lengths.max().map_or_else(|| "none".to_owned(), |ns| Nanos(ns).to_string());
        format!(
            "CPU {}: {:.0} gaps/s, longest {longest}, {:.2} % of the time",
            cpu.cpu,
            cpu.gaps_per_second(),
            cpu.stolen_ppm() / 1e4
        )
    };
    jitter.cpus.iter().map(of).collect()
}

fn ticks(jitter: &Jitter) -> Vec<String> {
    let of = |around: &quietcore_spike::surroundings::Around| {
        let elapsed =
            jitter.cpus.iter().find(|c| c.cpu == around.cpu).map_or(0.0, |c| c.elapsed.as_secs());
        let ticks = around.interrupts.get("LOC").copied().unwrap_or_default();
        match elapsed > 0.0 {
            true => format!(
                "CPU {}: {:.0} timer interrupts/s while busy",
                around.cpu,
                ticks as f64 / elapsed
            ),
            false => format!("CPU {}: not measured", around.cpu),
        }
    };
    jitter.surroundings.cpus.iter().map(of).collect()
}

fn wakes(wake: &Wake) -> Vec<String> {
    let of = |cpu: &quietcore_spike::wake::CpuWake| {
        let at =
            |q| cpu.lateness.value_at(q).map_or_else(|| "?".to_owned(), |ns| Nanos(ns).to_string());
        format!("CPU {}: wakes {} late at the median, {} at P99", cpu.cpu, at(0.5), at(0.99))
    };
    wake.cpus.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use quietcore_measure::{Cause, Impact};

    use super::*;

    fn finding(id: &str, status: Status, title: &str) -> Finding {
        Finding {
            id: id.to_owned(),
            cause: Cause::Numa,
            status,
            title: title.to_owned(),
            evidence: Vec::new(),
            impact: Impact { us: 1.0, text: String::new(), origin: String::new() },
            fix: None,
            knob: None,
            waiver: None,
        }
    }

    #[test]
    fn the_worst_finding_speaks_for_its_cause() {
        let findings = [
            finding("a", Status::Pass, "fine"),
            finding("b", Status::Warn, "not so fine"),
            finding("c", Status::NotApplicable, "no such thing"),
        ];
        assert_eq!(found(&findings, &["a", "b", "c"]), "not so fine".into());
        assert_eq!(found(&findings, &["a", "c"]), "fine".into());
        assert_eq!(found(&findings, &["c"]), "no such thing".into());
        assert!(matches!(found(&findings, &["z"]), Cell::Failed { .. }));
    }

    #[test]
    fn what_is_not_measured_is_said_in_every_row() {
        let table = taxonomy(&[], &[], &[]);
        assert_eq!(table.rows.len(), ROWS.len());
        for (row, shown) in ROWS.iter().zip(table.rows) {
            match row.figure {
                Figure::Needs(what) => assert_eq!(shown[4], what.into()),
                _ => assert!(matches!(shown[4], Cell::Failed { .. }), "{shown:?}"),
            }
        }
    }

    #[test]
    fn every_check_that_a_row_names_exists() {
        for row in ROWS {
            let (Figure::Checks(ids) | Figure::Wakes(ids)) = row.figure else { continue };
            for id in ids {
                assert!(quietcore_host::checks::ALL.iter().any(|c| c.id == *id), "{id}");
            }
        }
    }
}
