use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::{Check, Cost, Kind, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "sched.cpu-pressure",
    cause: Cause::Scheduler,
    about: "Runnable threads do not wait for a CPU",
    why: "PSI counts the share of time in which some thread was runnable and waited for a CPU. It \
          tells of the whole host: with CPUs kept for latency it is mostly the housekeeping CPUs \
          that are too few, and then interrupts' threads, RCU's threads and the kernel's workers \
          wait, too. A warning only: who waits is not known. Above 10 % over a minute is taken \
          for too much, a judgement. Absent without CONFIG_PSI, or with psi=0. (kernel: \
          accounting/psi.rst)",
    cost: Cost {
        us: 1000.0,
        text: "waits of up to some time slices (3–4 ms each) for whoever waits",
        origin: "judgement: the slice from kernel/sched/fair.c, the share is measured here",
    },
    kind: Kind::Host,
    judge,
};

/// Percent of a minute.
const TOO_MUCH: f64 = 10.0;

fn judge(facts: &Facts, scope: &Scope) -> Verdict {
    const SOURCE: &str = "/proc/pressure/cpu";
    let text = match facts.host().read(SOURCE) {
        Ok(text) => text,
        Err(error) => return Verdict::unanswered(&error),
    };
    let Some((line, share)) = avg60(&text) else {
        return Verdict::unknown(format!("{SOURCE}: expected a line `some avg10=… avg60=…`"));
    };
    let verdict = match share > TOO_MUCH {
        false => Verdict::pass(format!("threads waited for a CPU in {share} % of the last minute")),
        true => Verdict::warn(format!("threads waited for a CPU in {share} % of the last minute")),
    };
    let fix = match scope.is_declared() {
        true => format!(
            "run less, or leave more than CPUs {} for everything else",
            scope.housekeeping(facts)
        ),
        false => {
            "run less on this host, or give the latency-critical process CPUs of its own".to_owned()
        }
    };
    verdict.evidence(SOURCE, line).fix(fix)
}

fn avg60(text: &str) -> Option<(&str, f64)> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let value = line.split_whitespace().find_map(|word| word.strip_prefix("avg60="))?;
    let share: f64 = value.parse().ok()?;
    (0.0..=100.0).contains(&share).then_some((line, share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_minute_is_read() {
        let text = "some avg10=16.44 avg60=13.28 avg300=34.06 total=424480135\nfull avg10=0.00\n";
        assert_eq!(avg60(text).unwrap().1, 13.28);
        for garbage in ["", "some", "some avg60=x", "some avg60=NaN", "some avg60=1e9"] {
            assert!(avg60(garbage).is_none(), "{garbage}");
        }
    }
}
