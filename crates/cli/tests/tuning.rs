//! `apply`, `status`, `verify`, `confirm`, `rollback`: what they do, and what they survive.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use program::private::{POLICIES, Private, column, governor};
use program::{refuses, stderr};

/// The places of a rolled-back table by outcome.
fn outcomes(run: &serde_json::Value) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let places = column(run, "rollback", "places");
    for (outcome, places) in column(run, "rollback", "outcome").into_iter().zip(places) {
        *counts.entry(outcome).or_default() += places.parse::<usize>().unwrap();
    }
    counts
}

fn state(host: &Private) -> Vec<String> {
    let run = program::run(&mut host.quietcore(&["status", "--format", "json"]), 0);
    column(&run, "status", "state")
}

/// Waits for what has to come, however slow the machine; the test hangs for a minute if it does not.
fn comes(what: &str, mut is_there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A small generator, seeded: a failure comes again.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test tuning -- --ignored"]
fn root_what_is_applied_holds_is_told_and_comes_back() {
    let host = Private::new();
    let before = host.picture();
    assert_eq!(state(&host), [""; 0]);
    host.apply();
    assert_eq!(
        (host.read(&governor(39)), host.read("swappiness")),
        ("performance".into(), "10".into())
    );
    assert_eq!(state(&host), ["in force"]);
    program::stdout(&mut host.quietcore(&["verify"]), 0);

    let files: Vec<_> = (0..POLICIES).map(governor).collect();
    let stamp = |host: &Private| -> Vec<_> {
        files
            .iter()
            .map(|f| fs::metadata(host.path(f)).unwrap())
            .map(|m| (m.mtime(), m.mtime_nsec()))
            .collect()
    };
    let stamps = stamp(&host);
    host.apply();
    assert_eq!(stamp(&host), stamps, "a second apply writes no place");
    program::run(&mut host.quietcore(&["plan", "--format", "json"]), 0);

    host.write(&governor(3), "ondemand\n");
    let drift = program::stdout(&mut host.quietcore(&["verify"]), 1);
    assert!(drift.contains("DRIFT") && drift.contains("ondemand"), "{drift}");
    host.write(&governor(3), "performance\n");

    let back = host.rollback(0);
    assert_eq!(outcomes(&back), BTreeMap::from([("restored".to_owned(), POLICIES + 2)]));
    assert_eq!(host.picture(), before);
    assert_eq!(state(&host), [""; 0]);
    host.rollback(0);
    refuses(&mut host.quietcore(&["confirm"]), 2, &["nothing waits to be confirmed"]);
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test tuning -- --ignored"]
fn root_what_is_not_confirmed_in_time_goes_though_its_terminal_was_closed() {
    let host = Private::new();
    let before = host.picture();
    // A session of its own, as a login has; all of it is killed when apply is done.
    let apply = host.quietcore(&["apply", "--quiet", "--confirm-within", "3s"]);
    let script = "\"$@\"; echo done; sleep 600";
    let words: Vec<_> = apply.get_args().map(ToOwned::to_owned).collect();
    let mut session = Command::new("setsid");
    session.args(["--wait", "sh", "-c", script, "sh", "unshare"]).args(words);
    let mut session = session.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
    comes("the change", || host.read("swappiness") == "10");
    comes("the phase", || state(&host).iter().any(|s| s.starts_with("confirm within")));
    let leader = fs::read_to_string(format!("/proc/{0}/task/{0}/children", session.id())).unwrap();
    let leader = leader.split_whitespace().next().map_or(session.id().to_string(), str::to_owned);
    for signal in ["-HUP", "-KILL"] {
        let _ = Command::new("kill").args([signal, "--", &format!("-{leader}")]).output();
    }
    session.kill().unwrap();
    session.wait().unwrap();
    comes("the guardian", || host.picture() == before);
    comes("the end", || !host.journal().exists());
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test tuning -- --ignored"]
fn root_what_is_confirmed_stays_and_what_has_drifted_is_not_confirmed() {
    let host = Private::new();
    let apply = || host.quietcore(&["apply", "--quiet", "--confirm-within", "1h"]);
    program::stdout(&mut apply(), 0);
    host.write(&governor(0), "ondemand\n");
    refuses(&mut host.quietcore(&["confirm"]), 2, &["have drifted"]);
    host.write(&governor(0), "performance\n");
    program::stdout(&mut host.quietcore(&["confirm"]), 0);
    assert_eq!(state(&host), ["in force"]);
    refuses(&mut host.quietcore(&["confirm"]), 2, &["nothing waits"]);
    host.rollback(0);
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test tuning -- --ignored"]
fn root_two_at_once_one_does_it_and_the_other_says_who_is_at_it() {
    for _ in 0..5 {
        let host = Private::new();
        let start = || {
            let mut command = host.quietcore(&["apply", "--quiet"]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let all = [start(), start(), start()].map(|child| child.wait_with_output().unwrap());
        assert!(all.iter().any(|output| output.status.success()));
        for output in all.iter().filter(|output| !output.status.success()) {
            let said = stderr(output);
            assert!(
                output.status.code() == Some(2) && said.contains("another quietcore"),
                "{said}"
            );
        }
        program::stdout(&mut host.quietcore(&["verify"]), 0);
        assert_eq!(outcomes(&host.rollback(0))["restored"], POLICIES + 2);
    }
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test tuning -- --ignored"]
fn root_a_profile_with_a_mistake_changes_nothing_and_names_it() {
    let host = Private::new();
    let before = host.picture();
    for (text, said) in [
        ("[knobs]\nswapiness = 1\n", "there is no knob `swapiness`"),
        ("[knobs]\nswappiness = \"x\"\n", "expected a number"),
        ("[knob]\nswappiness = 1\n", "line 1: unknown field `knob`"),
        ("[knobs\n", "line 1"),
    ] {
        host.write("own.toml", text);
        refuses(&mut host.quietcore(&["apply"]), 2, &["own.toml", said]);
    }
    assert_eq!(host.picture(), before);
    assert!(!host.state().exists());
}

#[test]
#[ignore = "needs root (it becomes another user): cargo test -p quietcore-cli --test tuning -- --ignored"]
fn root_without_root_nothing_is_changed_and_reading_works() {
    let (place, program) = program::for_everybody();
    let state = place.path().join("state");
    let nobody = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.args(args).uid(65_534).gid(65_534);
        command
    };
    for verb in ["apply", "rollback", "confirm"] {
        let mut command = nobody(&[verb, "--state"]);
        refuses(command.arg(&state), 3, &["takes root"]);
    }
    assert!(!state.exists());
    program::stdout(nobody(&["status", "--state"]).arg(&state), 0);
    program::stdout(nobody(&["verify", "--state"]).arg(&state), 0);
    let code = nobody(&["plan"]).output().unwrap().status.code();
    assert!(matches!(code, Some(0 | 1)), "{code:?}");
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test tuning -- --ignored"]
fn root_a_journal_of_an_earlier_boot_gives_back_nothing_that_the_reboot_has_reset() {
    let host = Private::new();
    host.apply();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    rewrite(&host, boot.trim(), "00000000-0000-0000-0000-000000000000");
    // What the machine came up with, which happens to be what was applied.
    let after = host.picture();
    let back = host.rollback(0);
    assert_eq!(outcomes(&back), BTreeMap::from([("rebooted".to_owned(), POLICIES + 2)]));
    assert_eq!(host.picture(), after);
    assert!(!host.journal().exists());
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test tuning -- --ignored"]
fn root_a_journal_of_another_machine_is_refused_and_kept() {
    let host = Private::new();
    host.apply();
    let after = host.picture();
    let own = fs::read_to_string("/etc/machine-id").unwrap();
    rewrite(&host, own.trim(), "0123456789abcdef0123456789abcdef");
    for verb in ["apply", "rollback", "confirm"] {
        refuses(&mut host.quietcore(&[verb]), 2, &["another machine"]);
    }
    assert_eq!(state(&host), ["written on another machine"]);
    assert_eq!(host.picture(), after);
    assert!(host.journal().exists());
}

/// Puts a word in the place of another in the journal, with checksums that are right.
fn rewrite(host: &Private, from: &str, to: &str) {
    assert!(!from.is_empty());
    let text = fs::read_to_string(host.journal()).unwrap();
    let lines = text.lines().map(|line| {
        let json = line.split_once(' ').unwrap().1.replace(from, to);
        format!("{:08x} {json}\n", crc(json.as_bytes()))
    });
    let changed: String = lines.collect();
    assert_ne!(changed, text);
    fs::write(host.journal(), changed).unwrap();
}

/// CRC-32 as gzip has it, one bit at a time.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test tuning -- --ignored"]
fn root_a_journal_that_was_cut_anywhere_gives_back_what_it_knows_and_nothing_else() {
    let host = Private::new();
    host.write("own.toml", "[knobs]\nswappiness = 10\n");
    host.apply();
    let whole = fs::read(host.journal()).unwrap();
    let known = whole.windows(8).position(|w| w == b"\"before\"").unwrap();
    let known = known + whole[known..].iter().position(|b| *b == b'\n').unwrap() + 1;
    // All of them from one shell: a namespace for each would take minutes.
    let script = r#"
        quietcore=$1 host=$2
        mount -t tmpfs none "$host/state"
        length=0
        while [ "$length" -le "$3" ]; do
            head -c "$length" "$host/whole" >"$host/state/tuning.lease"
            echo 10 >/proc/sys/vm/swappiness
            code=0
            "$quietcore" rollback --quiet --state "$host/state" >/dev/null || code=$?
            echo "$length $code $(cat /proc/sys/vm/swappiness)"
            rm -f "$host"/state/tuning.*
            length=$((length + 1))
        done
    "#;
    fs::write(host.path("whole"), &whole).unwrap();
    let mut command = host.command("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_quietcore")]).arg(host.folder.path());
    let said = program::stdout(command.arg(whole.len().to_string()), 0);
    assert_eq!(said.lines().count(), whole.len() + 1);
    for line in said.lines() {
        let words: Vec<usize> = line.split(' ').map(|w| w.parse().expect(line)).collect();
        let [length, code, value] = words[..] else { panic!("{line}") };
        let expected = if length >= known { 60 } else { 10 };
        assert_eq!((value, code), (expected, 0), "cut to {length} of {}", whole.len());
    }
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test tuning -- --ignored"]
fn root_garbage_in_a_journal_never_writes_what_was_not_there_before() {
    let host = Private::new();
    host.apply();
    let whole = fs::read(host.journal()).unwrap();
    let mut random = Random(7);
    for round in 0..60 {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
            1 => bytes = (0..2000).map(|_| random.below(256) as u8).collect(),
            _ => {
                let at = random.below(bytes.len() as u64) as usize;
                let until = at + random.below((bytes.len() - at) as u64) as usize;
                bytes.drain(at..until);
            }
        }
        for policy in 0..POLICIES {
            host.write(&governor(policy), "performance\n");
        }
        fs::write(host.journal(), &bytes).unwrap();
        let output = host.quietcore(&["rollback", "--quiet"]).output().unwrap();
        let said = stderr(&output);
        assert!(
            matches!(output.status.code(), Some(0..=2)) && !said.contains("panicked"),
            "{said}"
        );
        for policy in 0..POLICIES {
            let now = host.read(&governor(policy));
            assert!(["performance", "powersave"].contains(&now.as_str()), "round {round}: {now}");
        }
        for name in ["tuning.lease", "tuning.damaged"] {
            let _ = fs::remove_file(host.state().join(name));
        }
    }
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test tuning -- --ignored"]
fn root_a_full_disk_changes_nothing_and_a_disk_that_fills_up_loses_nothing() {
    let (mut done, mut refused) = (0, 0);
    for kib in [4, 8, 12, 16, 24, 64] {
        let host = Private::new();
        let before = host.picture();
        fs::create_dir(host.state()).unwrap();
        // What apply leaves on the small disk is rolled back there, too.
        let script = r#"
            quietcore=$1 host=$2
            mount -t tmpfs -o "size=$3k" none "$host/state"
            "$quietcore" apply --quiet --profile "$host/own.toml" --state "$host/state" >/dev/null || echo "apply $?"
            cat "$host/cpu/cpufreq/policy7/scaling_governor"
            "$quietcore" rollback --quiet --state "$host/state" >/dev/null || echo "rollback $?"
        "#;
        let mut command = host.command("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_quietcore")]);
        let output = command.arg(host.folder.path()).arg(kib.to_string()).output().unwrap();
        let (said, talk) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
        match said.trim() {
            "performance" => done += 1,
            "apply 2\npowersave" => {
                assert!(talk.contains("No space left"), "{talk}");
                refused += 1;
            }
            other => panic!("{kib} KiB: {other}\n{talk}"),
        }
        assert_eq!(host.picture(), before, "{kib} KiB: {said}{talk}");
    }
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test tuning -- --ignored"]
fn root_what_others_have_set_since_is_kept_whatever_it_is() {
    let mut random = Random(11);
    for round in 0..20 {
        let host = Private::new();
        let before = host.picture();
        host.apply();
        let mut expected = before.clone();
        let share = random.below(101);
        for policy in 0..POLICIES {
            if random.below(100) < share {
                host.write(&governor(policy), "ondemand\n");
                expected.insert(governor(policy), "ondemand".into());
            }
        }
        let foreign = expected.values().filter(|value| *value == "ondemand").count();
        let back = host.rollback(i32::from(foreign > 0));
        assert_eq!(host.picture(), expected, "round {round}");
        assert_eq!(outcomes(&back).get("KEPT").copied().unwrap_or(0), foreign);
    }
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test tuning -- --ignored"]
fn root_apply_killed_at_any_moment_is_taken_back_whole() {
    let mut random = Random(13);
    let (mut early, mut within, mut late) = (0, 0, 0);
    // As long as it takes here, and a little.
    let host = Private::new();
    let start = Instant::now();
    host.apply();
    let whole = start.elapsed().as_micros() as u64;
    for _ in 0..40 {
        let host = Private::new();
        let before = host.picture();
        let mut command = host.quietcore(&["apply", "--quiet"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(random.below(whole + whole / 4)));
        child.kill().unwrap();
        child.wait().unwrap();
        let changed =
            host.picture().iter().filter(|(name, value)| before[*name] != **value).count();
        match changed {
            0 => early += 1,
            all if all == before.len() => late += 1,
            _ => within += 1,
        }
        host.rollback(0);
        assert_eq!(host.picture(), before, "{changed} places were changed");
        assert!(!host.journal().exists());
    }
    println!("killed before {early}, within {within}, after {late}");
}
