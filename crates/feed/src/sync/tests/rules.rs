//! Each rule, one case after another.

use super::*;

fn market(rule: Rule) -> Market {
    let config = MarketConfig { held_changes: 4, held_levels: 16, ..MarketConfig::default() };
    Market::new(rule, config)
}

fn best_bid(market: &Market) -> Option<i64> {
    Some(market.book()?.best(Side::Bid)?.quantity.0)
}

/// Live at update 20.
fn live() -> Market {
    let mut market = market(Rule::Bridge);
    assert_eq!(market.on_depth(&change(11, 20, 9), &bid(2)), Outcome::Buffered);
    assert_eq!(market.on_depth(&snapshot(15), &whole()), Outcome::Applied);
    market
}

#[test]
fn a_snapshot_within_a_kept_change_makes_the_book_live() {
    let mut market = market(Rule::Bridge);
    assert!(market.needs_snapshot() && market.book().is_none());
    for (depth, quantity) in [(change(1, 8, 0), 7), (change(11, 20, 8), 2), (change(25, 30, 20), 3)]
    {
        assert_eq!(market.on_depth(&depth, &bid(quantity)), Outcome::Buffered);
    }
    assert!(market.fits(15) && !market.fits(9) && !market.fits(31));
    assert_eq!(market.on_depth(&snapshot(15), &whole()), Outcome::Applied);
    assert_eq!((market.state(), market.last(), best_bid(&market)), (State::Live, 30, Some(3)));
    let counters = *market.counters();
    assert_eq!((counters.depth_events, counters.bridged, counters.snapshots), (3, 2, 1));
    assert_eq!(counters.dropped_while_waiting, 1, "the one before the snapshot");
    assert_eq!(counters.resyncs, 0, "it was never lost");
}

#[test]
fn where_a_snapshot_may_lie() {
    // The kept change holds 11 to 20 and follows 9.
    let cases = [
        (8, Outcome::SnapshotTooOld),
        (9, Outcome::Applied),
        (10, Outcome::SnapshotTooOld),
        (11, Outcome::Applied),
        (20, Outcome::Applied),
        (21, Outcome::Awaiting),
    ];
    for (last, expected) in cases {
        let mut market = market(Rule::Bridge);
        assert_eq!(market.on_depth(&change(11, 20, 9), &bid(2)), Outcome::Buffered);
        assert_eq!(market.on_depth(&snapshot(last), &whole()), expected, "{last}");
        assert_eq!(market.book().is_some(), expected == Outcome::Applied, "{last}");
        assert_eq!(market.needs_snapshot(), expected == Outcome::SnapshotTooOld, "{last}");
    }
}

#[test]
fn a_snapshot_older_than_the_kept_changes_leaves_them_for_the_next_one() {
    let mut market = market(Rule::Bridge);
    assert_eq!(market.on_depth(&change(11, 20, 9), &bid(2)), Outcome::Buffered);
    assert_eq!(market.on_depth(&snapshot(5), &whole()), Outcome::SnapshotTooOld);
    assert_eq!(market.on_depth(&snapshot(12), &whole()), Outcome::Applied);
    assert_eq!(market.counters().snapshots_too_old, 1);
    assert_eq!(best_bid(&market), Some(2));
}

#[test]
fn a_snapshot_that_the_stream_never_comes_to_is_replaced() {
    let mut market = market(Rule::Bridge);
    assert_eq!(market.on_depth(&change(11, 20, 9), &bid(2)), Outcome::Buffered);
    assert_eq!(market.on_depth(&snapshot(1_000_000), &whole()), Outcome::Awaiting);
    let mut last = 20;
    while !market.needs_snapshot() {
        assert_eq!(market.on_depth(&change(last + 1, last + 1, last), &bid(2)), Outcome::Stale);
        last += 1;
        assert!(last < 1_000, "it waits for ever");
    }
    assert!(market.book().is_none());
    assert_eq!(market.on_depth(&snapshot(last), &whole()), Outcome::Awaiting);
    assert!(!market.needs_snapshot());
    assert_eq!(market.on_depth(&change(last + 1, last + 5, last), &bid(4)), Outcome::Applied);
    assert_eq!((market.last(), best_bid(&market)), (last + 5, Some(4)));
}

#[test]
fn a_snapshot_newer_than_the_kept_changes_waits_for_the_next_ones() {
    let mut market = market(Rule::Bridge);
    assert_eq!(market.on_depth(&change(11, 20, 9), &bid(2)), Outcome::Buffered);
    assert_eq!(market.on_depth(&snapshot(35), &whole()), Outcome::Awaiting);
    assert!(market.book().is_none() && !market.needs_snapshot());
    assert_eq!(market.on_depth(&change(21, 30, 20), &bid(8)), Outcome::Stale);
    assert_eq!(market.on_depth(&snapshot(33), &whole()), Outcome::Stale, "an older answer");
    assert_eq!(market.on_depth(&change(31, 34, 30), &bid(9)), Outcome::Stale, "just before it");
    assert_eq!(market.on_depth(&change(35, 40, 34), &bid(4)), Outcome::Applied);
    assert_eq!(best_bid(&market), Some(4));
}

#[test]
fn a_change_that_does_not_join_a_waiting_snapshot_asks_for_another() {
    let mut market = market(Rule::Bridge);
    assert_eq!(market.on_depth(&snapshot(35), &whole()), Outcome::Awaiting);
    assert_eq!(market.on_depth(&change(41, 50, 40), &bid(4)), Outcome::SnapshotTooOld);
    assert!(market.needs_snapshot());
    assert_eq!(market.on_depth(&snapshot(45), &whole()), Outcome::Applied);
}

#[test]
fn a_missing_change_takes_the_book_from_sight_until_it_is_joined_again() {
    let mut market = live();
    assert_eq!(market.on_depth(&change(31, 40, 30), &bid(5)), Outcome::Gap);
    assert!(market.needs_snapshot() && market.book().is_none());
    assert_eq!(market.on_depth(&change(41, 50, 40), &bid(6)), Outcome::Buffered);
    assert_eq!(market.on_depth(&snapshot(33), &whole()), Outcome::Applied);
    assert_eq!((market.last(), best_bid(&market)), (50, Some(6)));
    assert_eq!((market.counters().gaps, market.counters().resyncs), (1, 1));
}

#[test]
fn a_change_missing_among_the_kept_ones_is_a_gap_too() {
    let mut market = market(Rule::Bridge);
    for depth in [change(11, 20, 9), change(31, 40, 30), change(41, 50, 40)] {
        assert_eq!(market.on_depth(&depth, &bid(depth.last as i64)), Outcome::Buffered);
    }
    assert_eq!(market.on_depth(&snapshot(15), &whole()), Outcome::Gap);
    assert!(market.needs_snapshot() && market.book().is_none());
    assert_eq!(market.on_depth(&snapshot(31), &whole()), Outcome::Applied);
    assert_eq!((market.last(), best_bid(&market)), (50, Some(50)));
}

#[test]
fn doubled_and_late_changes_are_counted_and_change_nothing() {
    let mut market = live();
    assert_eq!(market.on_depth(&change(21, 30, 20), &bid(3)), Outcome::Applied);
    let hash = market.event_hash();
    assert_eq!(market.on_depth(&change(21, 30, 20), &bid(3)), Outcome::Stale);
    assert_eq!(market.on_depth(&change(11, 20, 9), &bid(2)), Outcome::Stale);
    assert_eq!(market.on_depth(&snapshot(90), &whole()), Outcome::Stale, "nobody asked for it");
    assert_eq!((market.counters().duplicates, best_bid(&market)), (2, Some(3)));
    assert_eq!(market.event_hash(), hash);
}

/// A new connection cuts the same changes at other places; one of them covers where we are.
#[test]
fn a_change_that_overlaps_the_last_is_taken_up() {
    let mut market = Market::new(Rule::Bridge, MarketConfig::default());
    let _ = market.on_depth(&change(8, 12, 7), &bid(2));
    let _ = market.on_depth(&snapshot(10), &whole());
    assert_eq!((market.state(), market.last()), (State::Live, 12));
    // The other connection's: 9 to 15 as one. Ours would have been 13 to 16.
    assert_eq!(market.on_depth(&change(9, 15, 8), &bid(5)), Outcome::Applied);
    assert_eq!(market.last(), 15);
    assert_eq!(market.on_depth(&change(13, 16, 12), &bid(6)), Outcome::Applied);
    let best = market.book().and_then(|book| book.best(Side::Bid));
    assert_eq!((market.last(), best), (16, Some(level(100, 6))));
    // One that begins later than we are is a gap all the same.
    assert_eq!(market.on_depth(&change(18, 19, 17), &bid(7)), Outcome::Gap);
}

#[test]
fn a_stream_that_never_gets_newer_is_a_gap() {
    let mut market = live();
    let old = change(1, 2, 0);
    for _ in 0..STUCK {
        assert_eq!(market.on_depth(&old, &bid(1)), Outcome::Stale);
    }
    assert_eq!(market.on_depth(&old, &bid(1)), Outcome::Gap);
    assert!(market.book().is_none());
}

#[test]
fn time_running_backwards_is_no_reason() {
    let mut market = live();
    let late = Depth { time_ms: 5, ..change(21, 30, 20) };
    assert_eq!(market.on_depth(&late, &bid(3)), Outcome::Applied);
    let early = Depth { time_ms: 1, ..change(31, 40, 30) };
    assert_eq!(market.on_depth(&early, &bid(4)), Outcome::Applied);
}

#[test]
fn numbers_may_jump_but_not_where_a_venue_names_no_change_before() {
    let mut market = live();
    assert_eq!(market.on_depth(&change(900, 950, 20), &bid(3)), Outcome::Applied);
    let one_by_one = |first, last| Depth { previous: None, ..change(first, last, 0) };
    assert_eq!(market.on_depth(&one_by_one(951, 960), &bid(4)), Outcome::Applied);
    assert_eq!(market.on_depth(&one_by_one(962, 970), &bid(5)), Outcome::Gap);
}

#[test]
fn a_crossed_book_is_not_shown() {
    for asks in [(100, 1), (90, 1)] {
        let mut market = live();
        let crossing = levels(&[], &[asks]);
        assert_eq!(market.on_depth(&change(21, 30, 20), &crossing), Outcome::Crossed);
        assert!(market.book().is_none() && market.needs_snapshot());
        assert_eq!(market.counters().crossed, 1);
        assert_eq!(market.on_depth(&snapshot(30), &crossing_removed()), Outcome::Crossed);
        assert_eq!(market.on_depth(&snapshot(31), &whole()), Outcome::Awaiting);
        assert_eq!(market.on_depth(&change(31, 32, 30), &bid(9)), Outcome::Applied);
    }
    let mut market = market(Rule::InStream);
    assert_eq!(market.on_depth(&snapshot(5), &crossing_removed()), Outcome::Crossed);
    assert!(market.book().is_none());
}

/// A book whose best prices are the same.
fn crossing_removed() -> Levels {
    levels(&[(100, 1)], &[(100, 1)])
}

#[test]
fn an_empty_side_crosses_nothing() {
    let mut market = live();
    let emptied = levels(&[(100, 0), (90, 0)], &[]);
    assert_eq!(market.on_depth(&change(21, 30, 20), &emptied), Outcome::Applied);
    assert!(market.book().unwrap().is_empty(Side::Bid));
}

#[test]
fn kept_changes_are_bounded_and_the_oldest_go() {
    let mut market = market(Rule::Bridge);
    for n in 0..10u64 {
        let depth = change(n * 10 + 1, n * 10 + 10, n * 10);
        assert_eq!(market.on_depth(&depth, &bid(n as i64)), Outcome::Buffered);
    }
    assert_eq!(market.counters().dropped_while_waiting, 6);
    assert_eq!(market.on_depth(&snapshot(55), &whole()), Outcome::SnapshotTooOld);
    assert_eq!(market.on_depth(&snapshot(65), &whole()), Outcome::Applied);
    assert_eq!((market.last(), best_bid(&market)), (100, Some(9)));
}

#[test]
fn an_interrupted_book_is_not_shown_until_it_is_joined_again() {
    let mut market = live();
    market.interrupt();
    assert!(market.book().is_none() && market.needs_snapshot());
    assert_eq!(market.on_depth(&change(21, 30, 20), &bid(3)), Outcome::Buffered);
    assert_eq!(market.on_depth(&snapshot(25), &whole()), Outcome::Applied);
    assert_eq!(market.counters().resyncs, 1);
}

#[test]
fn only_as_much_of_the_book_is_trusted_as_the_snapshot_had() {
    let config = MarketConfig { snapshot_levels: 2, ..MarketConfig::default() };
    let mut market = Market::new(Rule::Bridge, config);
    assert_eq!(market.on_depth(&change(11, 20, 9), &bid(2)), Outcome::Buffered);
    let cut = levels(&[(100, 1), (90, 1)], &[(200, 1)]);
    assert_eq!(market.on_depth(&snapshot(15), &cut), Outcome::Applied);
    assert_eq!(market.trusted(Side::Bid), Some(Fixed(90)));
    assert_eq!(market.trusted(Side::Ask), None, "fewer than the most: that is all there is");
}

/// In a stream that begins with its snapshot.
fn streaming() -> Market {
    let mut market = market(Rule::InStream);
    assert_eq!(market.on_depth(&change(0, 9, 8), &bid(7)), Outcome::Dropped);
    assert_eq!(market.on_depth(&snapshot(10), &whole()), Outcome::Applied);
    market
}

#[test]
fn a_stream_with_its_own_snapshot_is_live_from_it_on() {
    let mut market = streaming();
    assert_eq!(best_bid(&market), Some(1));
    assert_eq!(market.on_depth(&change(15, 15, 10), &bid(2)), Outcome::Applied);
    let nothing_new = change(15, 15, 15);
    assert_eq!(market.on_depth(&nothing_new, &Levels::default()), Outcome::Applied);
    assert_eq!(market.on_depth(&change(20, 20, 15), &bid(3)), Outcome::Applied);
    assert_eq!(best_bid(&market), Some(3));
    assert_eq!(market.counters().dropped_while_waiting, 1);
}

#[test]
fn numbers_that_start_again_at_maintenance_are_followed() {
    let mut market = streaming();
    assert_eq!(market.on_depth(&change(3, 3, 10), &bid(2)), Outcome::Applied);
    assert_eq!(market.on_depth(&change(5, 5, 3), &bid(3)), Outcome::Applied);
    assert_eq!((market.last(), best_bid(&market)), (5, Some(3)));
}

#[test]
fn a_missed_start_of_new_numbers_is_a_gap_and_no_old_change() {
    let mut market = streaming();
    assert_eq!(market.on_depth(&change(15, 15, 10), &bid(2)), Outcome::Applied);
    assert_eq!(market.on_depth(&change(15, 15, 10), &bid(2)), Outcome::Stale);
    assert_eq!(market.on_depth(&change(5, 5, 3), &bid(9)), Outcome::Gap);
    assert!(market.needs_snapshot() && market.book().is_none());
    assert_eq!(market.on_depth(&change(6, 6, 5), &bid(9)), Outcome::Dropped);
    assert_eq!(market.on_depth(&snapshot(7), &whole()), Outcome::Applied);
    assert_eq!(market.counters().resyncs, 1);
}

#[test]
fn a_second_connection_may_begin_behind_the_first_or_ahead_of_it() {
    let mut market = streaming();
    assert_eq!(market.on_depth(&change(15, 15, 10), &bid(2)), Outcome::Applied);
    assert_eq!(market.on_depth(&change(20, 20, 15), &bid(3)), Outcome::Applied);
    // The second one is behind.
    assert_eq!(market.on_depth(&snapshot(15), &whole()), Outcome::Stale);
    assert_eq!(market.on_depth(&change(20, 20, 15), &bid(3)), Outcome::Stale);
    assert_eq!(market.on_depth(&change(25, 25, 20), &bid(4)), Outcome::Applied);
    assert_eq!(best_bid(&market), Some(4));
    // A third one is ahead, and what it has overtaken comes late.
    assert_eq!(market.on_depth(&snapshot(35), &whole()), Outcome::Applied);
    assert_eq!(market.on_depth(&change(30, 30, 25), &bid(5)), Outcome::Stale);
    assert_eq!(market.on_depth(&change(35, 35, 30), &bid(6)), Outcome::Stale);
    assert_eq!(market.on_depth(&change(40, 40, 35), &bid(7)), Outcome::Applied);
    assert_eq!((best_bid(&market), market.counters().gaps), (Some(7), 0));
}

#[test]
fn every_checksum_is_compared_and_a_wrong_one_takes_the_book_from_sight() {
    let text = |text: &str| Some(crc32fast::hash(text.as_bytes()) as i32);
    let mut market = market(Rule::InStream);
    let one = Fixed::ONE.0;
    let book = levels(&[(100 * one, one)], &[(200 * one, one / 2)]);
    let first = Depth { checksum: text("100:1:200:0.5"), ..snapshot(10) };
    assert_eq!(market.on_depth(&first, &book), Outcome::Applied);
    let second = Depth { checksum: text("100:2:200:0.5"), ..change(11, 11, 10) };
    assert_eq!(market.on_depth(&second, &levels(&[(100 * one, 2 * one)], &[])), Outcome::Applied);
    let none = Depth { checksum: Some(0), ..change(12, 12, 11) };
    assert_eq!(market.on_depth(&none, &Levels::default()), Outcome::Applied, "0: not made");
    let wrong = Depth { checksum: text("100:3:200:0.5"), ..change(13, 13, 12) };
    let change = levels(&[(100 * one, 4 * one)], &[]);
    assert_eq!(market.on_depth(&wrong, &change), Outcome::ChecksumMismatch);
    assert!(market.book().is_none() && market.needs_snapshot());
    assert_eq!((market.counters().checksum_checked, market.counters().checksum_mismatch), (3, 1));
    assert_eq!(market.on_depth(&first, &book), Outcome::Applied);
    let wrong = Depth { checksum: text("100:3:200:0.5"), ..snapshot(14) };
    assert_eq!(market.on_depth(&wrong, &book), Outcome::ChecksumMismatch);
}

#[test]
fn the_top_is_compared_with_the_quote_of_the_same_position() {
    let quote = |update, quantity| Quote {
        update,
        bid: level(100, quantity),
        ask: level(200, 1),
        time_ms: 0,
    };
    let mut market = live();
    market.on_quote(&quote(18, 2));
    market.on_quote(&quote(28, 3));
    assert_eq!(market.counters().bbo_checked, 1);
    assert_eq!(market.on_depth(&change(21, 30, 20), &bid(3)), Outcome::Applied);
    assert_eq!(market.on_depth(&change(31, 40, 30), &bid(4)), Outcome::Applied);
    assert_eq!(market.counters().bbo_checked, 1, "not before it is known to be the last");
    market.on_quote(&quote(38, 5));
    market.finish();
    assert_eq!((market.counters().bbo_checked, market.counters().bbo_mismatch), (3, 1));
}
