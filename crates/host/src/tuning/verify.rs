//! Whether what was applied is still so: every place is read again, and the checks are asked for
//! the effect.

use std::collections::BTreeSet;
use std::path::Path;

use quietcore_facts::Facts;
use quietcore_measure::{Status, Table};
use quietcore_sys::Trouble;
use quietcore_sys::lease::{self, Slot, Value};

use super::{LEASE, Phase, TuneError, Tuning, tuning_of};
use crate::boot::{self, Proposed};
use crate::knobs::{self, Knob};
use crate::places::fold;
use crate::plan::{Plan, plan};
use crate::profile::{Profile, SHIPPED};
use crate::{Intent, Scope, checks};

/// What is in force, item by item.
#[derive(Clone, Debug)]
pub struct Standing {
    /// What was applied.
    pub tuning: Tuning,
    /// Seconds since 1970 when it began.
    pub since: u64,
    /// Until when it holds.
    pub term: lease::Term,
    /// One line per place, boot parameter and check.
    pub lines: Vec<Line>,
}

/// One item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The knob, or `boot line`.
    pub knob: String,
    /// The place, the parameter or the check.
    pub item: String,
    /// What it is to be.
    pub wanted: String,
    /// How it stands.
    pub state: State,
}

/// How an item stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// As wanted.
    Holds,
    /// Not as wanted; what it is instead.
    Drift(String),
    /// Could not be told.
    Unknown(String),
    /// This host does not have it, or does not let it be changed; known when it was applied.
    NotHere(String),
    /// Waits for a reboot.
    Pending,
}

impl State {
    /// What needs looking at comes first.
    fn rank(&self) -> u8 {
        match self {
            Self::Drift(_) => 0,
            Self::Unknown(_) => 1,
            Self::Pending => 2,
            Self::Holds => 3,
            Self::NotHere(_) => 4,
        }
    }
}

impl Line {
    /// Whether it is not as wanted.
    pub fn is_drift(&self) -> bool {
        matches!(self.state, State::Drift(_))
    }
}

/// Reads everything again; `None` if nothing is in force. Changes nothing.
pub fn verify(facts: &Facts, folder: &Path) -> Result<Option<Standing>, TuneError> {
    let Some(standing) = lease::look(folder, LEASE, facts.host())? else { return Ok(None) };
    let Some(tuning) = tuning_of(&standing.about)? else { return Ok(None) };
    let plan = plan(facts, &tuning.profile, &tuning.cpus, tuning.reach);
    let mut lines = places(&plan, &tuning);
    let planned: BTreeSet<String> = lines.iter().map(|line| line.item.clone()).collect();
    lines.extend(
        standing
            .entries
            .iter()
            .filter(|entry| !planned.contains(&entry.slot.to_string()))
            .map(|entry| of_entry(facts, entry)),
    );
    let mut parameters = Vec::new();
    if let Some(proposed) = &plan.boot {
        parameters = of_boot(proposed, &tuning.phase, &lease::boot(facts.host()));
    }
    let pending = parameters.iter().any(|line| line.state == State::Pending);
    lines.extend(parameters);
    lines.extend(effects(facts, &tuning, &plan, pending));
    Ok(Some(Standing { tuning, since: standing.at, term: standing.term, lines }))
}

fn places(plan: &Plan, tuning: &Tuning) -> Vec<Line> {
    let refused =
        |place: &Slot| tuning.refused.iter().find(|(slot, _)| slot == place).map(|(_, why)| why);
    let line = |(knob, item): (&'static Knob, &knobs::Item)| {
        let state = match &item.state {
            knobs::State::Already => State::Holds,
            knobs::State::Change(now) => match refused(&item.slot) {
                Some(why) => State::NotHere(format!("{now}: {why}")),
                None => State::Drift(now.to_string()),
            },
            knobs::State::Absent(why) | knobs::State::Stuck(why) => State::NotHere(why.clone()),
        };
        Line {
            knob: knob.id.to_owned(),
            item: item.slot.to_string(),
            wanted: item.after.to_string(),
            state,
        }
    };
    plan.items().map(line).collect()
}

/// A place that the plan does not name (any more): a file of the boot loader.
fn of_entry(facts: &Facts, entry: &lease::Entry) -> Line {
    let once = matches!(entry.slot, Slot::NextBoot { .. });
    let state = match facts.host().look(&entry.slot) {
        Ok(now) if once && entry.is_ours(&now) => State::Pending,
        // The boot loader has taken it.
        Ok(now) if once && now.as_text().unwrap_or_default().is_empty() => State::Holds,
        Ok(now) if entry.is_ours(&now) => State::Holds,
        Ok(now) => State::Drift(describe(&now)),
        Err(Trouble::Missing) => State::NotHere("it is gone".to_owned()),
        Err(trouble) => State::Unknown(trouble.to_string()),
    };
    let knob = if boot::owns(&entry.slot) { "boot line" } else { "earlier" };
    Line {
        knob: knob.to_owned(),
        item: entry.slot.to_string(),
        wanted: describe(entry.in_force()),
        state,
    }
}

fn describe(value: &Value) -> String {
    value.to_string()
}

fn of_boot(proposed: &Proposed, phase: &Phase, this_boot: &str) -> Vec<Line> {
    let line = |parameter: &knobs::Parameter| {
        let state = match (proposed.missing.contains(parameter), phase) {
            (false, _) => State::Holds,
            (true, Phase::Trial { applied_in }) if applied_in == this_boot => State::Pending,
            (true, Phase::Trial { .. }) => {
                State::Drift("this boot did not take the entry on trial".to_owned())
            }
            (true, _) => State::Drift("not on the running kernel's line".to_owned()),
        };
        let item = parameter.to_string();
        Line { knob: "boot line".to_owned(), wanted: item.clone(), item, state }
    };
    proposed.parameters.iter().map(line).collect()
}

/// What the checks of the knobs say of the effect. While a boot line waits for its boot they
/// would complain of what cannot be yet.
fn effects(facts: &Facts, tuning: &Tuning, plan: &Plan, pending: bool) -> Vec<Line> {
    let cpus = tuning.cpus.isolated.clone();
    let scope = Scope { cpus, intent: Intent::Asked, pid: None };
    let ids: BTreeSet<(&str, &str)> = tuning
        .profile
        .chosen()
        .filter(|(knob, _)| {
            !pending
                || plan.steps.iter().any(|step| step.knob.id == knob.id && !step.items.is_empty())
        })
        .flat_map(|(knob, _)| knob.checks.iter().map(|check| (*check, knob.id)))
        .collect();
    let mut lines = Vec::new();
    for (id, knob) in ids {
        let Some(check) = checks::ALL.iter().find(|check| check.id == id) else { continue };
        let verdict = (check.judge)(facts, &scope);
        let state = match verdict.status() {
            Status::Pass => State::Holds,
            Status::Fail if pending => State::Pending,
            Status::Fail => failed(tuning, plan, knob, verdict.title()),
            Status::NotApplicable => continue,
            _ => State::Unknown(verdict.title().to_owned()),
        };
        let wanted = check.about.to_owned();
        lines.push(Line { knob: knob.to_owned(), item: id.to_owned(), wanted, state });
    }
    lines
}

/// What a failed check means for a knob whose places are read besides: drift, unless it was known
/// that the knob cannot reach everything here, or the value is one that nobody ships.
fn failed(tuning: &Tuning, plan: &Plan, knob: &str, title: &str) -> State {
    let mut items = plan.items().filter(|(other, _)| other.id == knob).map(|(_, item)| item);
    let refused = |item: &knobs::Item| tuning.refused.iter().any(|(slot, _)| *slot == item.slot);
    if items.any(|item| matches!(item.state, knobs::State::Stuck(_)) || refused(item)) {
        return State::NotHere(format!("out of the knob's reach in part: {title}"));
    }
    let value = tuning.profile.knobs.get(knob);
    let shipped = SHIPPED.iter().filter_map(|(name, _)| Profile::load(name).ok());
    if !shipped.into_iter().any(|profile| profile.knobs.get(knob) == value) {
        let value = value.map_or(String::new(), ToString::to_string);
        return State::Unknown(format!("{knob} = {value} is your own: {title}"));
    }
    State::Drift(title.to_owned())
}

impl Standing {
    /// One line per item; places that stand alike and differ in one number share one.
    pub fn table(&self) -> Table {
        let columns = ["state", "knob", "item", "items", "wanted", "now"];
        let mut table = Table::new("verify", "What was applied, read again", &columns);
        let key = |line: &Line| {
            ((line.state.clone(), line.knob.clone(), line.wanted.clone()), line.item.clone())
        };
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(|line| line.state.rank());
        for row in fold(lines.into_iter().map(key)) {
            let (state, knob, wanted) = &row.key;
            let (state, now) = match state {
                State::Holds => ("ok", ""),
                State::Drift(now) => ("DRIFT", now.as_str()),
                State::Unknown(why) => ("unknown", why.as_str()),
                State::NotHere(why) => ("not here", why.as_str()),
                State::Pending => ("reboot", "waits for the next boot"),
            };
            table.rows.push(vec![
                state.into(),
                knob.as_str().into(),
                row.to_string().into(),
                row.places.into(),
                wanted.as_str().into(),
                now.into(),
            ]);
        }
        table
    }
}
