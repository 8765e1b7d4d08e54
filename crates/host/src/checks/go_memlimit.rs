use quietcore_facts::Facts;
use quietcore_measure::Cause;

use crate::subject::{go_environment, unread};
use crate::{Check, Cost, Kind, Needs, Scope, Verdict};

pub const CHECK: Check = Check {
    id: "go.memlimit",
    cause: Cause::Gc,
    about: "Go's memory limit leaves room",
    why: "A collector that runs rarely needs a limit, or the heap grows until the kernel kills the \
          program: GOGC=off without GOMEMLIMIT never frees anything. Close to the limit the \
          opposite happens: Go collects again and again, with up to half of its CPU time. Judged \
          by the resident size against GOMEMLIMIT; a limit set by debug.SetMemoryLimit is not to \
          be seen, so without the variable the answer is unknown. From Go 1.19 on.",
    cost: Cost {
        us: 1000.0,
        text: "near the limit up to half of the CPU time, ms at a time",
        origin: "go.dev/doc/gc-guide, section on the memory limit; article on determinism, the section on Go",
    },
    kind: Kind::Process,
    needs: Needs::Nothing,
    judge,
};

fn judge(facts: &Facts, _: &Scope) -> Verdict {
    let environment = match go_environment(facts) {
        Ok(environment) => environment,
        Err(verdict) => return verdict,
    };
    let source = format!("/proc/{}/environ", facts.pid().unwrap_or_default());
    let fix = "GOMEMLIMIT=…MiB: the memory the host can spare, well above what the program uses";
    let off = environment.get("GOGC").is_some_and(|value| value == "off");
    let value = match environment.get("GOMEMLIMIT").map(String::as_str) {
        None | Some("off") if off => {
            return Verdict::warn(
                "GOGC=off and no memory limit: the heap grows until it is killed",
            )
            .evidence(source, "GOGC=off, no GOMEMLIMIT")
            .fix(fix);
        }
        None => {
            return Verdict::unknown(
                "GOMEMLIMIT is not in the environment: none, unless the code calls debug.SetMemoryLimit",
            )
            .evidence(source, "no GOMEMLIMIT");
        }
        Some(value) => value,
    };
    if value == "off" {
        return Verdict::pass("there is no memory limit to come close to")
            .evidence(source, "GOMEMLIMIT=off");
    }
    let Some(limit) = bytes(value) else {
        return Verdict::fail(format!(
            "GOMEMLIMIT={value} is no size: Go refuses to start with it"
        ))
        .evidence(source, format!("GOMEMLIMIT={value}"))
        .fix(fix);
    };
    let process = facts.process();
    let Some(memory) = process.memory.value() else { return unread(&process.memory) };
    let resident = memory.resident_kib.saturating_mul(1024);
    let share = resident as f64 / limit.max(1) as f64;
    let title = format!("the process holds {:.0} % of GOMEMLIMIT={value}", share * 100.0);
    let verdict = match share < 0.9 {
        true => Verdict::pass(title),
        false => Verdict::fail(title),
    };
    verdict
        .evidence(source, format!("GOMEMLIMIT={value}"))
        .evidence("VmRSS", format!("{} kB", memory.resident_kib))
        .fix(fix)
}

/// `512MiB`, `1073741824`, `2GiB`, `100B`: the only units Go knows.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_go_reads_them() {
        assert_eq!(bytes("512MiB"), Some(512 << 20));
        assert_eq!(bytes("1024"), Some(1024));
        assert_eq!(bytes("1B"), Some(1));
        for garbage in ["", "MiB", "512MB", "512mib", "-1", "99999999999TiB", "1 GiB", "ä"] {
            assert_eq!(bytes(garbage), None, "{garbage}");
        }
    }
}
