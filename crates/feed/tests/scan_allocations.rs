//! Reading a message does not allocate: counted, not assumed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use quietcore_feed::market::Levels;
use quietcore_feed::venues::Venue;
use quietcore_feed::venues::binance_usdm::BinanceUsdm;
use quietcore_feed::venues::okx::Okx;

/// The system's allocator, counting what each thread asks of it.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // At the end of a thread there is nothing left to count into.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `alloc` or `realloc` below, which are the system's.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as for `dealloc`; the caller's promises about `size` are passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn the_counter_counts() {
    let mut levels = Levels::default();
    let text = br#"{"lastUpdateId":1,"bids":[["1","2"]],"asks":[]}"#;
    assert!(allocations(|| assert!(BinanceUsdm.scan(text, &mut levels).is_ok())) > 0);
    assert_eq!(levels.bids.len(), 1);
}

/// The usual, the unusual (keys in another order, whitespace, escapes, exponents) and the wrong.
fn messages() -> Vec<(&'static dyn Venue, Vec<u8>)> {
    let rows = |from: u32, more: &str| {
        let row = |at: u32| format!("[\"{}.{}0\",\"0.{at:03}\"{more}]", from + at / 10, at % 10);
        (0..400).map(row).collect::<Vec<_>>().join(",")
    };
    let (binance, okx): (&dyn Venue, &dyn Venue) = (&BinanceUsdm, &Okx);
    let texts = [
        (binance, format!(r#"{{"stream":"btcusdt@depth@100ms","data":{{"e":"depthUpdate","E":1,"T":2,"s":"BTCUSDT","ps":"BTCUSDT","st":1,"U":3,"u":4,"pu":2,"b":[{}],"a":[{}]}}}}"#, rows(60_000, ""), rows(61_000, ""))),
        (binance, format!(r#"{{"data":{{"a":[{}], "b" : [],"\u0055":3,"pu":2,"u":4,"T":2,"E":1,"e":"depth\u0055pdate","x":[[{{"y":[1e5,null]}}]]}},"stream":"btcusdt\u0040depth"}}"#, rows(61_000, ""))),
        (binance, format!(r#"{{"lastUpdateId":5,"E":1,"T":2,"bids":[{}],"asks":[["6.1e4","\u0031"]]}}"#, rows(60_000, ""))),
        (binance, r#"{"e":"bookTicker","u":1,"s":"BTCUSDT","b":"1","B":"2","a":"3","A":"4","T":1,"E":1}"#.into()),
        (binance, r#"{"e":"aggTrade","a":1,"s":"BTCUSDT","p":"1","q":"2","nq":"2","m":true,"T":1}"#.into()),
        (binance, r#"{"e":"markPriceUpdate","s":"BTCUSDT","p":"1","i":"2","r":"","E":1}"#.into()),
        (binance, r#"{"code":2,"msg":"no","id":3}"#.into()),
        (binance, r#"{"result":null,"id":3}"#.into()),
        (binance, r#"{"e":"bookTicker","u":18446744073709551616}"#.into()),
        (binance, r#"{"e":"bookTicker","s":"\ud800"}"#.into()),
        (okx, format!(r#"{{"arg":{{"channel":"books","instId":"BTC-USDT"}},"action":"snapshot","data":[{{"asks":[{}],"bids":[],"ts":"1","checksum":-5,"seqId":1,"prevSeqId":-1}}]}}"#, rows(60_000, ",\"0\",\"13\""))),
        (okx, format!(r#"{{"data":[{{"asks":[{}],"bids":[],"ts":"\u0031","seqId":1,"prevSeqId":1}}],"action":"update","arg":{{"channel":"books"}}}}"#, rows(60_000, ",{}"))),
        (okx, r#"{"arg":{"channel":"trades","instId":"X"},"data":[{"tradeId":"1","px":"1","sz":"2","side":"buy","ts":"1"}]}"#.into()),
        (okx, r#"{"event":"error","msg":"no","code":"1"}"#.into()),
        (okx, "pong".into()),
        (okx, "{".into()),
    ];
    texts.map(|(venue, text)| (venue, text.into_bytes())).into()
}

#[test]
fn no_message_allocates_once_there_is_room() {
    let messages = messages();
    let mut levels = Levels::with_room(400);
    let mut read = 0;
    let counted = allocations(|| {
        for _ in 0..100 {
            for (venue, text) in &messages {
                read += u64::from(venue.scan(text, &mut levels).is_ok());
            }
        }
    });
    assert_eq!((counted, read), (0, 100 * (messages.len() as u64 - 3)));
}
