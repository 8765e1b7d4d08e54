use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "freq.powercap",
    cause: Cause::Frequency,
    about: "No power limit below what the CPU is made for",
    why: "RAPL holds a package to an average power and lowers the frequency of all its cores to \
          keep it. Management controllers, power-capping agents and laptops' firmware set it below \
          the rated power (TDP), and no governor knows of it. Compared are the limits of Linux's \
          powercap with the rating that the hardware gives; a limit set by the controller behind \
          the kernel's back is not visible here, its effect is (freq.busy-vs-base).",
    cost: Cost {
        us: 30.0,
        text: "all cores of the package slow down together under load",
        origin: "kernel: power/powercap/powercap; size: judgement",
    },
    kind: Kind::Host,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    let limits = &facts.hardware().power;
    let long: Vec<_> = limits.iter().filter(|limit| limit.term == "long_term").collect();
    if long.is_empty() {
        return Verdict::not_applicable("no power limits (powercap) are offered here");
    }
    let watts = |uw: i64| uw as f64 / 1e6;
    let below = |limit: &&&quietcore_facts::hardware::PowerLimit| {
        limit.rated_uw.zip(limit.limit_uw).is_some_and(|(rated, now)| now < rated)
    };
    let capped: Vec<_> = long.iter().filter(below).collect();
    let verdict = match capped.first() {
        Some(cap) => Verdict::fail_if(
            scope.is_declared(),
            format!(
                "{} is held to {:.0} W, made for {:.0} W",
                cap.package,
                watts(cap.limit_uw.unwrap_or_default()),
                watts(cap.rated_uw.unwrap_or_default())
            ),
        )
        .fix(
            capped
                .iter()
                .map(|cap| format!("echo {} > {}", cap.rated_uw.unwrap_or_default(), cap.file))
                .collect::<Vec<_>>()
                .join("; "),
        ),
        None if long.iter().any(|limit| limit.limit_uw.is_none()) => {
            Verdict::unknown("the limit of a package could not be read")
        }
        None if long.iter().any(|limit| limit.rated_uw.is_none()) => {
            Verdict::unknown("the hardware does not say what power the package is made for")
        }
        None => Verdict::pass("packages may use the power they are made for"),
    };
    long.iter().fold(verdict, |verdict, limit| {
        let text =
            |uw: Option<i64>| uw.map_or("unknown".to_owned(), |uw| format!("{:.0} W", watts(uw)));
        let (now, rated) = (text(limit.limit_uw), text(limit.rated_uw));
        verdict.evidence(&limit.file, format!("{now}, rated {rated}"))
    })
}
