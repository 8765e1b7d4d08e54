use super::*;
use crate::venues::find_instrument;

fn paths(symbols: &[&str], wanted: Wanted) -> Vec<String> {
    let connections = BinanceUsdm.connections(symbols, wanted).unwrap();
    connections.into_iter().map(|connection| connection.path).collect()
}

#[test]
fn books_and_trades_are_two_connections() {
    let all = Wanted { speed: Speed::Ms100, quotes: true, trades: true, mark: true };
    assert_eq!(
        paths(&["BTCUSDT", "ethusdt_260925"], all),
        [
            "/public/stream?streams=btcusdt@depth@100ms/btcusdt@bookTicker/ethusdt_260925@depth@100ms/ethusdt_260925@bookTicker",
            "/market/stream?streams=btcusdt@aggTrade/btcusdt@markPrice@1s/ethusdt_260925@aggTrade/ethusdt_260925@markPrice@1s",
        ]
    );
    for (speed, stream) in [
        (Speed::Ms0, "btcusdt@depth@0ms"),
        (Speed::Ms250, "btcusdt@depth"),
        (Speed::Ms500, "btcusdt@depth@500ms"),
    ] {
        let path = format!("/public/stream?streams={stream}");
        assert_eq!(paths(&["BTCUSDT"], Wanted { speed, ..Wanted::default() }), [path]);
    }
    assert!(paths(&[], all).is_empty());
}

#[test]
fn no_connection_has_more_streams_than_it_may() {
    let names: Vec<_> = (0..250).map(|number| format!("A{number}USDT")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let wanted = Wanted { quotes: true, trades: true, ..Wanted::default() };
    let connections = BinanceUsdm.connections(&names, wanted).unwrap();
    let streams: Vec<_> = connections.iter().map(|connection| connection.streams.len()).collect();
    assert_eq!(streams, [200, 200, 100, 200, 50]);
    for connection in &connections {
        assert!(connection.path.ends_with(&connection.streams.join("/")));
        assert!(connection.subscribe.is_empty() && connection.path.len() < 8_000);
    }
}

#[test]
fn names_in_chinese_are_escaped_and_others_refused() {
    let wanted = Wanted::default();
    let path = "/public/stream?streams=%E5%B8%81%E5%AE%89usdt@depth@100ms";
    assert_eq!(paths(&["币安USDT"], wanted), [path]);
    for symbol in ["", "BTC/USDT", "BTCUSDT@depth", "BTC USDT", "a&b=c", "BTC-USDT"] {
        let error = BinanceUsdm.connections(&[symbol], wanted).unwrap_err();
        assert!(matches!(error, VenueError::Symbol { .. }), "{symbol}");
    }
}

#[test]
fn the_snapshot_is_asked_for_with_its_weight() {
    let request = BinanceUsdm.snapshot("btcusdt").unwrap();
    assert_eq!(request.path, "/fapi/v1/depth?symbol=BTCUSDT&limit=1000");
    assert_eq!((request.weight, request.weight_per_minute), (20, 2400));
}

const EXCHANGE_INFO: &str = r#"{"timezone":"UTC","rateLimits":[],"symbols":[
    {"symbol":"BTCUSDT","pair":"BTCUSDT","contractType":"PERPETUAL","status":"TRADING","filters":[
        {"filterType":"PRICE_FILTER","minPrice":"261.10","maxPrice":"809484","tickSize":"0.10"},
        {"filterType":"LOT_SIZE","stepSize":"0.001","minQty":"0.001"},
        {"filterType":"MARKET_LOT_SIZE","stepSize":"0.001"}]},
    {"symbol":"OLDUSDT","contractType":"PERPETUAL","status":"SETTLING","filters":[]}]}"#;

#[test]
fn instruments_come_with_their_steps_and_state() {
    let all = BinanceUsdm.read_instruments(EXCHANGE_INFO.as_bytes()).unwrap();
    let found = find_instrument(&all, "btcusdt", BinanceUsdm.title()).unwrap();
    assert_eq!([found.tick, found.step], [Some(Fixed(10_000_000)), Some(Fixed(100_000))]);
    assert_eq!((&*found.contract, &*found.status), ("PERPETUAL", "TRADING"));
    let error =
        |symbol| find_instrument(&all, symbol, BinanceUsdm.title()).unwrap_err().to_string();
    assert_eq!(
        error("OLDUSDT"),
        "\"OLDUSDT\" is not traded on Binance USD-M now: its status is \"SETTLING\""
    );
    assert_eq!(
        error("BTCUSD"),
        "Binance USD-M has no instrument \"BTCUSD\"; did you mean \"BTCUSDT\"?"
    );
}

#[test]
fn an_answer_that_is_no_list_says_what_it_says() {
    let read = |text: &str| BinanceUsdm.read_instruments(text.as_bytes()).unwrap_err().to_string();
    let limited = read(r#"{"code":-1003,"msg":"Too many requests"}"#);
    assert_eq!(
        limited,
        "Binance USD-M did not answer with a list of instruments: Too many requests"
    );
    assert!(read("<html>").contains("expected value"));
    assert!(read(r#"{"symbols":[{}]}"#).contains("an entry has no \"symbol\""));
}
