use quietcore_facts::Facts;
use quietcore_facts::frequency::Policy;
use quietcore_sys::lease::{Slot, Value};

use super::{Ask, Knob, Proposal, Setting, Takes};

const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";

pub const KNOB: Knob = Knob {
    id: "max-frequency",
    about: "Highest frequency of the isolated CPUs (of all where none is isolated)",
    why: "A cap that a tuning daemon or a forgotten test left behind makes everything slower, \
          under any governor. A cap at the rated frequency takes turbo away from these CPUs only.",
    price: "a higher cap: watts and heat; a lower one: speed",
    risk: "",
    checks: &["freq.limit"],
    takes: FREQUENCY,
    propose,
};

/// What both ends of the range take.
pub(super) const FREQUENCY: Takes =
    Takes::WordsOr { words: &["max", "base", "min"], min: 100, max: 10_000, unit: "MHz" };

/// Never below the minimum, on no way: a maximum that comes down follows the minimum, one that
/// goes up comes before it.
fn propose(facts: &Facts, ask: &Ask, proposal: &mut Proposal) {
    let floor_is_set = ask.knobs.contains_key("min-frequency");
    for_each(facts, ask, "scaling_max_freq", proposal, |policy, slot, proposal| {
        let wanted = match khz(facts, ask, policy, ask.value) {
            Ok(wanted) => at_most(facts, policy, wanted),
            Err(why) => return proposal.stuck(slot, Value::Absent, why),
        };
        let floor = policy.min_khz.value().copied().unwrap_or_default();
        if wanted < floor && !floor_is_set {
            let why = format!("the minimum is {} MHz: set min-frequency as well", floor / 1000);
            return proposal.stuck(slot, Value::text(wanted.to_string()), why);
        }
        proposal.set(facts, slot, Value::text(wanted.to_string()));
        if policy.max_khz.value().is_some_and(|now| wanted < *now) {
            proposal.follows(Slot::word(format!("{POLICIES}/{}/scaling_min_freq", policy.name)));
        }
    });
}

/// Calls for each clock of the CPUs in question, with the place of its `file`.
pub(super) fn for_each(
    facts: &Facts,
    ask: &Ask,
    file: &str,
    proposal: &mut Proposal,
    propose: impl Fn(&Policy, Slot, &mut Proposal),
) {
    let cpus = ask.cpus.for_latency();
    let mut policies = facts.frequency().of_any(&cpus).peekable();
    if policies.peek().is_none() {
        let none = facts.frequency().without("no frequency driver");
        return proposal.absent(POLICIES, none.why());
    }
    for policy in policies {
        propose(policy, Slot::word(format!("{POLICIES}/{}/{file}", policy.name)), proposal);
    }
}

/// A setting in kHz, within what the hardware does. Without turbo the rated frequency is the
/// highest that there is, whatever the driver shows.
pub(super) fn khz(
    facts: &Facts,
    ask: &Ask,
    policy: &Policy,
    setting: &Setting,
) -> Result<i64, String> {
    let unread = || "cpuinfo_min_freq and cpuinfo_max_freq could not be read".to_owned();
    let lowest = *policy.hardware_min_khz.value().ok_or_else(unread)?;
    let highest = *policy.hardware_max_khz.value().ok_or_else(unread)?;
    let base = policy.base.value().map(|base| base.khz);
    let no_turbo =
        ask.knobs.contains_key("turbo") || facts.frequency().turbo.value() == Some(&false);
    let highest = base.filter(|base| no_turbo && *base < highest).unwrap_or(highest);
    let wanted = match setting.word() {
        "max" => highest,
        "min" => lowest,
        "base" => base.ok_or_else(|| policy.base.why().to_owned())?,
        _ => setting.number() * 1000,
    };
    match lowest <= highest {
        true => Ok(wanted.clamp(lowest, highest)),
        false => Err(unread()),
    }
}

/// The maximum that there will be: from the profile, else as it is.
pub(super) fn cap(facts: &Facts, ask: &Ask, policy: &Policy) -> Option<i64> {
    match ask.knobs.get("max-frequency") {
        Some(setting) => Some(at_most(facts, policy, khz(facts, ask, policy, setting).ok()?)),
        None => policy.max_khz.value().copied(),
    }
}

/// The highest frequency on offer up to this one; the frequency itself where none are listed.
fn at_most(facts: &Facts, policy: &Policy, khz: i64) -> i64 {
    offered(facts, policy).into_iter().filter(|offer| *offer <= khz).max().unwrap_or(khz)
}

/// The frequencies on offer, where the driver lists them (acpi-cpufreq).
pub(super) fn offered(facts: &Facts, policy: &Policy) -> Vec<i64> {
    let path = format!("{POLICIES}/{}/scaling_available_frequencies", policy.name);
    let text = facts.host().line(&path).unwrap_or_default();
    text.split_whitespace().filter_map(|khz| khz.parse().ok()).collect()
}
