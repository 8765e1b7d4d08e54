use std::collections::BTreeMap;

use quietcore_facts::Facts;
use quietcore_measure::{Cause, CpuSet};
use quietcore_sys::host::{HostError, Trouble};

use crate::daemons::{self, Daemons};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "irq.irqbalance",
    cause: Cause::Irq,
    about: "irqbalance does not move interrupts to CPUs meant for latency",
    why: "irqbalance moves interrupts between CPUs every ten seconds. By itself it keeps off the \
          CPUs that sysfs shows as isolated or nohz_full (irqbalance(1), 1.9); CPUs that are kept \
          free by cpusets, or only by custom, are fair game. The mask IRQBALANCE_BANNED_CPUS, and \
          if that is not set the list IRQBALANCE_BANNED_CPULIST, replace what it finds instead of \
          adding to it: a stale one undoes it. The variables are taken from the running daemon \
          where they can be read, else from its configuration; what irqbalance-ui has told it \
          since is not seen. Where interrupts are now is for irq.effective-affinity.",
    cost: Cost {
        us: 30.0,
        text: "10–50 µs per interrupt that is moved there, within ten seconds of any change",
        origin: "article on determinism, failure 1; article on isolation, daemons to kill",
    },
    kind: Kind::Host,
    needs: Needs::Cpus,
    judge,
};

const LIST: &str = "IRQBALANCE_BANNED_CPULIST";
const MASK: &str = "IRQBALANCE_BANNED_CPUS";
/// Later files override earlier ones, as in the unit's `EnvironmentFile=` lines.
const FILES: [&str; 3] =
    ["/usr/lib/irqbalance/defaults.env", "/etc/default/irqbalance", "/etc/sysconfig/irqbalance"];

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let daemons = Daemons::of(facts, &["irqbalance.service"]);
    if daemons.running.is_empty() {
        return daemons.unwanted(scope, "irqbalance does not run", |_| Verdict::no_intent());
    }
    let (source, variables) = match variables(facts) {
        Ok(found) => found,
        Err(error) => return Verdict::unanswered(&error),
    };
    let (banned, said) = match banned(&variables) {
        Some(Ok(set)) => (set, format!("bans CPUs {}", variables_text(&variables))),
        Some(Err(why)) => return Verdict::unknown(format!("{source}: {why}")),
        None => match by_itself(facts) {
            Some(set) => (set.clone(), format!("nothing set: bans isolated CPUs {set} by itself")),
            None => return Verdict::unread(&facts.cpus().isolated),
        },
    };
    let open = scope.cpus.minus(&banned);
    let verdict = match open.is_empty() {
        true => Verdict::pass(format!("irqbalance runs and keeps off CPUs {}", scope.cpus)),
        false => Verdict::fail(format!("irqbalance may move interrupts to CPUs {open}")),
    };
    daemons::evidence(verdict, &daemons.running).evidence(source, said).fix(format!(
        "systemctl disable --now irqbalance   # or {LIST}={} in /etc/default/irqbalance, and restart it",
        scope.cpus
    ))
}

/// The running daemon's own environment where it can be read, else what its files say.
fn variables(facts: &Facts) -> Result<(String, BTreeMap<String, String>), HostError> {
    let pid = facts.tasks().named("irqbalance").map(|task| task.pid);
    if let Some(Ok(environment)) = pid.map(|pid| facts.host().environment(pid)) {
        let source = format!("/proc/{}/environ", pid.unwrap_or_default());
        return Ok((source, environment));
    }
    let mut found = BTreeMap::new();
    let mut source = FILES[1];
    for file in FILES {
        let text = match facts.host().read(file) {
            Err(error) if error.trouble == Trouble::Missing => continue,
            answer => answer?,
        };
        let assignments = text.lines().filter_map(|line| line.trim().split_once('='));
        for (name, value) in assignments.filter(|(name, _)| [LIST, MASK].contains(name)) {
            found.insert(name.to_owned(), value.trim_matches(['"', '\'', ' ']).to_owned());
            source = file;
        }
    }
    Ok((source.to_owned(), found))
}

/// What is banned on purpose; `None` where nothing is set. The mask goes first, and an empty value
/// is none, as in irqbalance's own setup_banned_cpus.
fn banned(variables: &BTreeMap<String, String>) -> Option<Result<CpuSet, String>> {
    let text = |result: Result<CpuSet, quietcore_measure::CpuSetError>| {
        result.map_err(|error| error.to_string())
    };
    let set = |name: &str| variables.get(name).filter(|value| !value.is_empty());
    if let Some(mask) = set(MASK) {
        return Some(text(CpuSet::parse_mask(mask)));
    }
    set(LIST).map(|list| text(CpuSet::parse_list(list)))
}

fn variables_text(variables: &BTreeMap<String, String>) -> String {
    let relevant = variables.iter().filter(|(name, _)| [LIST, MASK].contains(&name.as_str()));
    relevant.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

fn by_itself(facts: &Facts) -> Option<CpuSet> {
    let isolated = facts.cpus().isolated.value()?;
    let nohz_full = facts.cpus().nohz_full.value().cloned().unwrap_or_default();
    Some(isolated.or(&nohz_full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_goes_before_a_list_and_an_empty_value_is_none() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
            banned(&pairs.collect())
        };
        assert_eq!(of(&[]), None);
        let set = |list| Some(Ok(CpuSet::parse_list(list).unwrap()));
        assert_eq!(of(&[(LIST, "2-3"), (MASK, "1")]), set("0"));
        assert_eq!(of(&[(LIST, "2-3"), (MASK, "")]), set("2-3"));
        assert_eq!(of(&[(MASK, "")]), None);
        assert!(of(&[(LIST, "x")]).unwrap().is_err());
    }
}
