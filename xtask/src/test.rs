//! Everything that decides, step by step, with one count at the end.
//!
//! A test that was skipped where it could have run, or that quietly went away, fails the whole:
//! the number of tests is pinned in `xtask/pinned-tests`.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::dist;

const PINNED: &str = include_str!("../pinned-tests");

/// What `cargo xtask test` is told.
#[derive(clap::Args)]
pub struct Args {
    /// Fuzz for minutes instead of seconds, and boot the guests that take an hour
    #[arg(long)]
    long: bool,
}

/// One command of a run.
struct Step {
    name: &'static str,
    program: &'static str,
    args: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const fn cargo(name: &'static str, args: &'static [&'static str]) -> Step {
    Step { name, program: "cargo", args, environment: &[] }
}

/// `cargo fmt` does not follow modules that a macro declares (the lists of checks and facts).
const FORMAT: Step = Step {
    name: "format",
    program: "sh",
    args: &["-c", "git ls-files -z '*.rs' | xargs -0 rustfmt --edition 2024 --check"],
    environment: &[],
};
const LINTS: Step = cargo(
    "lints",
    &[
        "clippy",
        "--workspace",
        "--all-features",
        "--all-targets",
        "--quiet",
        "--",
        "--deny",
        "warnings",
    ],
);
/// As it is built where nobody asks for more.
const PLAIN_LINTS: Step = cargo(
    "lints, no features",
    &["clippy", "-p", "quietcore-feed", "--quiet", "--", "--deny", "warnings"],
);
const LAYERS: Step = cargo("layers", &["xtask", "layers"]);
const UNIT: Step =
    cargo("unit tests", &["test", "--workspace", "--all-features", "--lib", "--bins", "--quiet"]);
const TESTS: Step =
    cargo("tests", &["test", "--workspace", "--all-features", "--no-fail-fast", "--quiet"]);
/// What changes the host, pins or is denied needs root; such tests are ignored without it.
const ROOT_TESTS: Step = cargo(
    "tests, those for root among them",
    &[
        "test",
        "--workspace",
        "--all-features",
        "--no-fail-fast",
        "--quiet",
        "--",
        "--include-ignored",
    ],
);
const DOCS: Step = Step {
    environment: &[("RUSTDOCFLAGS", "--deny warnings")],
    ..cargo("docs", &["doc", "--workspace", "--all-features", "--no-deps", "--quiet"])
};
const DENY: Step = cargo(
    "licences and sources",
    &["deny", "--log-level", "error", "check", "bans", "licenses", "sources"],
);
const DIST: Step = cargo("tarball in an empty folder", &["xtask", "dist", "--verify"]);
/// The same, built as fast as may be: what it does is tested here, not how fast.
const QUICK_DIST: Step = Step {
    environment: &[
        ("CARGO_PROFILE_RELEASE_LTO", "off"),
        ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ],
    ..DIST
};
/// The guests run the very binary that the tarball holds.
const LAB: Step = cargo("guests", &["xtask", "lab", "quick", "--quietcore", dist::BINARY]);
const LONG: Step = cargo("guests, long", &["xtask", "lab", "long", "--quietcore", dist::BINARY]);
/// The whole way; each boot of a whole machine takes minutes on a host that others use, too.
const MACHINE: Step = cargo(
    "machine",
    &["xtask", "lab", "machine", "--only=untouched", "--only=tuning", "--quietcore", dist::BINARY],
);
const MACHINE_LONG: Step = cargo(
    "machine, long",
    &[
        "xtask",
        "lab",
        "machine",
        "--only=unconfirmed",
        "--only=power-cut",
        "--only=one-shot",
        "--quietcore",
        dist::BINARY,
    ],
);

pub fn check() -> ExitCode {
    let expected = Expected { passed: 0, all_can_run: false };
    finish(run(&[FORMAT, LINTS, PLAIN_LINTS, LAYERS, UNIT], false), expected)
}

pub fn main(args: &Args) -> ExitCode {
    let pinned = PINNED.trim().parse().unwrap_or(u64::MAX);
    let root = is_root();
    let tests = if root { ROOT_TESTS } else { TESTS };
    if !root {
        println!("not root: the tests that need it are skipped");
    }
    let dist = if args.long { DIST } else { QUICK_DIST };
    let mut steps = vec![FORMAT, LINTS, PLAIN_LINTS, LAYERS, tests, DOCS, DENY, dist, LAB, MACHINE];
    if args.long {
        steps.extend([LONG, MACHINE_LONG]);
    }
    let expected = Expected { passed: pinned, all_can_run: root };
    finish(install_deny().and_then(|()| run(&steps, args.long)), expected)
}

/// The owner of /proc/self is who we are; asking the kernel directly takes `unsafe`.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// cargo-deny is in no distribution that quietcore supports. Its newest release may need a newer
/// Rust than the workspace does; 0.18.3 is the last that builds with 1.85. Optimising it would take
/// minutes for what it does in two seconds.
fn install_deny() -> Result<()> {
    let there = Command::new("cargo").args(["deny", "--version"]).output().context("cargo")?;
    if there.status.success() {
        return Ok(());
    }
    println!("installing cargo-deny");
    let install = |version: &[&str]| {
        Command::new("cargo")
            .args(["install", "--quiet", "--debug", "--locked", "cargo-deny"])
            .args(version)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .status()
            .context("cargo install")
    };
    if install(&[])?.success() {
        return Ok(());
    }
    let done = install(&["--version", "0.18.3"])?;
    anyhow::ensure!(done.success(), "cargo install cargo-deny: {done}");
    Ok(())
}

/// What the test runners counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

struct Outcome {
    counts: Counts,
    /// Steps that failed, by name.
    broken: Vec<String>,
}

fn run(steps: &[Step], long: bool) -> Result<Outcome> {
    let mut outcome = Outcome { counts: Counts::default(), broken: Vec::new() };
    for step in steps {
        let start = Instant::now();
        println!("── {}", step.name);
        let (ok, counts) = take(step, long)?;
        outcome.counts.passed += counts.passed;
        outcome.counts.failed += counts.failed;
        outcome.counts.skipped += counts.skipped;
        let verdict = if ok { "ok" } else { "FAILED" };
        println!("── {}: {verdict} in {}", step.name, seconds(start.elapsed()));
        if !ok {
            outcome.broken.push(step.name.to_owned());
        }
    }
    Ok(outcome)
}

fn take(step: &Step, long: bool) -> Result<(bool, Counts)> {
    let mut command = Command::new(step.program);
    let args = step.args.iter().map(|arg| match *arg {
        dist::BINARY => dist::binary().into_os_string(),
        plain => plain.into(),
    });
    command.args(args).envs(step.environment.iter().copied()).stdout(Stdio::piped());
    if long {
        command.env("QUIETCORE_FUZZ_SECONDS", "120");
    }
    let mut child = command.spawn().with_context(|| step.program.to_owned())?;
    let output = child.stdout.take().context("a piped stdout")?;
    let mut counts = Counts::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        let here = counted(&line);
        counts.passed += here.passed;
        counts.failed += here.failed;
        counts.skipped += here.skipped;
    }
    Ok((child.wait()?.success(), counts))
}

/// The closing line of libtest (`test result: ok. 3 passed; 0 failed; 1 ignored; …`) or of the
/// lab (`9 passed, 0 failed`).
fn counted(line: &str) -> Counts {
    let is_closing = line.starts_with("test result:")
        || (line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(" passed, "));
    if !is_closing {
        return Counts::default();
    }
    let words: Vec<&str> =
        line.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let before = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    Counts {
        passed: before("passed").unwrap_or(0),
        failed: before("failed").unwrap_or(0),
        skipped: before("ignored").or(before("skipped")).unwrap_or(0),
    }
}

/// What a run must come to.
struct Expected {
    passed: u64,
    all_can_run: bool,
}

fn finish(outcome: Result<Outcome>, expected: Expected) -> ExitCode {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("test: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let Counts { passed, failed, skipped } = outcome.counts;
    let mut ok = outcome.broken.is_empty() && failed == 0;
    if !outcome.broken.is_empty() {
        println!("failed: {}", outcome.broken.join(", "));
    }
    if expected.all_can_run && passed < expected.passed {
        let pinned = expected.passed;
        println!(
            "only {passed} tests passed where xtask/pinned-tests has {pinned}: some went away"
        );
        ok = false;
    }
    if skipped > 0 && expected.all_can_run {
        println!("{skipped} tests were skipped where all can run");
        ok = false;
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_lines_of_both_runners_are_counted() {
        let of = |passed, failed, skipped| Counts { passed, failed, skipped };
        assert_eq!(
            counted(
                "test result: ok. 46 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.29s"
            ),
            of(46, 1, 2)
        );
        assert_eq!(counted("9 passed, 1 failed"), of(9, 1, 0));
        assert_eq!(counted("9 passed, 0 failed, 3 skipped"), of(9, 0, 3));
        assert_eq!(counted("ok: 9 passed, 1 failed"), of(0, 0, 0));
        assert_eq!(counted("running 9 tests"), of(0, 0, 0));
    }
}
