//! What the recorder can say besides spikes.

use quietcore_bpf::{Health, Set, State};
use quietcore_measure::{Cell, CpuSet, Section, Table};
use quietcore_spike::Monitor;
use quietcore_sys::sched;

/// The tables beside the spikes.
pub(super) fn all(monitor: &Monitor, place: &CpuSet) -> anyhow::Result<Vec<Section>> {
    let tables =
        [waits(monitor)?, sleeps(monitor)?, health(monitor.health()), recorder(monitor, place)?];
    Ok(tables.into_iter().filter(|table| !table.rows.is_empty()).map(Section::Table).collect())
}

/// All waits by length, those below the threshold included.
fn waits(monitor: &Monitor) -> anyhow::Result<Table> {
    let title = "All waits of the watched threads by length";
    let columns = ["shorter_than_ns", "blocked", "on_run_queue"];
    let mut table = Table::new("spikes_waits", title, &columns);
    let histograms = monitor.timeline().histograms()?;
    let (mut blocked, mut queued) = (0, 0);
    let both =
        histograms.blocked.below_powers_of_two().zip(histograms.run_queue.below_powers_of_two());
    // What is shorter than a microsecond is one row.
    for ((below_ns, blocked_below), (_, queued_below)) in both.skip(9) {
        let counts = [blocked_below - blocked, queued_below - queued];
        (blocked, queued) = (blocked_below, queued_below);
        if counts != [0, 0] {
            let [blocked, queued] = counts.map(Cell::from);
            table.rows.push(vec![below_ns.into(), blocked, queued]);
        }
    }
    Ok(table)
}

/// The sleeps that are no spikes, the longest first.
fn sleeps(monitor: &Monitor) -> anyhow::Result<Table> {
    let title = "Sleeps that were asked for, which are no spikes";
    let mut table = Table::new("spikes_sleeps", title, &["call", "sleeps", "total_ns", "mean_ns"]);
    for asked in monitor.sleeps()? {
        let mean = asked.ns / asked.count.max(1);
        table.rows.push(vec![asked.call.into(), asked.count.into(), asked.ns.into(), mean.into()]);
    }
    Ok(table)
}

/// How many programs work, of how many that were asked for, and a line for each that does not.
pub(super) fn programs(health: &[Health]) -> (usize, usize, Vec<String>) {
    let works = health.iter().filter(|one| one.state == State::Ok).count();
    let lines = health.iter().filter_map(|one| match &one.state {
        State::Unsupported(why) | State::Broken(why) => Some(format!("{}: {why}", one.program)),
        State::Ok | State::NotApplicable(_) => None,
    });
    let lines: Vec<_> = lines.collect();
    (works, works + lines.len(), lines)
}

fn health(health: &[Health]) -> Table {
    let columns = ["set", "asked_for", "works", "not_here"];
    let mut table = Table::new("spikes_programs", "Programs of the recorder", &columns);
    for set in Set::ALL {
        let of_set: Vec<_> =
            health.iter().filter(|one| Set::of(one.program) == Some(set)).cloned().collect();
        let (works, asked, missing) = programs(&of_set);
        if asked > 0 {
            let missing = missing.join("; ");
            table.rows.push(vec![set.name().into(), asked.into(), works.into(), missing.into()]);
        }
    }
    table
}

/// What it did, and what it took itself.
fn recorder(monitor: &Monitor, place: &CpuSet) -> anyhow::Result<Table> {
    let columns = [
        "attached_in_ns",
        "switches",
        "waits",
        "asked_for",
        "spikes",
        "lost",
        "unseen_wakes",
        "own_cpu_ns",
        "own_cpus",
    ];
    let mut table = Table::new("spikes_recorder", "The recorder", &columns);
    let counts = monitor.counts()?;
    let own = sched::usage()?;
    table.rows.push(vec![
        monitor.timeline().attached_in().0.into(),
        counts.switches.into(),
        counts.waits.into(),
        counts.voluntary_sleeps.into(),
        counts.sent.into(),
        counts.dropped.into(),
        counts.unseen_wakes.into(),
        (own.user_ns + own.system_ns).into(),
        place.to_string().into(),
    ]);
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_is_not_missing() {
        let one = |program, state| Health { program, state };
        let (works, asked, missing) = programs(&[
            one("waking", State::Ok),
            one("nmi", State::Unsupported("no tracepoint".into())),
            one("work", State::NotApplicable("not asked for".into())),
        ]);
        assert_eq!((works, asked), (1, 2));
        assert_eq!(missing, ["nmi: no tracepoint"]);
    }
}
