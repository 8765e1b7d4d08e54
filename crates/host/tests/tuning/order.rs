//! Settings that hold each other: the kernel refuses or hides one while the other has its value,
//! on the way there and on the way back.

use proptest::prelude::*;
use quietcore_sys::host::Rule;
use serde_json::json;

use super::*;

const POLICY: &str = "/sys/devices/system/cpu/cpufreq/policy";

/// The laptop with these limits on every clock, in MHz, and a kernel that refuses a minimum above
/// the maximum.
fn clocks(min: i64, max: i64) -> Snapshot {
    let mut host = snapshot("laptop");
    for cpu in 0..8 {
        let [low, high] = ["min", "max"].map(|end| format!("{POLICY}{cpu}/scaling_{end}_freq"));
        host.set(&format!("read {low}"), json!(format!("{}\n", min * 1000)));
        host.set(&format!("read {high}"), json!(format!("{}\n", max * 1000)));
        host.writes.insert(low.clone(), Rule::NotAbove(high.clone()));
        host.writes.insert(high, Rule::NotBelow(low));
    }
    host
}

/// One write after the other, there and in reverse, and every one is taken as it is: a lease tries
/// again what failed on the way back, which would hide a wrong order.
#[track_caller]
fn strictly(mut host: Snapshot, plan: &Plan) {
    let changes = plan.changes();
    let places = changes.iter().map(|change| change.slot.path().unwrap());
    let way_back: Vec<(&str, String)> =
        places.map(|path| (path, host.text(path).unwrap().trim().to_owned())).collect();
    for ((path, _), change) in way_back.iter().zip(&changes) {
        let want = change.want.as_text().unwrap();
        assert_eq!(host.write(path, want).unwrap().0, want, "{path}");
    }
    for (path, was) in way_back.iter().rev() {
        if host.text(path).unwrap().trim() != was {
            assert_eq!(host.write(path, was).unwrap().0, *was, "{path}, on the way back");
        }
    }
}

#[track_caller]
fn there_and_back(host: Snapshot, wish: &Profile) -> Bench {
    let bench = Bench::new(host.clone(), |facts| cores(facts, "2-3"));
    strictly(host, &bench.plan(wish));
    let before = bench.json();
    let (bench, _) = bench.apply(wish);
    assert_eq!(open(&bench.plan(wish)), Vec::<String>::new());
    let during = bench.json();
    let (bench, back) = bench.take_back();
    assert_eq!(all_restored(&back), Vec::<String>::new());
    assert_eq!(bench.json(), before);
    let (bench, _) = bench.apply(wish);
    assert_eq!(bench.json(), during);
    bench
}

fn range(min: i64, max: i64) -> Profile {
    profile(&[("min-frequency", Setting::Number(min)), ("max-frequency", Setting::Number(max))])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The laptop does 400 to 4200 MHz.
    #[test]
    fn the_minimum_is_never_above_the_maximum(
        (from, to) in ((400..=4200i64, 400..=4200i64), (100..=5000i64, 100..=5000i64)),
    ) {
        let bench = there_and_back(clocks(from.0.min(from.1), from.0.max(from.1)), &range(to.0, to.1));
        let now = |end: &str| bench.facts.host().number(&format!("{POLICY}2/scaling_{end}_freq"));
        let max = to.1.clamp(400, 4200) * 1000;
        prop_assert_eq!(now("max").unwrap(), max);
        prop_assert_eq!(now("min").unwrap(), (to.0.clamp(400, 4200) * 1000).min(max));
    }
}

#[test]
fn a_maximum_below_a_minimum_that_is_left_alone_is_not_planned() {
    let bench = Bench::new(clocks(2000, 3000), |facts| cores(facts, "2-3"));
    let low = bench.plan(&profile(&[("max-frequency", Setting::Number(1000))]));
    assert!(low.changes().is_empty());
    assert!(low.items().all(|(_, item)| match &item.state {
        State::Stuck(why) => why == "the minimum is 2000 MHz: set min-frequency as well",
        _ => false,
    }));
}

#[test]
fn without_turbo_the_rated_frequency_is_the_highest() {
    let word = |word: &str| Setting::Word(word.to_owned());
    let wish =
        [("turbo", word("off")), ("max-frequency", word("max")), ("min-frequency", word("max"))];
    let bench = there_and_back(clocks(400, 4200), &profile(&wish));
    for end in ["min", "max"] {
        let file = format!("{POLICY}3/scaling_{end}_freq");
        assert_eq!(bench.facts.host().number(&file).unwrap(), 2_100_000);
    }
}

#[test]
fn a_number_becomes_a_frequency_that_is_on_offer() {
    let mut host = clocks(400, 4200);
    for cpu in 0..8 {
        let file = format!("read {POLICY}{cpu}/scaling_available_frequencies");
        host.set(&file, json!("4200000 3000000 2000000 400000 \n"));
    }
    let bench = there_and_back(host, &range(1900, 3100));
    let now = |end: &str| bench.facts.host().number(&format!("{POLICY}2/scaling_{end}_freq"));
    assert_eq!((now("min").unwrap(), now("max").unwrap()), (2_000_000, 3_000_000));
}

#[test]
fn the_nmi_watchdog_comes_back_after_the_switch_for_both() {
    let mut host = snapshot("laptop");
    let kernel = |name: &str| format!("/proc/sys/kernel/{name}");
    host.writes.insert(kernel("nmi_watchdog"), Rule::Within(kernel("watchdog")));
    let off = |knob| (knob, Setting::Word("off".to_owned()));
    there_and_back(host, &profile(&[off("watchdog"), off("nmi-watchdog")]));
}

#[test]
fn a_limit_in_bytes_gives_way_to_the_one_in_per_cent() {
    let mut host = snapshot("laptop");
    for (name, share) in [("dirty_background", 10), ("dirty", 20)] {
        let [bytes, ratio] = ["bytes", "ratio"].map(|unit| format!("/proc/sys/vm/{name}_{unit}"));
        host.set(&format!("read {bytes}"), json!("0\n"));
        host.set(&format!("read {ratio}"), json!(format!("{share}\n")));
        host.writes.insert(bytes.clone(), Rule::InsteadOf(ratio.clone()));
        host.writes.insert(ratio, Rule::InsteadOf(bytes));
    }
    let bench = there_and_back(host, &profile(&[("dirty-limit", Setting::Number(1024))]));
    assert_eq!(bench.facts.host().number("/proc/sys/vm/dirty_bytes").unwrap(), 1 << 30);
    assert_eq!(bench.facts.host().number("/proc/sys/vm/dirty_background_bytes").unwrap(), 1 << 28);
}

/// The i7-6700 of the article: POLL, C1 2 µs, C1E 10, C3 70, C6 85, C7s 124, C8 200.
fn article(on: &[usize]) -> Snapshot {
    let mut host = snapshot("laptop");
    let states =
        [("POLL", 0), ("C1", 2), ("C1E", 10), ("C3", 70), ("C6", 85), ("C7s", 124), ("C8", 200)];
    for cpu in 0..8 {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
        let names: Vec<String> = (0..states.len()).map(|n| format!("state{n}")).collect();
        host.set(&format!("list {folder}"), json!(names));
        for (n, (name, us)) in states.iter().enumerate() {
            let mut put = |file: &str, text: String| {
                host.set(&format!("read {folder}/state{n}/{file}"), json!(text + "\n"));
            };
            put("name", (*name).to_owned());
            put("latency", us.to_string());
            put("disable", u8::from(!on.contains(&n)).to_string());
        }
    }
    host
}

/// Which states of CPU 2 are on under a limit.
fn on(host: Snapshot, limit: i64) -> Vec<usize> {
    let bench = there_and_back(host, &profile(&[("c-state-latency", Setting::Number(limit))]));
    let states = &bench.facts.idle().states[&2];
    states.iter().filter(|state| !state.disabled).map(|state| state.index).collect()
}

#[test]
fn idle_states_at_or_above_the_limit_go_and_one_always_stays() {
    let all: Vec<usize> = (0..7).collect();
    for (limit, expected) in [(1, 1), (2, 1), (3, 2), (10, 2), (11, 3), (200, 6), (201, 7)] {
        assert_eq!(on(article(&all), limit), all[..expected], "{limit} µs");
    }
    assert_eq!(on(article(&[0, 3, 4]), 80), [0, 3], "C1 that is off stays off");
    assert_eq!(on(article(&[1, 2, 6]), 1), [1], "without POLL the shallowest stays");
}

#[test]
fn zero_microseconds_are_asked_for_as_not_available() {
    let file = "/sys/devices/system/cpu/cpu2/power/pm_qos_resume_latency_us";
    for (us, text) in [(0, "n/a"), (20, "20")] {
        let bench =
            there_and_back(snapshot("laptop"), &profile(&[("c-state-qos", Setting::Number(us))]));
        assert_eq!(bench.facts.host().line(file).unwrap(), text);
        assert_eq!(bench.facts.idle().limit_of(2), Some(us));
    }
}

#[test]
fn a_preference_that_the_governor_holds_is_not_planned() {
    let bench = Bench::new(snapshot("two-socket"), |facts| cores(facts, "2-3"));
    let wish = [("energy-performance-preference", Setting::Word("power".to_owned()))];
    let plan = bench.plan(&profile(&wish));
    assert!(plan.changes().is_empty() && plan.items().count() == 2);
}

#[test]
fn fewer_huge_pages_than_asked_for_are_given_back_and_told() {
    let file = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages";
    let mut host = snapshot("laptop");
    host.writes.insert(file.to_owned(), Rule::Number { min: 0, max: 300, step: 1 });
    let mut bench = Bench::new(host, |facts| cores(facts, "2-3"));
    let plan = bench.plan(&profile(&[("huge-pages-2m", Setting::Number(512))]));
    let mut host = bench.facts.into_host();
    let made = bench.lease.change(&mut host, &plan.changes()).unwrap();
    assert_eq!(made[0].refused.as_deref(), Some("it was taken, but reads `300`"));
    assert_eq!(host.number(file).unwrap(), 0);
}
