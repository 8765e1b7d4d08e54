use super::*;
use crate::venues::find_instrument;

#[test]
fn channels_are_subscribed_to_in_one_request() {
    let wanted = Wanted { quotes: true, trades: true, ..Wanted::default() };
    let connections = Okx.connections(&["btc-usdt-swap"], wanted).unwrap();
    let [connection] = &connections[..] else { panic!("{connections:?}") };
    assert_eq!(connection.path, "/ws/v5/public");
    let streams = ["books:BTC-USDT-SWAP", "bbo-tbt:BTC-USDT-SWAP", "trades:BTC-USDT-SWAP"];
    assert_eq!(connection.streams, streams);
    let request = r#"{"id":"1","op":"subscribe","args":[{"channel":"books","instId":"BTC-USDT-SWAP"},{"channel":"bbo-tbt","instId":"BTC-USDT-SWAP"},{"channel":"trades","instId":"BTC-USDT-SWAP"}]}"#;
    assert_eq!(connection.subscribe, [request]);
    assert!(Okx.connections(&[], wanted).unwrap().is_empty());
}

#[test]
fn many_channels_are_several_requests_within_the_limits() {
    let names: Vec<_> = (0..250).map(|number| format!("A{number}-USDT")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let connections = Okx.connections(&names, Wanted::default()).unwrap();
    let sizes: Vec<_> = connections
        .iter()
        .map(|connection| (connection.streams.len(), connection.subscribe.len()))
        .collect();
    assert_eq!(sizes, [(200, 2), (50, 1)]);
    for connection in &connections {
        assert!(connection.subscribe.iter().all(|request| request.len() < 64 * 1024));
        assert!(connection.pace.as_secs_f64() > 1.0 / 3.0);
    }
    assert!(connections[0].subscribe[1].starts_with(r#"{"id":"2""#));
}

#[test]
fn what_it_does_not_offer_is_said() {
    let ask = |symbol, wanted| Okx.connections(&[symbol], wanted).unwrap_err();
    let fast = Wanted { speed: Speed::Ms0, ..Wanted::default() };
    assert!(matches!(ask("BTC-USDT", fast), VenueError::NotOffered { .. }));
    let mark = Wanted { mark: true, ..Wanted::default() };
    assert!(matches!(ask("BTC-USDT", mark), VenueError::NotOffered { .. }));
    for symbol in ["", "BTCUSDT", "BTC-USDT\"", "BTC/USDT-X"] {
        assert!(matches!(ask(symbol, Wanted::default()), VenueError::Symbol { .. }), "{symbol}");
    }
    assert_eq!(Okx.snapshot("BTC-USDT"), None);
}

#[test]
fn instruments_are_asked_for_by_type() {
    let symbols = ["BTC-USDT-SWAP", "btc-usdt", "ETH-USDT", "BTC-USDT-260925"];
    let paths: Vec<_> = Okx.instruments(&symbols).into_iter().map(|request| request.path).collect();
    let path = |kind| format!("/api/v5/public/instruments?instType={kind}");
    assert_eq!(paths, ["FUTURES", "SPOT", "SWAP"].map(path));
}

#[test]
fn instruments_come_with_their_steps_and_state() {
    let answer = br#"{"code":"0","msg":"","data":[
        {"instType":"SWAP","instId":"BTC-USDT-SWAP","tickSz":"0.1","lotSz":"0.01","state":"live"},
        {"instType":"SWAP","instId":"PEPE-USDT-SWAP","tickSz":"0.000000001","lotSz":"0.1","state":"live"},
        {"instType":"SWAP","instId":"OLD-USDT-SWAP","tickSz":"1","lotSz":"1","state":"suspend"}]}"#;
    let all = Okx.read_instruments(answer).unwrap();
    let found = find_instrument(&all, "btc-usdt-swap", "OKX").unwrap();
    assert_eq!([found.tick, found.step], [Some(Fixed(10_000_000)), Some(Fixed(1_000_000))]);
    let error = |symbol| find_instrument(&all, symbol, "OKX").unwrap_err();
    assert!(matches!(error("PEPE-USDT-SWAP"), VenueError::TooFine { .. }));
    assert!(matches!(error("OLD-USDT-SWAP"), VenueError::NotTrading { .. }));
    assert!(error("BTCUSDT").to_string().ends_with("did you mean \"BTC-USDT-SWAP\"?"));
    let refused = Okx.read_instruments(br#"{"code":"50011","msg":"Too Many Requests","data":[]}"#);
    assert!(refused.unwrap_err().to_string().ends_with("Too Many Requests"));
}
