//! What a profile would change on a host: every place with what it holds and what it is to hold.
//!
//! Planning only reads. What `apply` writes is what the plan holds, nothing else.

use quietcore_facts::Facts;
use quietcore_measure::{Cell, Table};
use quietcore_sys::lease::{Change, Slot};

use crate::boot;
use crate::knobs::{Ask, Cores, Item, Knob, Parameter, Proposal, State};
use crate::places::fold;
use crate::profile::Profile;

/// What a profile would change on a host.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What each knob of the profile wants.
    pub steps: Vec<Step>,
    /// What becomes of the boot line, where the profile has parameters for it.
    pub boot: Option<boot::Proposed>,
}

/// What one knob wants.
#[derive(Clone, Debug)]
pub struct Step {
    /// The knob.
    pub knob: &'static Knob,
    /// Its value, as the profile has it.
    pub value: String,
    /// The places.
    pub items: Vec<Item>,
    /// What it has on the boot line.
    pub parameters: Vec<Parameter>,
}

/// What to leave out of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Nothing.
    Whole,
    /// What outlasts a reboot of itself: the boot line and the service that tunes at boot.
    Runtime,
}

/// Works out what a profile would change; pure but for reading.
pub fn plan(facts: &Facts, profile: &Profile, cpus: &Cores, reach: Reach) -> Plan {
    let mut steps = Vec::new();
    let mut parameters: Vec<Parameter> = Vec::new();
    for (knob, value) in profile.chosen() {
        let mut proposal = Proposal::default();
        let ask = Ask { value, knobs: &profile.knobs, cpus, reach };
        (knob.propose)(facts, &ask, &mut proposal);
        if reach == Reach::Runtime {
            proposal.parameters.clear();
            proposal.items.retain(|item| !item.outlasts());
        }
        let Proposal { items, parameters: own } = proposal;
        parameters.extend(own.clone());
        if !items.is_empty() || !own.is_empty() {
            steps.push(Step { knob, value: value.to_string(), items, parameters: own });
        }
    }
    let boot = (!parameters.is_empty()).then(|| boot::propose(facts, &parameters));
    Plan { steps, boot }
}

impl Plan {
    /// Every place, with its knob.
    pub fn items(&self) -> impl Iterator<Item = (&'static Knob, &Item)> {
        self.steps.iter().flat_map(|step| step.items.iter().map(|item| (step.knob, item)))
    }

    pub(crate) fn items_mut(&mut self) -> impl Iterator<Item = &mut Item> {
        self.steps.iter_mut().flat_map(|step| step.items.iter_mut())
    }

    /// What has to be written, in order; the boot line aside.
    pub fn changes(&self) -> Vec<Change> {
        let mut items: Vec<&Item> =
            self.items().map(|(_, item)| item).filter(|item| item.is_change()).collect();
        for i in 0..items.len() {
            let first = items[i].follows.as_ref();
            let later = items.iter().skip(i).position(|item| Some(&item.slot) == first);
            if let Some(distance) = later {
                items.swap(i, i + distance);
            }
        }
        items.into_iter().filter_map(Item::change).collect()
    }

    /// Whether the host is as the profile wants it.
    pub fn is_empty(&self) -> bool {
        self.changes().is_empty() && self.boot.as_ref().is_none_or(boot::Proposed::is_in_force)
    }

    /// The tables that people and programs read: what changes, what stays, and what it costs.
    pub fn tables(&self) -> Vec<Table> {
        let columns = ["knob", "place", "places", "before", "after"];
        let mut changes = Table::new("plan", "What would change", &columns);
        let columns = ["knob", "place", "places", "state"];
        let mut rest = Table::new("plan_rest", "What stays as it is", &columns);
        let (change, stay): (Vec<_>, Vec<_>) = self.items().partition(|(_, item)| item.is_change());
        let key = |(knob, item): (&'static Knob, &Item)| {
            ((knob.id, item.state.clone(), item.after.clone()), item.slot.to_string())
        };
        for row in fold(change.into_iter().map(key)) {
            let (knob, state, after) = &row.key;
            let State::Change(before) = state else { continue };
            changes.rows.push(vec![
                (*knob).into(),
                row.to_string().into(),
                row.places.into(),
                before.to_string().into(),
                after.to_string().into(),
            ]);
        }
        for row in fold(stay.into_iter().map(key)) {
            let (knob, state, after) = &row.key;
            let state = match state {
                State::Absent(why) => format!("not here: {why}"),
                State::Stuck(why) => format!("cannot: {why}"),
                _ => format!("is {after}"),
            };
            let place = row.to_string();
            rest.rows.push(vec![(*knob).into(), place.into(), row.places.into(), state.into()]);
        }
        changes.rows.extend(self.boot.iter().flat_map(boot::Proposed::rows));
        rest.rows.extend(self.boot.iter().flat_map(boot::Proposed::obstacles));
        let line = self.boot.iter().filter(|boot| !boot.is_in_force()).map(boot::Proposed::table);
        [changes].into_iter().chain(line).chain([rest, self.reasons()]).collect()
    }

    fn reasons(&self) -> Table {
        let mut table = Table::new(
            "plan_reasons",
            "Why, at what price, at what risk",
            &["knob", "value", "why", "price", "risk"],
        );
        let missing = self.boot.as_ref().map_or(&[][..], |boot| &boot.missing);
        let is_new = |step: &&Step| {
            step.items.iter().any(Item::is_change)
                || step.parameters.iter().any(|parameter| missing.contains(parameter))
        };
        for step in self.steps.iter().filter(is_new) {
            let knob = step.knob;
            let cells = [knob.id, &step.value, knob.why, knob.price, knob.risk];
            table.rows.push(cells.map(|cell| Cell::Text(cell.to_owned())).to_vec());
        }
        table
    }
}

impl Item {
    /// Whether it is to be written.
    pub fn is_change(&self) -> bool {
        matches!(self.state, State::Change(_))
    }

    /// Whether it is there for the next boot only: a file of ours and its folder, our own unit.
    fn outlasts(&self) -> bool {
        match &self.slot {
            Slot::File { .. } | Slot::Enabled { .. } => true,
            folder @ Slot::Folder { .. } => folder.lasts(),
            _ => false,
        }
    }
}
