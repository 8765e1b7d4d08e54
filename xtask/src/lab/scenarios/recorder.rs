//! The flight recorder on the kernels that hosts have: what loads, and whether known waits get their
//! causes.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::lab::evidence::{Evidence, rows};
use crate::lab::kernel::Series;
use crate::lab::scenario::{IN_TURN, Scenario, Step};
use crate::lab::tally::Tally;

/// Spikes of the `actor` as lines of JSON. It acts until they are there: attaching takes an emulated
/// CPU seconds.
macro_rules! watch {
    ($part:literal) => {
        concat!(
            "taskset 2 actor ",
            $part,
            " 600 &\n",
            "quietcore spikes --pid $! --duration 3s --threshold 1us --live jsonl --quiet\n",
            "code=$?; kill $!; exit $code\n"
        )
    };
}

const STEPS: &[Step] = &[
    Step::new(
        "programs",
        90,
        "quietcore spikes --all --probe all --threshold 60s --duration 1s --format json --quiet",
    ),
    Step::new("crowd", 90, watch!("crowd")),
    Step::new("lock", 90, watch!("lock")),
    Step::new("sleep", 90, watch!("sleep")),
    Step::new(
        "unprivileged",
        60,
        "echo 'nobody:x:65534:65534::/:/bin/sh' >>/etc/passwd\n\
         su nobody -c 'quietcore spikes --all --duration 1s'",
    ),
    Step::new(
        "killed",
        90,
        "quietcore spikes --all --duration 60s --quiet >/dev/null &\n\
         sleep 5; kill -9 $!; wait $!\n\
         quietcore spikes --all --threshold 60s --duration 1s --format json --quiet",
    ),
    // The last: what it hides stays hidden.
    Step::new(
        "no-btf",
        60,
        "mount -t tmpfs none /sys/kernel/btf && quietcore spikes --all --duration 1s",
    ),
];

/// What the kernel says of itself.
const LOOK: &str = "\
echo release=$(uname -r)
echo btf=$(ls /sys/kernel/btf/vmlinux)
echo realtime=$(cat /sys/kernel/realtime 2>/dev/null)
";

const fn on(name: &'static str, about: &'static str, kernel: Option<Series>) -> Scenario {
    Scenario {
        name,
        about,
        kernel,
        // What the mitigations cost an emulated CPU makes a guest three times as slow.
        boot: "mitigations=off",
        cpu: "max",
        smp: "2",
        accel: IN_TURN,
        qemu: &[],
        acpi: None,
        modules: &[],
        look: LOOK,
        premises,
        audit: "",
        expect: &[],
        recording: None,
        steps: STEPS,
        judge,
    }
}

pub const SCENARIO: Scenario =
    on("recorder", "spikes: what loads on this kernel, and known waits get their causes", None);

/// The same on other kernels.
pub const OTHERS: [&Scenario; 3] = [
    &on(
        "recorder-5-10",
        "the recorder on Debian 11's kernel",
        Some(Series { version: "5.10", flavour: "", suite: Some("bullseye") }),
    ),
    &on(
        "recorder-6-12",
        "the recorder on Linux 6.12",
        Some(Series { version: "6.12", flavour: "", suite: None }),
    ),
    &on(
        "recorder-6-12-rt",
        "the recorder on Linux 6.12 with PREEMPT_RT",
        Some(Series { version: "6.12", flavour: "rt", suite: None }),
    ),
];

fn premises(e: &Evidence, tally: &mut Tally) {
    let value = |key: &str| e.value("look", key).unwrap_or_default();
    tally.premise(!value("btf").is_empty(), "the kernel has BTF", || value("release"));
    let is_rt = value("realtime") == "1";
    tally.premise(is_rt == value("release").contains("-rt"), "PREEMPT_RT as it is named", || {
        value("release")
    });
}

fn judge(e: &Evidence, tally: &mut Tally) {
    programs(e, "programs", tally);
    causes(e, tally);
    refusal(e, "unprivileged", &["CAP_BPF"], tally);
    programs(e, "killed", tally);
    refusal(e, "no-btf", &["BTF"], tally);
}

/// Waits can be recorded, and nothing that this kernel has is broken.
fn programs(e: &Evidence, step: &str, tally: &mut Tally) {
    let run = e.json(step).unwrap_or_default();
    let sets = rows(&run, "spikes_programs");
    let whole = |name: &str| {
        sets.iter().any(|set| {
            let number = |column: &str| set.get(column).and_then(|cell| cell.as_u64());
            set.get("set").is_some_and(|set| *set == name)
                && number("works").is_some_and(|works| works > 0)
                && number("works") == number("asked_for")
        })
    };
    tally.check(whole("sched"), &format!("{step}: waits are recorded"), || e.ending(step));
    tally.check(whole("idle"), &format!("{step}: idling is recorded"), || e.ending(step));
    let missing = sets.iter().filter_map(|set| set.get("not_here")?.as_str());
    let odd: Vec<&str> = missing
        .flat_map(|list| list.split("; "))
        .filter(|line| !line.is_empty() && !line.contains("no tracepoint"))
        .collect();
    let what = format!("{step}: what does not work has no tracepoint here");
    tally.check(!sets.is_empty() && odd.is_empty(), &what, || odd.join("; "));
}

/// The spikes that a step printed.
fn spikes(e: &Evidence, step: &str) -> Vec<Value> {
    e.out(step).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn segments(spike: &Value) -> impl Iterator<Item = &Value> {
    spike["segments"].as_array().into_iter().flatten()
}

/// Every spike of a thread, and what its longest segment is.
fn longest<'a>(spikes: &'a [Value], thread: &str) -> Vec<(&'a str, &'a str)> {
    let of_thread = spikes.iter().filter(|spike| spike["thread"]["comm"] == thread);
    let longest =
        of_thread.filter_map(|spike| segments(spike).max_by_key(|s| s["len_ns"].as_u64()));
    let text = |value: &'a Value| value.as_str().unwrap_or_default();
    longest.map(|segment| (text(&segment["kind"]), text(&segment["by"]))).collect()
}

fn causes(e: &Evidence, tally: &mut Tally) {
    let [crowd, lock, sleep] = ["crowd", "lock", "sleep"].map(|step| spikes(e, step));
    let seen = |list: &[(&str, &str)]| {
        let kinds: BTreeSet<_> =
            list.iter().map(|(kind, by)| format!("{kind} by `{by}`")).collect();
        format!("longest segments: {}", kinds.into_iter().collect::<Vec<_>>().join(", "))
    };
    let found = longest(&crowd, "victim");
    let named = found.iter().any(|(kind, by)| *kind == "preempted" && by.contains("intruder"));
    tally.check(named, "a preempted thread's spike names who took its CPU", || seen(&found));

    let found = longest(&lock, "waiter");
    tally
        .check(found.iter().any(|(kind, _)| *kind == "lock"), "a futex is a lock", || seen(&found));

    let found = longest(&sleep, "sleeper");
    let slept = found.iter().any(|(kind, _)| matches!(*kind, "sleep" | "blocked"));
    tally.check(
        !found.is_empty() && !slept,
        "a sleep that was asked for is no spike, waking up late is one",
        || seen(&found),
    );

    let all: Vec<&Value> = [&crowd, &lock, &sleep].into_iter().flatten().collect();
    let exact = |spike: &&&Value| {
        let sum: u64 = segments(spike).filter_map(|segment| segment["len_ns"].as_u64()).sum();
        spike["len_ns"].as_u64() == Some(sum)
    };
    let sums = all.iter().filter(exact).count();
    tally.check(
        !all.is_empty() && sums == all.len(),
        "the segments of every spike add up to it",
        || format!("{sums} of {}", all.len()),
    );
    let interrupts = all.iter().flat_map(|spike| segments(spike)).any(|segment| {
        matches!(
            segment["kind"].as_str(),
            Some("tick" | "hard_irq" | "softirq" | "timer" | "ipi" | "wake_ipi" | "idle_exit")
        )
    });
    tally.check(interrupts, "interrupts are seen within spikes", || "none in any".into());
}

/// It says in one line what is missing, and ends with 3.
fn refusal(e: &Evidence, step: &str, words: &[&str], tally: &mut Tally) {
    let said = e.err(step);
    let one_line = said.trim().lines().count() == 1 && words.iter().all(|word| said.contains(word));
    let what = format!("{step}: ends with 3 and one line that says what is missing");
    tally.check(e.code(step) == 3 && one_line, &what, || format!("{}: {said}", e.ending(step)));
}
