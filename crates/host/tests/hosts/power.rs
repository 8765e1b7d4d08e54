//! The tables and alerts of power on recorded hosts.

use quietcore_facts::Facts;
use quietcore_facts::power::PowerReading;
use quietcore_host::power::{ALERT_BELOW, Alert, tables, watch};
use quietcore_measure::{Cell, Table};
use quietcore_sys::Host;
use quietcore_sys::host::Snapshot;

use crate::{mutations, snapshot};

fn judged(snapshot: Snapshot) -> (Vec<Table>, Vec<Alert>) {
    let facts = Facts::of(Host::recorded(snapshot));
    let cpus = facts.cpus().online.clone();
    let first = PowerReading::take(&facts, &cpus);
    let second = facts.host().at_second_moment(|| PowerReading::take(&facts, &cpus));
    (tables(&facts, &first, &second), watch(&facts, &first, &second, ALERT_BELOW))
}

fn cell<'a>(tables: &'a [Table], table: &str, row: usize, column: &str) -> &'a Cell {
    let table = tables.iter().find(|t| t.name == table).unwrap();
    let at = table.columns.iter().position(|c| c == column).unwrap();
    &table.rows[row][at]
}

#[test]
fn the_server_s_engine_is_busy_at_the_rated_frequency_and_raises_no_alert() {
    let (tables, alerts) = judged(snapshot("two-socket"));
    assert_eq!(alerts, []);
    for (column, value) in [
        ("busy_pct", Cell::Number(100.0)),
        ("frequency_mhz", Cell::Number(2500.0)),
        ("base_mhz", Cell::Number(2500.0)),
        ("governor", Cell::Text("performance".to_owned())),
        ("celsius", Cell::Number(58.0)),
        ("throttles", Cell::Int(0)),
    ] {
        assert_eq!(cell(&tables, "power_cpus", 4, column), &value, "{column}");
    }
    assert_eq!(cell(&tables, "power_idle_states", 1, "name"), &Cell::Text("C1".to_owned()));
    assert_eq!(cell(&tables, "power_idle_states", 1, "exit_latency_us"), &Cell::Int(2));
}

#[test]
fn a_cpu_that_throttles_now_is_told_with_its_frequency() {
    let (_, alerts) = judged(mutations::named("fan-failed").applied());
    let texts: Vec<String> = alerts.iter().map(Alert::text).collect();
    assert_eq!(
        texts,
        [
            "CPU 4 is busy at 850 MHz, 0.34 of its rated 2500 MHz",
            "CPU 4 was slowed down for its heat, 31 times",
        ]
    );
}

#[test]
fn without_idle_states_the_table_says_why_and_every_cpu_is_busy() {
    let (tables, _) = judged(mutations::named("idle-poll-beside-siblings").applied());
    let Cell::Unsupported { unsupported } = cell(&tables, "power_idle_states", 0, "name") else {
        panic!("{tables:?}");
    };
    assert!(unsupported.starts_with("idle=poll"), "{unsupported}");
    assert_eq!(cell(&tables, "power_cpus", 9, "busy_pct"), &Cell::Number(100.0));
    assert!(tables.iter().all(|table| table.name != "power_residency"));
}
