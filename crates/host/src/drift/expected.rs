//! What the places of a tuned host should hold.

use quietcore_sys::lease::{Entry, Slot, Value};

use crate::knobs::State;
use crate::plan::Plan;

/// What a place should hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The place.
    pub slot: Slot,
    /// What it should hold.
    pub want: Value,
    /// What it may hold as well: what the kernel has made of our value, what we gave it earlier.
    pub or: Vec<Value>,
}

impl Expected {
    /// Whether a value is as it should be.
    pub fn is_met(&self, now: &Value) -> bool {
        std::iter::once(&self.want).chain(&self.or).any(|value| self.slot.same(now, value))
    }
}

/// Every place of a plan, those among them that held their value before anything was applied, and
/// what else the journal names (files of the boot loader). Places that this host does not have or
/// that refused are left out, and the entry of the next boot, which that boot takes away.
pub fn expected(plan: &Plan, refused: &[(Slot, String)], entries: &[Entry]) -> Vec<Expected> {
    let ours = |slot: &Slot| entries.iter().find(|entry| entry.slot == *slot);
    let refused = |slot: &Slot| refused.iter().any(|(refused, _)| refused == slot);
    let mut all: Vec<Expected> = plan
        .items()
        .filter(|(_, item)| matches!(item.state, State::Change(_) | State::Already))
        .filter(|(_, item)| !refused(&item.slot))
        .map(|(_, item)| Expected {
            slot: item.slot.clone(),
            want: item.after.clone(),
            or: ours(&item.slot).map_or(Vec::new(), |entry| entry.ours.clone()),
        })
        .collect();
    let planned = |slot: &Slot| plan.items().any(|(_, item)| item.slot == *slot);
    let others = entries
        .iter()
        .filter(|entry| !planned(&entry.slot) && !matches!(entry.slot, Slot::NextBoot { .. }));
    all.extend(others.map(|entry| Expected {
        slot: entry.slot.clone(),
        want: entry.in_force().clone(),
        or: entry.ours.clone(),
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knobs::{self, Item};
    use crate::plan::Step;
    use quietcore_sys::lease::Loader;

    fn item(path: &str, state: State) -> Item {
        Item {
            slot: Slot::word(path),
            after: Value::text("1"),
            state,
            optional: false,
            follows: None,
        }
    }

    fn entry(slot: Slot, ours: &[&str]) -> Entry {
        let ours = ours.iter().map(Value::text).collect();
        Entry { slot, boot: "b".into(), before: Value::text("9"), ours, void: false }
    }

    #[test]
    fn what_can_hold_is_expected_and_nothing_else() {
        let items = vec![
            item("/already", State::Already),
            item("/changed", State::Change(Value::text("9"))),
            item("/absent", State::Absent("no such thing".into())),
            item("/stuck", State::Stuck("denied".into())),
            item("/refused", State::Change(Value::text("9"))),
        ];
        let knob = knobs::ALL[0];
        let plan = Plan {
            steps: vec![Step { knob, value: "1".into(), items, parameters: Vec::new() }],
            boot: None,
        };
        let refused = [(Slot::word("/refused"), "the kernel said no".to_owned())];
        let next = Slot::NextBoot { loader: Loader::SystemdBoot };
        let grub = Slot::File { path: "/etc/default/grub".into() };
        let entries = [
            entry(Slot::word("/changed"), &["1", "1 rounded"]),
            entry(next, &["tuned"]),
            entry(grub.clone(), &["ours"]),
        ];
        let all = expected(&plan, &refused, &entries);
        let places: Vec<String> = all.iter().map(|one| one.slot.to_string()).collect();
        assert_eq!(places, ["/already", "/changed", "/etc/default/grub"]);
        assert_eq!((&all[2].slot, &all[2].want), (&grub, &Value::text("ours")));
        for (value, met) in [("1", true), ("1 rounded", true), ("2", false)] {
            assert_eq!(all[1].is_met(&Value::text(value)), met, "{value}");
        }
        assert!(!all[0].is_met(&Value::text("1 rounded")));
    }
}
