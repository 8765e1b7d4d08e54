//! The tables of the article on C-states, from two readings.

use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_facts::idle::IdleState;
use quietcore_facts::power::{CpuPower, PowerReading};
use quietcore_measure::{Cell, CpuSet, Nanos, Reading, Table};

use super::{Activity, activity, mhz};

/// Two readings of a host, and what does not move between them.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    facts: &'a Facts,
    first: &'a PowerReading,
    second: &'a PowerReading,
}

/// An idle state as people tell it from others: its number, name and exit latency.
type State<'a> = (usize, &'a str, Option<i64>);

impl<'a> Moment<'a> {
    /// Of these readings.
    pub fn new(facts: &'a Facts, first: &'a PowerReading, second: &'a PowerReading) -> Self {
        Self { facts, first, second }
    }

    /// What a CPU did.
    pub fn activity(&self, cpu: usize, before: &CpuPower, after: &CpuPower) -> Activity {
        let took = Nanos(self.second.at.0.saturating_sub(self.first.at.0));
        activity(before, after, took, self.states(cpu), self.polls())
    }

    /// A CPU's rated frequency in MHz.
    pub fn base_mhz(&self, cpu: usize) -> Reading<f64> {
        self.facts.frequency().base(cpu).as_ref().map(|base| base.khz as f64 / 1000.0)
    }

    fn states(&self, cpu: usize) -> &'a [IdleState] {
        self.facts.idle().states.get(&cpu).map_or(&[], Vec::as_slice)
    }

    fn polls(&self) -> bool {
        self.facts.boot().value("idle") == Some("poll")
    }

    /// CPUs that were there at both readings, with what they did.
    fn cpus(&self) -> impl Iterator<Item = (usize, &'a CpuPower, &'a CpuPower)> {
        let first = self.first;
        self.second
            .cpus
            .iter()
            .filter_map(move |(cpu, after)| Some((*cpu, first.cpus.get(cpu)?, after)))
    }
}

/// `power_idle_states`, `power_cpus` and `power_residency`.
pub fn tables(facts: &Facts, first: &PowerReading, second: &PowerReading) -> Vec<Table> {
    let moment = Moment::new(facts, first, second);
    let activities: BTreeMap<usize, Activity> = moment
        .cpus()
        .map(|(cpu, before, after)| (cpu, moment.activity(cpu, before, after)))
        .collect();
    let mut tables = vec![idle_states(&moment, &activities), cpus(&moment, &activities)];
    tables.extend(residency(&moment, &activities));
    tables
}

fn idle_states(moment: &Moment<'_>, activities: &BTreeMap<usize, Activity>) -> Table {
    let idle = moment.facts.idle();
    let word = |reading: &Reading<String>| match reading {
        Reading::Measured(word) => word.clone(),
        _ => "unknown".to_owned(),
    };
    let title = format!(
        "Idle states (driver {}, governor {}), mean of {} CPUs",
        word(&idle.driver),
        word(&idle.governor),
        activities.len()
    );
    let columns = ["state", "name", "exit_latency_us", "disabled_on", "residency_pct", "usage"];
    let mut table = Table::new("power_idle_states", &title, &columns);
    let found = states_of(moment, activities);
    for ((index, name, latency), cpus) in &found {
        let disabled: CpuSet =
            cpus.iter().filter(|cpu| is_disabled(moment, *cpu, *index)).collect();
        let shares = cpus.iter().filter_map(|cpu| {
            activities.get(&cpu)?.states.iter().find(|state| state.index == *index)
        });
        let (mut sum, mut usage, mut count) = (0.0, 0_u64, 0);
        for state in shares {
            sum += state.share;
            usage = usage.saturating_add(state.usage);
            count += 1;
        }
        let measured = |cell: Cell| match count {
            0 => Cell::Failed { failed: "it could not be read twice".to_owned() },
            _ => cell,
        };
        let latency = match latency {
            Some(us) => Cell::Int(*us),
            None => Cell::Failed { failed: "its latency could not be read".to_owned() },
        };
        table.rows.push(vec![
            format!("state{index}").into(),
            (*name).into(),
            latency,
            disabled.to_string().into(),
            measured((sum / f64::from(count.max(1)) * 100.0).into()),
            measured(usage.into()),
        ]);
    }
    if found.is_empty() {
        let why = match (moment.polls(), idle.driver.value()) {
            (true, _) => "idle=poll: CPUs never sleep, there are no idle states",
            (false, Some(_)) => "no idle driver: an idle CPU halts, and nobody counts it",
            (false, None) => "there are no idle states in sysfs",
        };
        let none = Cell::Unsupported { unsupported: why.to_owned() };
        let empty = std::iter::repeat_n(Cell::Empty, columns.len() - 2);
        table.rows.push(vec![Cell::Empty, none].into_iter().chain(empty).collect());
    }
    table
}

fn cpus(moment: &Moment<'_>, activities: &BTreeMap<usize, Activity>) -> Table {
    let mut table = Table::new(
        "power_cpus",
        "CPUs (busy: in C0, polling while idle included)",
        &[
            "cpu",
            "busy_pct",
            "frequency_mhz",
            "base_mhz",
            "governor",
            "driver",
            "preference",
            "celsius",
            "throttles",
        ],
    );
    for (cpu, before, after) in moment.cpus() {
        let base = moment.base_mhz(cpu);
        let policy = moment.facts.frequency().of(cpu);
        let word = |of: fn(&quietcore_facts::frequency::Policy) -> Reading<String>| match policy {
            Some(policy) => of(policy).into(),
            None => Cell::Unsupported { unsupported: "no frequency driver".to_owned() },
        };
        let busy = activities.get(&cpu).map(|activity| activity.busy.clone());
        table.rows.push(vec![
            cpu.into(),
            busy.map_or(Cell::Empty, |busy| busy.map(|share| share * 100.0).into()),
            mhz(before, after, base.value().copied()).into(),
            base.into(),
            word(|policy| Reading::Measured(policy.governor.clone())),
            word(|policy| Reading::Measured(policy.driver.clone())),
            policy.map_or(Cell::Empty, |policy| policy.preference.clone().into()),
            after.celsius.clone().into(),
            after.throttles.clone().into(),
        ]);
    }
    table
}

/// One column per state, as turbostat shows it; none where there are no states.
fn residency(moment: &Moment<'_>, activities: &BTreeMap<usize, Activity>) -> Option<Table> {
    let mut columns: Vec<(usize, &str)> =
        states_of(moment, activities).keys().map(|(index, name, _)| (*index, *name)).collect();
    columns.dedup();
    if columns.is_empty() {
        return None;
    }
    let names = columns.iter().map(|(_, name)| format!("{name}_pct"));
    let names: Vec<String> =
        std::iter::once("cpu".to_owned()).chain(names).chain(["not_left_pct".to_owned()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let title =
        "Share of the time per idle state (not left: asleep, the state is counted at its end)";
    let mut table = Table::new("power_residency", title, &names);
    for (cpu, activity) in activities {
        let share = |(index, name): &(usize, &str)| {
            let has = moment.states(*cpu).iter().any(|s| s.index == *index && s.name == *name);
            match activity.states.iter().find(|state| state.index == *index && has) {
                Some(state) => Cell::Number(state.share * 100.0),
                None => Cell::Empty,
            }
        };
        let mut row = vec![Cell::from(*cpu)];
        row.extend(columns.iter().map(share));
        row.push(match activity.states.is_empty() {
            true => Cell::Empty,
            false => Cell::Number(activity.not_left * 100.0),
        });
        table.rows.push(row);
    }
    Some(table)
}

/// The states that there are, with the CPUs that have them.
fn states_of<'a>(
    moment: &Moment<'a>,
    activities: &BTreeMap<usize, Activity>,
) -> BTreeMap<State<'a>, CpuSet> {
    let mut found: BTreeMap<State<'a>, CpuSet> = BTreeMap::new();
    for cpu in activities.keys() {
        for state in moment.states(*cpu) {
            let key = (state.index, state.name.as_str(), state.latency_us);
            found.entry(key).or_default().insert(*cpu);
        }
    }
    found
}

fn is_disabled(moment: &Moment<'_>, cpu: usize, index: usize) -> bool {
    moment.states(cpu).iter().any(|state| state.index == index && state.disabled)
}
