use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::super::decimal;
use super::*;
use crate::market::Side;

fn events(market: &mut Generator, count: usize) -> Vec<Event> {
    let mut out = Vec::new();
    while out.len() < count {
        market.step(&|_| true, &mut out);
    }
    out
}

fn of_seed(seed: u64) -> Generator {
    Generator::new(Settings { seed, ..Settings::default() })
}

fn number(value: &Value) -> i64 {
    decimal::parse(value.as_str().unwrap()).unwrap().0
}

fn apply(levels: &mut BTreeMap<i64, i64>, changes: &Value) {
    for change in changes.as_array().unwrap() {
        match number(&change[1]) {
            0 => levels.remove(&number(&change[0])),
            quantity => levels.insert(number(&change[0]), quantity),
        };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn the_same_seed_gives_the_same_bytes(seed: u64) {
        prop_assert_eq!(events(&mut of_seed(seed), 400), events(&mut of_seed(seed), 400));
    }

    #[test]
    fn a_book_is_never_crossed_nor_thin_and_the_top_is_what_the_last_quote_said(seed: u64) {
        let mut market = of_seed(seed);
        let mut quoted = [None; 2];
        let mut out = Vec::new();
        for _ in 0..3_000 {
            market.step(&|_| true, &mut out);
            for event in out.drain(..).filter(|event| event.stream.channel == Channel::BookTicker) {
                let quote: Value = serde_json::from_str(&event.text).unwrap();
                quoted[event.stream.symbol] =
                    Some(((number(&quote["b"]), number(&quote["B"])), (number(&quote["a"]), number(&quote["A"]))));
            }
            for (symbol, quoted) in quoted.iter().enumerate() {
                let book = market.book(symbol).unwrap();
                let (bid, ask) = (book.best(Side::Bid).unwrap(), book.best(Side::Ask).unwrap());
                prop_assert!(bid.0 < ask.0);
                prop_assert!(book.bids.len() >= 40 && book.asks.len() >= 40);
                prop_assert!(quoted.is_none_or(|quoted| quoted == (bid, ask)));
            }
        }
    }

    #[test]
    fn a_snapshot_and_the_events_after_it_are_the_true_book(seed: u64, before in 0_usize..500) {
        let mut market = of_seed(seed);
        events(&mut market, before + 1);
        let mut held = [0, 1].map(|symbol| market.book(symbol).unwrap().clone());
        for event in events(&mut market, 600) {
            if event.stream.channel == Channel::Depth100 {
                let depth: Value = serde_json::from_str(&event.text).unwrap();
                let book = &mut held[event.stream.symbol];
                let id = |key: &str| depth[key].as_u64().unwrap();
                prop_assert!(id("u") >= book.last && id("pu") < id("U") && id("U") <= id("u"));
                apply(&mut book.bids, &depth["b"]);
                apply(&mut book.asks, &depth["a"]);
                book.last = id("u");
            }
        }
        // Publish what is still open; then nothing is missing.
        let mut out = Vec::new();
        for _ in 0..100_000 {
            market.step(&|_| true, &mut out);
            for event in out.drain(..).filter(|event| event.stream.channel == Channel::Depth100) {
                let depth: Value = serde_json::from_str(&event.text).unwrap();
                let book = &mut held[event.stream.symbol];
                apply(&mut book.bids, &depth["b"]);
                apply(&mut book.asks, &depth["a"]);
                book.last = depth["u"].as_u64().unwrap();
            }
            if (0..2).all(|symbol| market.book(symbol).unwrap().last == held[symbol].last) {
                break;
            }
        }
        for (symbol, held) in held.iter().enumerate() {
            prop_assert_eq!(held, market.book(symbol).unwrap());
        }
    }

    #[test]
    fn numbers_chain_and_time_never_goes_back(seed: u64) {
        let mut market = of_seed(seed);
        let mut previous: BTreeMap<(usize, &str), u64> = BTreeMap::new();
        let (mut at, mut update) = (0, 0);
        for event in events(&mut market, 1_500) {
            prop_assert!(event.at >= at);
            at = event.at;
            let json: Value = serde_json::from_str(&event.text).unwrap();
            if event.stream.channel == Channel::BookTicker {
                let u = json["u"].as_u64().unwrap();
                prop_assert!(u > update, "numbers are shared by all symbols and grow");
                update = u;
            } else if event.stream.channel.is_depth() && event.stream.channel != Channel::Books {
                let chain = (event.stream.symbol, event.stream.channel.suffix());
                let last = previous.insert(chain, json["u"].as_u64().unwrap());
                prop_assert!(last.is_none_or(|last| json["pu"] == last));
            }
        }
    }
}

#[test]
fn what_is_not_wanted_changes_nothing_else() {
    let only = |stream: Stream| stream.symbol == 1 && stream.channel == Channel::Depth500;
    let mut all = of_seed(5);
    let wanted: Vec<Event> =
        events(&mut all, 4_000).into_iter().filter(|event| only(event.stream)).collect();
    let (mut market, mut out) = (of_seed(5), Vec::new());
    while out.len() < wanted.len() {
        market.step(&only, &mut out);
    }
    assert!(!wanted.is_empty());
    assert_eq!(out, wanted);
}

#[test]
fn depth_messages_have_the_shape_of_the_real_ones() {
    let symbols = vec!["BTCUSDT".into()];
    let mut market = Generator::new(Settings { symbols, ..Settings::default() });
    let (mut sizes, mut removed, mut far) = (Vec::new(), 0, 0);
    let mut out = Vec::new();
    while sizes.len() < 1_000 {
        market
            .step(&|stream| stream.symbol == 0 && stream.channel == Channel::DepthAtOnce, &mut out);
        let Some(event) = out.pop() else { continue };
        let depth: Value = serde_json::from_str(&event.text).unwrap();
        let (bid, _) = market.book(0).unwrap().best(Side::Bid).unwrap();
        let levels = ["b", "a"].map(|side| depth[side].as_array().unwrap().clone()).concat();
        sizes.push(levels.len());
        removed += levels.iter().filter(|level| number(&level[1]) == 0).count();
        far += levels.iter().filter(|level| (number(&level[0]) - bid).abs() > bid / 20).count();
    }
    let all: usize = sizes.iter().sum();
    sizes.sort_unstable();
    let share = |count: usize| count * 1_000 / all;
    println!(
        "P50 {} P90 {} P99 {} removed {}‰ far {}‰",
        sizes[500],
        sizes[900],
        sizes[990],
        share(removed),
        share(far)
    );
    assert!((25..=45).contains(&sizes[500]), "P50 {}", sizes[500]);
    assert!((400..=850).contains(&sizes[990]), "P99 {}", sizes[990]);
    assert!((190..=250).contains(&share(removed)), "removed {}‰", share(removed));
    assert!((20..=60).contains(&share(far)), "far {}‰", share(far));
}

#[test]
fn fields_of_2026_are_there_unless_they_are_left_out() {
    for has_fields_of_2026 in [true, false] {
        let mut market = Generator::new(Settings { has_fields_of_2026, ..Settings::default() });
        for event in events(&mut market, 2_000) {
            let json: Value = serde_json::from_str(&event.text).unwrap();
            let key = match event.stream.channel {
                Channel::AggTrade => "nq",
                Channel::Mark | Channel::MarkEverySecond => "ap",
                Channel::Trade | Channel::Books => continue,
                _ => "ps",
            };
            assert_eq!(json.get(key).is_some(), has_fields_of_2026, "{}", event.text);
        }
    }
}
