//! What a knob wants changed, beside what is there now.

use quietcore_facts::Facts;
use quietcore_measure::CpuSet;
use quietcore_sys::Trouble;
use quietcore_sys::host::{Ethtool, Task};
use quietcore_sys::lease::{self, Change, Form, Slot, Value};
use serde::{Deserialize, Serialize};

/// What a knob wants changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal {
    /// Places, in the order in which they are to be written.
    pub items: Vec<Item>,
    /// Parameters for the boot line.
    pub parameters: Vec<Parameter>,
}

/// One place: what it holds, what it is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The place.
    pub slot: Slot,
    /// What it is to hold.
    pub after: Value,
    /// How it stands.
    pub state: State,
    /// Whether the kernel may refuse it without harm to the rest.
    pub optional: bool,
    /// A place that is written before this one if both are: a lower maximum follows its minimum.
    pub follows: Option<Slot>,
}

/// How a place stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// To be changed from this value.
    Change(Value),
    /// As wanted already.
    Already,
    /// There is no such thing on this host.
    Absent(String),
    /// It cannot be changed, and why.
    Stuck(String),
}

/// A parameter of the boot line, `nohz_full=2-5` or `nosoftlockup`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// What follows the `=`.
    pub value: Option<String>,
}

impl Proposal {
    /// A kernel file whose text is a word or a number.
    pub fn word(&mut self, facts: &Facts, path: impl Into<String>, value: impl ToString) {
        self.set(facts, Slot::word(path), Value::text(value.to_string()));
    }

    /// A kernel file that holds CPUs (or memory nodes) as a list.
    pub fn list(&mut self, facts: &Facts, path: impl Into<String>, cpus: &CpuSet) {
        let slot = Slot::Knob { path: path.into(), form: Form::CpuList };
        self.set(facts, slot, Value::text(cpus.to_string()));
    }

    /// A kernel file that holds CPUs as a mask, as wide as the machine.
    pub fn mask(&mut self, facts: &Facts, path: impl Into<String>, cpus: &CpuSet) {
        let slot = Slot::Knob { path: path.into(), form: Form::CpuMask };
        let width = facts.cpus().possible.highest().map_or(1, |top| top + 1);
        self.set(facts, slot, Value::text(cpus.to_mask(width)));
    }

    /// Any place; what it holds is read now.
    pub fn set(&mut self, facts: &Facts, slot: Slot, after: Value) {
        let state = match facts.host().look(&slot) {
            Ok(now) if slot.same(&now, &after) => State::Already,
            Ok(now) => State::Change(now),
            Err(Trouble::Missing) if self.makes(&slot) => State::Change(Value::Absent),
            Err(Trouble::Missing) => State::Absent("this host does not have it".to_owned()),
            Err(trouble) => State::Stuck(trouble.to_string()),
        };
        self.items.push(Item { slot, after, state, optional: false, follows: None });
    }

    /// The place named last is written after this one, whichever knob names it.
    pub fn follows(&mut self, other: Slot) {
        if let Some(item) = self.items.last_mut() {
            item.follows = Some(other);
        }
    }

    /// Whether a file of the kernel comes with a folder that is to be made, as a control group's.
    fn makes(&self, slot: &Slot) -> bool {
        self.items
            .iter()
            .any(|item| matches!(item.state, State::Change(_)) && item.slot.is_folder_of(slot))
    }

    /// The CPUs of a thread. One that has ended is none, and it may end before it is moved.
    pub fn thread(&mut self, facts: &Facts, task: &Task, cpus: &CpuSet) {
        let slot = Slot::Affinity { tid: task.tid, started: task.started };
        self.set(facts, slot, Value::text(cpus.to_string()));
        self.optional();
        if self.items.last().is_some_and(|item| matches!(item.state, State::Absent(_))) {
            self.items.pop();
        }
    }

    /// Settings of the driver of every card in use, where it offers them. Which card carries the
    /// traffic that matters is not known. A driver may refuse a value, or round it.
    pub fn drivers(
        &mut self,
        facts: &Facts,
        offer: &str,
        ask: impl Fn(&Ethtool) -> Option<Vec<(lease::Setting, u32)>>,
    ) {
        let before = self.items.len();
        for nic in &facts.nics().up {
            for (setting, value) in nic.ethtool.value().and_then(&ask).into_iter().flatten() {
                let slot = Slot::Device { interface: nic.name.clone(), setting };
                self.set(facts, slot, Value::text(value.to_string()));
                self.optional();
            }
        }
        if self.items.len() == before {
            self.absent("/sys/class/net", format!("no card in use offers {offer}"));
        }
    }

    /// The place named last may be refused without harm to the rest.
    pub fn optional(&mut self) {
        if let Some(item) = self.items.last_mut() {
            item.optional = true;
        }
    }

    /// A place that cannot be changed, and why.
    pub fn stuck(&mut self, slot: Slot, after: Value, why: impl Into<String>) {
        let state = State::Stuck(why.into());
        self.items.push(Item { slot, after, state, optional: true, follows: None });
    }

    /// A whole class of places that this host does not have, as `/sys/…/cpufreq`.
    pub fn absent(&mut self, path: impl Into<String>, why: impl Into<String>) {
        let state = State::Absent(why.into());
        self.items.push(Item {
            slot: Slot::word(path),
            after: Value::Absent,
            state,
            optional: true,
            follows: None,
        });
    }

    /// A parameter for the boot line that names CPUs, `isolcpus=domain,2-5`; a list that names none
    /// would mean something else.
    pub fn parameter_of_cpus(&mut self, name: &str, flags: &str, cpus: &CpuSet) {
        match cpus.is_empty() {
            true => self.absent(format!("{name}="), "no CPUs are to be isolated (--cpus)"),
            false => self.parameter(name, Some(format!("{flags}{cpus}"))),
        }
    }

    /// A parameter for the boot line.
    pub fn parameter(&mut self, name: &str, value: Option<String>) {
        self.parameters.push(Parameter { name: name.to_owned(), value });
    }
}

impl Item {
    /// What has to be written, if anything.
    pub fn change(&self) -> Option<Change> {
        let want = self.after.clone();
        let change = || Change { slot: self.slot.clone(), want, optional: self.optional };
        matches!(self.state, State::Change(_)).then(change)
    }
}

impl std::fmt::Display for Parameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.name),
            None => f.write_str(&self.name),
        }
    }
}
