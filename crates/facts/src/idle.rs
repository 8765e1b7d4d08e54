//! Idle: who chooses the states of an idle CPU, which there are, and which may be entered.

use std::collections::BTreeMap;

use quietcore_measure::{CpuSet, Reading};
use quietcore_sys::Host;
use quietcore_sys::host::reading;

use crate::Facts;

const CPU: &str = "/sys/devices/system/cpu";

/// How CPUs idle.
#[derive(Clone, Debug)]
pub struct Idle {
    /// `intel_idle`, `acpi_idle`, `haltpoll`, …, `none`.
    pub driver: Reading<String>,
    /// `menu`, `teo`, `ladder`, `haltpoll`.
    pub governor: Reading<String>,
    /// The states of each online CPU, shallowest first; a CPU without any is left out.
    pub states: BTreeMap<usize, Vec<IdleState>>,
    /// The wake-up latency in microseconds that PM QoS holds all CPUs to; `None` if nobody asks.
    pub limit_us: Reading<Option<i32>>,
    /// The same for single CPUs, where one was set.
    pub cpu_limits_us: BTreeMap<usize, i64>,
}

/// One idle state of one CPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdleState {
    /// Number, as in `state2`.
    pub index: usize,
    /// `POLL`, `C1`, `C6`, …
    pub name: String,
    /// Microseconds from the wake-up to the first instruction, as the driver has it; `None` where
    /// that could not be read.
    pub latency_us: Option<i64>,
    /// Whether it is switched off for this CPU.
    pub disabled: bool,
}

impl Idle {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        let online = &facts.cpus().online;
        let states = online.iter().map(|cpu| (cpu, states(host, cpu)));
        let limit = |cpu: usize| {
            let text = host.line(&format!("{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us")).ok()?;
            Some((cpu, parse_limit(&text)?))
        };
        Self {
            driver: reading(host.line(&format!("{CPU}/cpuidle/current_driver"))),
            governor: governor(host),
            states: states.filter(|(_, states)| !states.is_empty()).collect(),
            limit_us: reading(host.cpu_dma_latency_us()),
            cpu_limits_us: online.iter().filter_map(limit).collect(),
        }
    }

    /// The tightest latency in microseconds that a CPU is held to; `None` if there is no limit.
    pub fn limit_of(&self, cpu: usize) -> Option<i64> {
        let all = self.limit_us.value().copied().flatten().map(i64::from);
        all.into_iter().chain(self.cpu_limits_us.get(&cpu).copied()).min()
    }

    /// The states that a CPU may enter: neither switched off nor slower than PM QoS allows.
    pub fn reachable(&self, cpu: usize) -> impl Iterator<Item = &IdleState> {
        let limit = self.limit_of(cpu);
        let allowed = move |state: &&IdleState| match (limit, state.latency_us) {
            (Some(limit), Some(latency)) => latency <= limit,
            _ => true,
        };
        let states = self.states.get(&cpu).into_iter().flatten();
        states.filter(|state| !state.disabled).filter(allowed)
    }

    /// The reachable states whose exit takes longer than this, with the CPUs that have them.
    pub fn slower_than(&self, us: i64, cpus: &CpuSet) -> BTreeMap<(i64, String), CpuSet> {
        let mut slow: BTreeMap<(i64, String), CpuSet> = BTreeMap::new();
        for cpu in cpus.iter() {
            for state in self.reachable(cpu) {
                if let Some(latency) = state.latency_us.filter(|latency| *latency > us) {
                    slow.entry((latency, state.name.clone())).or_default().insert(cpu);
                }
            }
        }
        slow
    }

    /// Whether each of these CPUs told its states, and how long each takes to leave.
    pub fn told(&self, cpus: &CpuSet) -> bool {
        cpus.iter().all(|cpu| {
            let states = self.states.get(&cpu);
            states.is_some_and(|states| states.iter().all(|state| state.latency_us.is_some()))
        })
    }

    /// Whether a CPU can do nothing but poll while idle, as far as its idle states tell.
    pub fn only_polls(&self, cpu: usize) -> bool {
        let mut reachable = self.reachable(cpu).peekable();
        self.states.contains_key(&cpu)
            && reachable.peek().is_some()
            && reachable.all(IdleState::is_poll)
    }
}

impl IdleState {
    /// Whether it is not sleep but a loop that waits for work.
    pub fn is_poll(&self) -> bool {
        self.name == "POLL"
    }
}

/// How often and how long a CPU was in an idle state since boot. Both grow when it leaves the
/// state: a sleep that still lasts is not in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateUse {
    /// Number of the state.
    pub index: usize,
    /// Times it was entered and left.
    pub usage: u64,
    /// Time in it, in microseconds.
    pub time_us: u64,
}

/// How often and how long these CPUs were in each of their idle states; a CPU without any is left
/// out.
pub fn uses(host: &Host, cpus: &CpuSet) -> BTreeMap<usize, Vec<StateUse>> {
    let of = |cpu: usize| -> Vec<StateUse> {
        let state = |index: usize| {
            let count = |name: &str| -> Option<u64> {
                let path = format!("{CPU}/cpu{cpu}/cpuidle/state{index}/{name}");
                host.number(&path).ok()?.try_into().ok()
            };
            Some(StateUse { index, usage: count("usage")?, time_us: count("time")? })
        };
        state_indices(host, cpu).into_iter().filter_map(state).collect()
    };
    cpus.iter().map(|cpu| (cpu, of(cpu))).filter(|(_, states)| !states.is_empty()).collect()
}

/// Numbers of a CPU's idle states in ascending order.
fn state_indices(host: &Host, cpu: usize) -> Vec<usize> {
    let names = host.list(&format!("{CPU}/cpu{cpu}/cpuidle")).unwrap_or_default();
    let numbers = names.iter().filter_map(|name| name.strip_prefix("state")?.parse().ok());
    let mut indices: Vec<usize> = numbers.collect();
    indices.sort_unstable();
    indices
}

fn states(host: &Host, cpu: usize) -> Vec<IdleState> {
    let state = |index: usize| {
        let folder = format!("{CPU}/cpu{cpu}/cpuidle/state{index}");
        IdleState {
            index,
            name: host.line(&format!("{folder}/name")).unwrap_or_else(|_| format!("state{index}")),
            latency_us: host.number(&format!("{folder}/latency")).ok(),
            disabled: host.number(&format!("{folder}/disable")).is_ok_and(|value| value != 0),
        }
    };
    state_indices(host, cpu).into_iter().map(state).collect()
}

/// Before 5.7 the governor stands in a file of another name.
fn governor(host: &Host) -> Reading<String> {
    let read = |name: &str| host.line(&format!("{CPU}/cpuidle/{name}"));
    reading(read("current_governor").or_else(|_| read("current_governor_ro")))
}

/// `0` is "no limit", `n/a` is "no latency at all". (kernel: ABI/testing/sysfs-devices-power)
fn parse_limit(text: &str) -> Option<i64> {
    match text {
        "n/a" => Some(0),
        _ => text.parse().ok().filter(|us| *us > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(limit: Option<i32>) -> Idle {
        // The states of an i7-6700, as the article on C-states lists them.
        let article = [
            ("POLL", 0),
            ("C1", 2),
            ("C1E", 10),
            ("C3", 70),
            ("C6", 85),
            ("C7s", 124),
            ("C8", 200),
        ];
        let states = article.iter().enumerate().map(|(index, (name, latency))| IdleState {
            index,
            name: (*name).to_owned(),
            latency_us: Some(*latency),
            disabled: false,
        });
        Idle {
            driver: Reading::Measured("intel_idle".to_owned()),
            governor: Reading::Measured("menu".to_owned()),
            states: BTreeMap::from([(0, states.collect())]),
            limit_us: Reading::Measured(limit),
            cpu_limits_us: BTreeMap::new(),
        }
    }

    fn names(idle: &Idle) -> Vec<&str> {
        idle.reachable(0).map(|state| state.name.as_str()).collect()
    }

    #[test]
    fn all_states_of_the_article_but_two_are_too_slow() {
        let cpus = CpuSet::first(1);
        let slow = idle(None).slower_than(2, &cpus);
        let slow: Vec<(i64, &str)> = slow.keys().map(|(us, name)| (*us, name.as_str())).collect();
        assert_eq!(slow, [(10, "C1E"), (70, "C3"), (85, "C6"), (124, "C7s"), (200, "C8")]);
        assert!(!idle(None).only_polls(0));
    }

    #[test]
    fn a_limit_forbids_what_is_slower_and_zero_leaves_polling() {
        assert_eq!(names(&idle(Some(10))), ["POLL", "C1", "C1E"]);
        assert!(idle(Some(0)).only_polls(0));
        let mut one = idle(Some(85));
        one.cpu_limits_us.insert(0, 2);
        assert_eq!(names(&one), ["POLL", "C1"]);
    }

    #[test]
    fn a_disabled_state_is_not_entered() {
        let mut idle = idle(None);
        idle.states.values_mut().flatten().skip(2).for_each(|state| state.disabled = true);
        assert_eq!(names(&idle), ["POLL", "C1"]);
    }

    #[test]
    fn zero_is_no_limit_and_not_available_is_no_latency() {
        let limits = ["0", "n/a", "20", "-1", "", "x"].map(parse_limit);
        assert_eq!(limits, [None, Some(0), Some(20), None, None, None]);
    }
}
