use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "clock.phc",
    cause: Cause::Clock,
    about: "The clock on the network card is used",
    why: "A card with a PTP hardware clock stamps packets as they pass the wire. Without it the \
          time of arrival is taken by software, after interrupt and queues, and every jitter of \
          this host is in the time it keeps. Whether it is used is seen from the open files of \
          ptp4l, phc2sys, chronyd and ntpd (/dev/ptpN; root sees them). In a guest a \
          clock named KVM virtual PTP gives the host's time and is the best there is.",
    cost: Cost {
        us: 1.0,
        text: "delays nothing: 10–50 µs of error in time stamps instead of below 1",
        origin: "judgement: software stamping includes interrupt and scheduling delay",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let clock = facts.clock();
    let of_cards: Vec<(String, String)> = facts
        .nics()
        .up
        .iter()
        .filter_map(|nic| {
            let index = nic.ethtool.value()?.phc.filter(|index| *index >= 0)?;
            Some((format!("ptp{index}"), format!("of {}", nic.name)))
        })
        .collect();
    let named = |(name, driver): &(String, String)| (name.clone(), driver.clone());
    let listed = clock.hardware.value().into_iter().flatten();
    let mut clocks: Vec<(String, String)> = listed.map(named).collect();
    clocks.extend(of_cards);
    if clocks.is_empty() && clock.hardware.value().is_none() {
        return Verdict::unread(&clock.hardware);
    }
    if clocks.is_empty() {
        return Verdict::not_applicable("no network card has a clock of its own");
    }
    if !scope.is_declared() {
        return Verdict::no_intent();
    }
    let Some(users) = clock.users.value() else { return Verdict::unread(&clock.users) };
    let verdict = match users.is_empty() {
        true => Verdict::warn("a network card has a clock that nobody uses"),
        false => Verdict::pass("the clock of the network card is used"),
    };
    let verdict = clocks
        .iter()
        .fold(verdict, |v, (name, what)| v.evidence(format!("/sys/class/ptp/{name}"), what));
    let first = clocks.first().map(|(name, _)| name.as_str()).unwrap_or_default();
    users
        .iter()
        .fold(verdict, |v, (daemon, name)| v.evidence(daemon, format!("has /dev/{name} open")))
        .fix(format!(
            "`hwtimestamp *` (or `refclock PHC /dev/{first} poll 0`) in /etc/chrony/chrony.conf, then systemctl restart chrony; or ptp4l with phc2sys"
        ))
}
