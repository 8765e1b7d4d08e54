use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::daemons::{self, Daemons};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "clock.sync",
    cause: Cause::Clock,
    about: "The wall clock is kept right, and by slewing",
    why: "An undisciplined clock drifts by tens of microseconds every second: latencies measured \
          between two hosts, and the order of events, become fiction. The kernel tells whether \
          anybody keeps its clock (adjtimex) and how far off it may be; that counts before the \
          name of any daemon. systemd-timesyncd asks one server every half minute to half hour \
          and steps the clock when it is off by more than 0.4 s: good for a laptop, too coarse \
          for time stamps in microseconds. Daemons in another container are not seen; the \
          kernel's word is.",
    cost: Cost {
        us: 1.0,
        text: "delays nothing: an error of time stamps, ms per minute without a daemon, ms with timesyncd, µs with chrony, below 1 µs with PTP hardware",
        origin: "judgement: crystals are specified to some 10–100 ppm",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

const PRECISE: [&str; 5] =
    ["chrony.service", "ntpsec.service", "openntpd.service", "ptp4l.service", "phc2sys.service"];
const SIMPLE: &str = "systemd-timesyncd.service";

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let precise = Daemons::of(facts, &PRECISE);
    let simple = Daemons::of(facts, &[SIMPLE]);
    let names = daemons::names(&[precise.running.clone(), simple.running.clone()].concat());
    let kernel = &facts.clock().timekeeping;
    let Some(kept) = kernel.value() else { return Verdict::unread(kernel) };
    let simply = precise.running.is_empty() && !simple.running.is_empty();
    let verdict = match (kept.synchronised, names.is_empty()) {
        (true, _) if simply && scope.is_declared() => {
            Verdict::warn("only systemd-timesyncd keeps the clock, and it may step it")
        }
        (true, false) => Verdict::pass(format!("{names} keeps the clock")),
        (true, true) => Verdict::pass("somebody keeps the clock, though no known daemon runs here"),
        (false, false) => Verdict::fail_if(
            scope.is_declared(),
            format!("{names} runs, but the kernel's clock is not synchronised"),
        ),
        (false, true) => match precise.unread.iter().chain(&simple.unread).next() {
            Some(why) => {
                Verdict::fail_if(scope.is_declared(), "the kernel's clock is not synchronised")
                    .evidence("daemons", why)
            }
            None => Verdict::fail_if(scope.is_declared(), "nobody keeps the clock: it drifts"),
        },
    };
    let state = if kept.synchronised { "synchronised" } else { "not synchronised" };
    let verdict = verdict.evidence(
        "adjtimex",
        format!("{state}, off by at most {} µs by its own estimate", kept.max_error_us),
    );
    let verdict = daemons::evidence(verdict, &precise.running);
    daemons::evidence(verdict, &simple.running)
        .fix("apt-get install chrony   # or dnf install chrony; then look at: chronyc tracking")
}
