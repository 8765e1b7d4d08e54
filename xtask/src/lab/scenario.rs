//! What a scenario is, and what every one of them does and must show.
//!
//! A new scenario is one file in `scenarios/` and one line in [`ALL`].

use std::borrow::Cow;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use super::evidence::{Evidence, Finding, findings};
use super::kernel::Series;
use super::scenarios::{cstates, isolated, kills, numa, recorder, smi, stall, typo};
use super::tally::Tally;

/// Every scenario, in the order in which they run.
pub const ALL: &[&Scenario] = &[
    &isolated::SCENARIO,
    &typo::SCENARIO,
    &cstates::SCENARIO,
    &smi::SCENARIO,
    &numa::SCENARIO,
    &recorder::SCENARIO,
    &stall::SCENARIO,
    &kills::SCENARIO,
];

/// Those that take too long for every day.
pub const LONG: &[&Scenario] =
    &[recorder::OTHERS[0], recorder::OTHERS[1], recorder::OTHERS[2], &kills::LONG];

/// A thread for each CPU of the guest.
pub const PARALLEL: &str = "tcg,thread=multi";
/// One for all: slower, and right where the kernel rewrites its own code, as it does for every
/// tracepoint. QEMU's parallel CPUs now and then go on executing what was there before (an int3,
/// for ever: a soft lockup of the CPU that waits for the other).
pub const IN_TURN: &str = "tcg,thread=single";

/// A guest and what must be true of quietcore in it.
pub struct Scenario {
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// Another kernel than the lab's usual one.
    pub kernel: Option<Series>,
    /// Added to the kernel's boot line.
    pub boot: &'static str,
    /// QEMU's -cpu.
    pub cpu: &'static str,
    /// QEMU's -smp.
    pub smp: &'static str,
    /// QEMU's -accel: [`PARALLEL`] or [`IN_TURN`].
    pub accel: &'static str,
    /// More arguments for QEMU.
    pub qemu: &'static [&'static str],
    /// An ACPI table in lab/acpi.
    pub acpi: Option<&'static str>,
    /// Kernel modules beyond those every guest has.
    pub modules: &'static [&'static str],
    /// Shell commands that print, as KEY=VALUE, what the kernel itself says of the guest.
    pub look: &'static str,
    /// Whether the guest is what the scenario needs, judged from `look` alone.
    pub premises: fn(&Evidence, &mut Tally),
    /// Arguments of the audit.
    pub audit: &'static str,
    /// What the audit must find: check and status.
    pub expect: &'static [(&'static str, &'static str)],
    /// The shipped file that `lab record` stores, if one.
    pub recording: Option<&'static str>,
    /// What to do after the audit.
    pub steps: &'static [Step],
    /// What must be true of those steps.
    pub judge: fn(&Evidence, &mut Tally),
}

/// Commands for the guest's shell, run by themselves: exit code, stdout and stderr come back
/// under the step's name. Files left in /lab/ship come back, too.
#[derive(Clone)]
pub struct Step {
    /// A file name, too: letters, digits and dashes.
    pub name: &'static str,
    /// It is killed after that many seconds of the guest's time.
    pub seconds: u64,
    pub run: Cow<'static, str>,
}

impl Step {
    pub const fn new(name: &'static str, seconds: u64, run: &'static str) -> Self {
        Self { name, seconds, run: Cow::Borrowed(run) }
    }
}

/// The file in which every scenario ships what was recorded of it.
pub const RECORDING: &str = "host.json";

/// The step that `--try` adds.
pub const TRIAL: &str = "try";

/// All steps of a scenario. Looking and recording come first, before anything is changed.
pub fn steps(s: &Scenario, trial: Option<&str>) -> Vec<Step> {
    let audit = format!("quietcore audit --format json {}", s.audit);
    // A recording is called after its file.
    let record = format!(
        "quietcore audit --format json {} --record /tmp/{name}.json\n\
         code=$?; cp /tmp/{name}.json /lab/ship/{RECORDING} && exit $code\n",
        s.audit,
        name = s.name
    );
    let mut all = vec![
        Step::new("look", 30, s.look),
        Step { name: "audit", seconds: 60, run: Cow::Owned(audit) },
        Step { name: "record", seconds: 60, run: Cow::Owned(record) },
    ];
    all.extend_from_slice(s.steps);
    if let Some(script) = trial {
        all.push(Step { name: TRIAL, seconds: 120, run: Cow::Owned(script.to_string()) });
    }
    all
}

/// Judges a guest that ran to its end. `quietcore` is the program that ran in it.
pub fn judge(s: &Scenario, e: &Evidence, quietcore: &Path, tally: &mut Tally) {
    let before = tally.broken();
    (s.premises)(e, tally);
    if tally.broken() > before {
        // In another machine than intended every verdict below would be about something else.
        return;
    }
    // 1 says that there are findings, which is no failure of the audit.
    let run = e.json("audit");
    let done = matches!(e.code("audit"), 0 | 1) && run.is_some();
    tally.check(done, "audit prints a run as JSON", || e.ending("audit"));
    tally.findings("audit", &run.unwrap_or(Value::Null), s.expect);
    judge_recording(s, e, quietcore, tally);
    (s.judge)(e, tally);
}

/// A recording must lead to the same findings on another machine: this one.
fn judge_recording(s: &Scenario, e: &Evidence, quietcore: &Path, tally: &mut Tally) {
    let live = e.json("record");
    let recording = e.file(RECORDING);
    let done = matches!(e.code("record"), 0 | 1) && live.is_some() && recording.is_some();
    tally.check(done, "audit --record writes a recording", || e.ending("record"));
    if let (Some(live), Some(recording)) = (live, recording) {
        let offline = audit_offline(s, recording, quietcore);
        let live = findings(&live);
        let same = offline.as_ref().is_ok_and(|run| findings(run) == live);
        tally.check(same, "the recording leads to the same findings here", || match &offline {
            Err(e) => format!("{e:#}"),
            Ok(run) => difference(&live, &findings(run)),
        });
    }
}

fn audit_offline(s: &Scenario, recording: &[u8], quietcore: &Path) -> Result<Value> {
    let file = std::env::temp_dir().join(format!("quietcore-lab-{}.json", std::process::id()));
    std::fs::write(&file, recording).with_context(|| format!("writing {}", file.display()))?;
    let out = Command::new(quietcore)
        .args(["audit", "--format", "json", "--root"])
        .arg(&file)
        .args(s.audit.split_whitespace())
        .stdin(Stdio::null())
        .output();
    // Left behind it would only be litter; the result matters more.
    let _ = std::fs::remove_file(&file);
    let out = out.with_context(|| format!("cannot run {}", quietcore.display()))?;
    serde_json::from_slice(&out.stdout)
        .with_context(|| String::from_utf8_lossy(&out.stderr).into_owned())
}

/// What only one of two audits found.
fn difference(live: &[Finding], offline: &[Finding]) -> String {
    let only = |name: &str, these: &[Finding], those: &[Finding]| {
        let mut text = String::new();
        for f in these.iter().filter(|f| !those.contains(f)) {
            text.push_str(&format!("\n        {name}: {} {}: {}", f.id, f.status, f.title));
        }
        text
    };
    let text = only("in the guest", live, offline) + &only("here", offline, live);
    if text.is_empty() { "only their order differs".to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_fit_the_guests_step_list() {
        let plain =
            |n: &str| !n.is_empty() && n.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let mut seen = BTreeSet::new();
        for s in ALL.iter().chain(LONG) {
            assert!(plain(s.name) && seen.insert(s.name), "{}", s.name);
            let mut steps_seen = BTreeSet::new();
            for step in steps(s, Some("")) {
                assert!(plain(step.name) && steps_seen.insert(step.name), "{}", step.name);
                assert!(step.seconds > 0);
            }
        }
    }

    #[test]
    fn every_file_of_a_scenario_is_listed_and_documented() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let readme = std::fs::read_to_string(root.join("../lab/README.md")).unwrap();
        let mut files = BTreeSet::new();
        for entry in std::fs::read_dir(root.join("src/lab/scenarios")).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            if stem != "mod" {
                files.insert(stem);
            }
        }
        let listed: BTreeSet<String> = ALL.iter().map(|s| s.name.to_string()).collect();
        assert_eq!(files, listed);
        for name in listed {
            assert!(readme.contains(&format!("`{name}`")), "lab/README.md says nothing of {name}");
        }
    }
}
