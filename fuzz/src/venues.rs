//! What the market-data engine reads.

use quietcore_feed::fixed::Fixed;
use quietcore_feed::market::{Levels, Says};
use quietcore_feed::venues::{ALL, find};

use crate::targets::seeds;

/// Messages of every kind of both venues.
pub fn messages() -> Vec<Vec<u8>> {
    seeds(&[
        r#"{"stream":"btcusdt@depth@100ms","data":{"e":"depthUpdate","E":1723161256299,"T":1723161256298,"s":"BTCUSDT","ps":"BTCUSDT","st":1,"U":5123107832006,"u":5123107837557,"pu":5123107831937,"b":[["58710.20","0.014"],["61652.80","0.195"]],"a":[["61800.30","3.330"],["61804.60","0.000"]]}}"#,
        r#"{"e":"bookTicker","u":5123107837600,"s":"BTCUSDT","b":"61800.20","B":"2.909","a":"61800.30","A":"3.330","T":1723161256300,"E":1723161256301}"#,
        r#"{ "data" : {"E":1,"a":2281946142,"s":"BTC\u0055SDT","p":"6.18e4","q":"0.005","nq":"0.005","f":1,"l":2,"T":3,"m":true,"e":"aggTrade"}, "stream":"btcusdt@aggTrade"}"#,
        r#"{"e":"markPriceUpdate","E":1,"s":"BTCUSDT","p":"1.5","ap":"1.6","i":"1.4","r":"-0.0001","T":2}"#,
        r#"{"error":{"code":2,"msg":"Invalid request"},"id":3}"#,
        r#"{"result":null,"id":1}"#,
        r#"{"arg":{"channel":"books","instId":"BTC-USDT"},"action":"update","data":[{"asks":[["61800.3","415","0","13"]],"bids":[],"ts":"1723161256399","checksum":-855196043,"seqId":7,"prevSeqId":5}]}"#,
        r#"{"arg":{"channel":"bbo-tbt","instId":"BTC-USDT"},"data":[{"asks":[["1","2","0","1"]],"bids":[],"ts":"1","seqId":3}]}"#,
        r#"{"data":[{"tradeId":"1","px":"42219.9","sz":"0.12","side":"buy","ts":"1630048897897"}],"arg":{"channel":"trades","instId":"BTC-USDT"}}"#,
        r#"{"event":"error","code":"60018","msg":"no such channel"}"#,
        "pong",
    ])
}

/// Only JSON is accepted (`pong` apart), and levels are neither negative nor left behind.
pub fn message(bytes: &[u8]) {
    let mut levels = Levels::default();
    for venue in ALL {
        let Ok(message) = venue.scan(bytes, &mut levels) else { continue };
        assert!(std::str::from_utf8(message.symbol).is_ok());
        assert!(bytes == b"pong" || serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok());
        let all = levels.bids.iter().chain(&levels.asks);
        assert!(all.clone().all(|level| level.price.0 >= 0 && level.quantity.0 >= 0));
        assert!(all.count() == 0 || matches!(message.says, Says::Depth(_)));
    }
}

pub fn snapshots() -> Vec<Vec<u8>> {
    seeds(&[
        r#"{"lastUpdateId":5123107852948,"E":1723161256501,"T":1723161256493,"bids":[["61800.20","2.909"],["61800.10","0.696"]],"asks":[["61800.30","1.5"]]}"#,
        r#"{"stream":"btcusdt@snapshot","data":{"lastUpdateId":5,"bids":[],"asks":[["1","2",[]]]}}"#,
    ])
}

/// A snapshot has as many levels as its JSON has rows.
pub fn snapshot(bytes: &[u8]) {
    let Ok(venue) = find("binance-usdm") else { return };
    let mut levels = Levels::default();
    let Ok(message) = venue.scan(bytes, &mut levels) else { return };
    let Says::Depth(depth) = message.says else { return };
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(bytes) else { return };
    let json = if json.get("stream").is_some() { &json["data"] } else { &json };
    if depth.is_snapshot {
        assert_eq!(json["lastUpdateId"].as_u64(), Some(depth.last));
        let rows = ["bids", "asks"].map(|side| json[side].as_array().map(Vec::len));
        assert_eq!(rows, [Some(levels.bids.len()), Some(levels.asks.len())]);
    }
}

pub fn decimals() -> Vec<Vec<u8>> {
    seeds(&["61652.80", "-0.00010000", "1.5e-7", "92233720368.54775807", "0E+5"])
}

/// What is read can be written and read again.
pub fn decimal(bytes: &[u8]) {
    if let Some(fixed) = Fixed::parse(bytes) {
        assert_eq!(Fixed::parse(fixed.to_string().as_bytes()), Some(fixed));
    }
}
