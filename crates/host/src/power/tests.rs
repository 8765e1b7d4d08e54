use super::*;
use quietcore_facts::CpuTimes;

/// Name and exit latency of the states of an i7-6700, as the article on C-states lists them.
const ARTICLE: [(&str, i64); 7] =
    [("POLL", 0), ("C1", 2), ("C1E", 10), ("C3", 70), ("C6", 85), ("C7s", 124), ("C8", 200)];

const SECOND: Nanos = Nanos(1_000_000_000);

fn states(disabled_from: usize) -> Vec<IdleState> {
    let state = |(index, (name, latency)): (usize, &(&str, i64))| IdleState {
        index,
        name: (*name).to_owned(),
        latency_us: Some(*latency),
        disabled: index >= disabled_from,
    };
    ARTICLE.iter().enumerate().map(state).collect()
}

/// A CPU that was so long in each state, in milliseconds, and idle so many hundredths of a second.
fn cpu(times_ms: &[u64], idle: u64, busy: u64) -> CpuPower {
    let of = |(index, ms): (usize, &u64)| StateUse { index, usage: *ms, time_us: ms * 1000 };
    CpuPower {
        idle: times_ms.iter().enumerate().map(of).collect(),
        times: Some(CpuTimes { cpu: 0, busy, idle, steal: 0 }),
        khz: Reading::Unsupported("no frequency driver".to_owned()),
        cycles: None,
        celsius: Reading::Unsupported("no sensor".to_owned()),
        throttles: Reading::Measured(3),
    }
}

fn measured(activity: &Activity) -> (u32, Vec<u32>, u32) {
    let percent = |share: f64| (share * 100.0).round() as u32;
    let busy = activity.busy.value().copied().expect("busy");
    (
        percent(busy),
        activity.states.iter().map(|s| percent(s.share)).collect(),
        percent(activity.not_left),
    )
}

#[test]
fn the_article_s_idle_server_is_in_c8_nearly_all_the_time() {
    let first = cpu(&[5, 10, 20, 30, 40, 50, 60], 500, 100);
    let second = cpu(&[5, 10, 30, 30, 40, 50, 1030], 598, 102);
    let did = activity(&first, &second, SECOND, &states(9), false);
    assert_eq!(measured(&did), (2, vec![0, 0, 1, 0, 0, 0, 97], 0));
    assert_eq!(did.states[6].usage, 970);
}

#[test]
fn with_all_states_off_the_cpu_is_busy_although_it_only_polls() {
    let first = cpu(&[0, 10, 20, 30, 40, 50, 60], 500, 100);
    let second = cpu(&[990, 10, 20, 30, 40, 50, 60], 599, 101);
    let did = activity(&first, &second, SECOND, &states(1), false);
    assert_eq!(measured(&did), (100, vec![99, 0, 0, 0, 0, 0, 0], 0));
}

#[test]
fn a_sleep_that_still_lasts_is_neither_busy_nor_in_any_state() {
    let first = cpu(&[0, 10, 20, 30, 40, 50, 60], 500, 100);
    let second = cpu(&[0, 10, 20, 30, 40, 50, 260], 600, 100);
    let did = activity(&first, &second, SECOND, &states(9), false);
    assert_eq!(measured(&did), (0, vec![0, 0, 0, 0, 0, 0, 20], 80));
}

#[test]
fn a_sleep_that_began_before_counts_only_as_far_as_the_cpu_was_idle() {
    let first = cpu(&[0, 0, 0, 0, 0, 0, 0], 500, 100);
    let second = cpu(&[0, 0, 0, 1000, 0, 0, 9000], 550, 150);
    let did = activity(&first, &second, SECOND, &states(9), false);
    assert_eq!(measured(&did), (50, vec![0, 0, 0, 5, 0, 0, 45], 0));
}

#[test]
fn without_idle_states_proc_stat_tells_unless_idle_cpus_poll() {
    let (first, second) = (cpu(&[], 500, 100), cpu(&[], 575, 125));
    let busy = |polls| activity(&first, &second, SECOND, &[], polls).busy;
    assert_eq!(busy(false), Reading::Measured(0.25));
    assert_eq!(busy(true), Reading::Measured(1.0));
    let blind = CpuPower { times: None, ..first.clone() };
    assert!(matches!(activity(&blind, &second, SECOND, &[], false).busy, Reading::Failed(_)));
}

#[test]
fn one_reading_gives_no_share() {
    let only = cpu(&[1, 2, 3, 4, 5, 6, 7], 1, 1);
    let did = activity(&only, &only, Nanos(0), &states(9), false);
    assert!(did.busy.value().is_none() && did.states.is_empty());
}

#[test]
fn counters_that_ran_backwards_are_left_out() {
    let first = cpu(&[0, 500, 0, 0, 0, 0, 0], 500, 100);
    let second = cpu(&[0, 10, 0, 0, 0, 0, 800], 590, 110);
    let did = activity(&first, &second, SECOND, &states(9), false);
    assert!(did.states.iter().all(|state| state.index != 1));
    assert_eq!(over_base((5, 5), (1, 9)), None);
    assert_eq!(over_base((5, 5), (5, 5)), None);
}

#[test]
fn cycles_count_before_what_the_driver_says() {
    let first = CpuPower { cycles: Some((0, 0)), ..cpu(&[], 0, 0) };
    let second = CpuPower {
        cycles: Some((1_200_000, 2_500_000)),
        khz: Reading::Measured(2_500_000),
        ..cpu(&[], 0, 0)
    };
    assert_eq!(mhz(&first, &second, Some(2500.0)), Reading::Measured(1200.0));
    // An emulator's counters stand still; without a rated frequency a ratio says nothing.
    let still = CpuPower { cycles: Some((0, 0)), ..second.clone() };
    assert_eq!(mhz(&first, &still, Some(2500.0)), Reading::Measured(2500.0));
    assert_eq!(mhz(&first, &second, None), Reading::Measured(2500.0));
}

#[test]
fn only_a_busy_cpu_below_the_limit_is_slow() {
    let slow = |busy, mhz| {
        !alerts(0, (Some(busy), Some(mhz), Some(3400.0)), (None, None), ALERT_BELOW).is_empty()
    };
    // The article's server: 3.4 GHz rated, 800 MHz when it idles.
    for (busy, mhz, alarm) in [
        (0.05, 800.0, false),
        (0.49, 800.0, false),
        (0.50, 800.0, true),
        (1.00, 3059.0, true),
        (1.00, 3061.0, false),
        (1.00, 3900.0, false),
        (1.00, 0.0, false),
    ] {
        assert_eq!(slow(busy, mhz), alarm, "{busy} {mhz}");
    }
}

#[test]
fn a_throttle_counter_is_an_alert_when_it_grows() {
    let none = (None, None, None);
    assert_eq!(alerts(4, none, (Some(3), Some(3)), 0.9), []);
    assert_eq!(alerts(4, none, (Some(3), None), 0.9), []);
    assert_eq!(alerts(4, none, (Some(9), Some(3)), 0.9), []);
    let [alert] = &alerts(4, none, (Some(3), Some(5)), 0.9)[..] else { panic!("one alert") };
    assert_eq!(alert, &Alert::Throttled { cpu: 4, times: 2 });
    assert_eq!(alert.text(), "CPU 4 was slowed down for its heat, 2 times");
}
