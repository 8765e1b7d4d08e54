use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::daemons::{self, Daemons};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "clock.sync-conflict",
    cause: Cause::Clock,
    about: "Only one daemon steers the wall clock",
    why: "Two daemons that steer the same clock (chrony or ntpd, systemd-timesyncd, phc2sys) pull it \
          back and forth: each takes the other's corrections for drift. ptp4l steers the card's \
          clock, not the system's, and needs phc2sys (or a chrony that reads it) to carry the time \
          over: alone it leaves the system's clock alone. chrony beside phc2sys is a conflict \
          unless phc2sys feeds it by shared memory, which its arguments say and this does not \
          read.",
    cost: Cost {
        us: 2.0,
        text: "delays nothing: a clock that swings by tens of µs to ms, and rates that change with it",
        origin: "judgement: the size of the corrections of two loops that do not agree",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

const STEERING: [&str; 5] = [
    "chrony.service",
    "ntpsec.service",
    "openntpd.service",
    "systemd-timesyncd.service",
    "phc2sys.service",
];

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let steering = Daemons::of(facts, &STEERING);
    // Units that share one process name stand for one daemon.
    let mut by_proof: Vec<_> = steering.running.clone();
    by_proof.dedup_by(|a, b| a.value == b.value && a.source == b.source);
    let names = daemons::names(&by_proof);
    let chrony_reads = facts
        .clock()
        .users
        .value()
        .is_some_and(|users| users.iter().any(|(daemon, _)| daemon == "chronyd"));
    let ptp = Daemons::of(facts, &["ptp4l.service"]);
    let carried = by_proof.iter().any(|s| s.unit == "phc2sys.service") || chrony_reads;
    match by_proof.len() {
        2.. => daemons::evidence(Verdict::warn(format!("{names} steer the same clock")), &by_proof)
            .fix("keep one: systemctl disable --now systemd-timesyncd   # or the other"),
        _ if !ptp.running.is_empty() && !carried => daemons::evidence(
            Verdict::warn("ptp4l keeps the card's clock, nobody carries it to the system's"),
            &ptp.running,
        )
        .fix("systemctl enable --now phc2sys   # phc2sys -a -r"),
        _ if !steering.unread.is_empty() => {
            Verdict::unknown(steering.unread.first().copied().unwrap_or_default())
        }
        1 => daemons::evidence(Verdict::pass(format!("only {names} steers the clock")), &by_proof),
        _ => Verdict::not_applicable("no known daemon steers the clock"),
    }
}
