//! The parsers, one function each. What can be checked besides "it returns" is checked.

use std::path::Path;

use quietcore_bpf::{Event, Wait};
use quietcore_facts::counters::CpuTimes;
use quietcore_facts::irqs::Interrupts;
use quietcore_facts::{Boot, Facts};
use quietcore_feed::server;
use quietcore_host::placement::Map;
use quietcore_host::profile::{self, Profile, SHIPPED};
use quietcore_host::{Audit, Scope, Waivers, audit};
use quietcore_measure::{CpuSet, Nanos, decode_v2, encode_v2, read_log};
use quietcore_spike::Kallsyms;
use quietcore_sys::Host;
use quietcore_sys::host::{Snapshot, scrub};
use quietcore_sys::lease::Standing;
use quietcore_sys::live;
use quietcore_sys::writers::{events, exits};

use crate::{Target, books, tls, venues, websocket};

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "cpu_list", seeds: cpu_lists, run: cpu_list },
    Target { name: "cpu_mask", seeds: cpu_masks, run: cpu_mask },
    Target { name: "duration", seeds: durations, run: duration },
    Target { name: "boot_line", seeds: boot_lines, run: boot_line },
    Target { name: "interrupts", seeds: interrupt_tables, run: interrupts },
    Target { name: "cpu_times", seeds: stats, run: cpu_times },
    Target { name: "snapshot", seeds: snapshots, run: snapshot },
    Target { name: "run", seeds: runs, run },
    Target { name: "waivers", seeds: waiver_files, run: waivers },
    Target { name: "placement", seeds: placements, run: placement },
    Target { name: "histogram", seeds: histograms, run: histogram },
    Target { name: "histogram_log", seeds: histogram_logs, run: histogram_log },
    Target { name: "scrubber", seeds: texts, run: scrubber },
    Target { name: "file_events", seeds: file_events, run: file_event },
    Target { name: "task_exits", seeds: task_exits, run: task_exit },
    Target { name: "profile", seeds: profiles, run: profile },
    Target { name: "knob_setting", seeds: knob_settings, run: knob_setting },
    Target { name: "journal", seeds: journals, run: journal },
    Target { name: "recorder_event", seeds: events_of_recorder, run: event_of_recorder },
    Target { name: "recorder_wait", seeds: waits, run: wait },
    Target { name: "live_segment", seeds: live_segments, run: live_segment },
    Target { name: "venue_faults", seeds: fault_scripts, run: fault_script },
    Target { name: "venue_requests", seeds: venue_requests, run: venue_request },
    Target { name: "venue_heads", seeds: http_heads, run: http_head },
    Target { name: "venue_tape", seeds: tapes, run: tape },
    Target { name: "kallsyms", seeds: kernel_symbols, run: kernel_symbol },
    Target { name: "websocket_stream", seeds: websocket::streams, run: websocket::stream },
    Target { name: "websocket_answer", seeds: websocket::responses, run: websocket::answer },
    Target { name: "websocket_request", seeds: websocket::requests, run: websocket::asked },
    Target { name: "feed_recording", seeds: books::recordings, run: books::recording },
    Target { name: "feed_market", seeds: books::market_events, run: books::market_event },
    Target { name: "tls_records", seeds: tls::scripts, run: tls::records },
    Target { name: "feed_message", seeds: venues::messages, run: venues::message },
    Target { name: "feed_snapshot", seeds: venues::snapshots, run: venues::snapshot },
    Target { name: "feed_decimal", seeds: venues::decimals, run: venues::decimal },
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn seeds(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn cpu_lists() -> Vec<Vec<u8>> {
    seeds(&["0,2-5", "0-31:2/8,40", "(null)", "", "2-19,42-59\n"])
}

fn cpu_list(bytes: &[u8]) {
    if let Ok(set) = CpuSet::parse_list(&text(bytes)) {
        assert_eq!(CpuSet::parse_list(&set.to_string()), Ok(set));
    }
}

fn cpu_masks() -> Vec<Vec<u8>> {
    seeds(&["f", "ff,ffffffff", "00000000,00000000,0000000c\n", "0x3"])
}

fn cpu_mask(bytes: &[u8]) {
    if let Ok(set) = CpuSet::parse_mask(&text(bytes)) {
        assert_eq!(CpuSet::parse_mask(&set.to_mask(1)), Ok(set));
    }
}

fn durations() -> Vec<Vec<u8>> {
    seeds(&["10s", "500us", "1.5ms", "2m", "100ns"])
}

fn duration(bytes: &[u8]) {
    if let Ok(Nanos(ns)) = text(bytes).parse() {
        assert_eq!(format!("{ns}ns").parse(), Ok(Nanos(ns)));
    }
}

fn boot_lines() -> Vec<Vec<u8>> {
    seeds(&[
        "BOOT_IMAGE=/vmlinuz root=/dev/sda1 isolcpus=managed_irq,domain,2-N nohz_full=all rcu_nocbs=2,3 -- x",
        r#"dyndbg="file a.c +p" isolcpus=1-3:1/2 irqaffinity=0 quiet"#,
    ])
}

fn boot_line(bytes: &[u8]) {
    let boot = Boot::parse(&text(bytes), 7);
    assert!(boot.intended().highest().is_none_or(|top| top < 16_384));
}

fn interrupt_tables() -> Vec<Vec<u8>> {
    seeds(&[
        "           CPU0       CPU2\n 24:  1  5  IO-APIC   5-edge      ACPI:Ged\nLOC:  5  8   Local timer interrupts\nERR:  0\n",
    ])
}

fn interrupts(bytes: &[u8]) {
    let table = Interrupts::parse(&text(bytes));
    for row in table.rows.values() {
        assert!(row.counts.len() <= table.cpus.len() && row.text.len() >= row.actions().len());
    }
    for cpu in &table.cpus {
        assert!(table.since(&table, *cpu).is_empty());
    }
}

fn stats() -> Vec<Vec<u8>> {
    seeds(&[
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 0 0 100 0 0 0 20 0 0\ncpu1 1 2 3 4 5 6 7 8 9 10\nintr 5\n",
    ])
}

fn cpu_times(bytes: &[u8]) {
    let _ = CpuTimes::parse(&text(bytes));
}

fn host_files() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/hosts");
    let hosts = std::fs::read_dir(folder).into_iter().flatten().flatten();
    hosts.filter_map(|host| std::fs::read(host.path().join("host.json")).ok()).collect()
}

/// The smallest recorded host: the larger ones mutilate no better and take longer.
fn snapshots() -> Vec<Vec<u8>> {
    host_files().into_iter().min_by_key(Vec::len).into_iter().collect()
}

fn snapshot(bytes: &[u8]) {
    let Ok(snapshot) = Snapshot::parse(&text(bytes)) else { return };
    let facts = Facts::of(Host::recorded(snapshot));
    let scope = Scope::of(&facts, None, Some(1));
    audit(&facts, &Audit { scope, waivers: Waivers::default(), today: 0 });
}

fn runs() -> Vec<Vec<u8>> {
    seeds(&[
        r#"{"schema":1,"quietcore":"0.1.0","command":["quietcore","audit"],"started_unix_ms":1,"took_ns":2,"host":{"name":"h","kernel":"k","cpu":"c","online":"0-3","hypervisor":"none","memory_bytes":1,"recorded":false},"validity":{"verdict":"valid","notes":[],"lost_events":0},"sections":[{"type":"table","name":"t","title":"T","columns":["a"],"rows":[[1],[null],[{"unsupported":"x"}]]},{"type":"timeline","name":"l","title":"L","unit":"ns","span_ns":9,"series":[{"labels":{"cpu":"2"},"points":[[1,2.5]],"omitted":0}]}]}"#,
    ])
}

fn run(bytes: &[u8]) {
    let Ok(run) = quietcore_report::parse(bytes) else { return };
    for format in quietcore_report::Format::ALL {
        let _ = quietcore_report::render(&run, format, &quietcore_report::Options::default());
    }
}

fn placements() -> Vec<Vec<u8>> {
    seeds(&["btc=4,eth = 5,GC Thread#0=6-7,tid:812=8,main=3,*=0,2-31:1/8", "main=0"])
}

fn placement(bytes: &[u8]) {
    if let Ok(map) = text(bytes).parse::<Map>() {
        assert_eq!(map.to_string().parse(), Ok(map));
    }
}

fn waiver_files() -> Vec<Vec<u8>> {
    seeds(&[
        "[[waiver]]\nid = \"irq.default-affinity\"\nreason = \"known\"\nexpires = \"2027-03-31\"\n",
    ])
}

fn waivers(bytes: &[u8]) {
    let _ = Waivers::parse(&text(bytes));
}

fn histogram_seed() -> quietcore_measure::Hist {
    let mut hist = quietcore_measure::Hist::new(quietcore_measure::HistConfig::default());
    for value in (0..2_000).map(|n| n * n) {
        hist.record(value);
    }
    hist
}

fn histograms() -> Vec<Vec<u8>> {
    seeds(&[&encode_v2(&histogram_seed())])
}

fn histogram(bytes: &[u8]) {
    if let Ok(hist) = decode_v2(&text(bytes)) {
        assert_eq!(hist.is_empty(), hist.value_at(0.5).is_none());
    }
}

fn histogram_logs() -> Vec<Vec<u8>> {
    let log = format!(
        "#[Histogram log format version 1.3]\n\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\nTag=a,0.0,1.0,3.9,{}\n",
        encode_v2(&histogram_seed())
    );
    seeds(&[&log])
}

fn histogram_log(bytes: &[u8]) {
    let _ = read_log(&text(bytes));
}

fn texts() -> Vec<Vec<u8>> {
    seeds(&[
        "root=UUID=2d1c0b4e-1111-4aaa-8bbb-0123456789ab 52:54:00:12:34:56 10.1.2.3 fe80::5054:ff:fe12:3456 ok",
    ])
}

fn scrubber(bytes: &[u8]) {
    let once = scrub(&text(bytes));
    assert_eq!(scrub(&once), once, "scrubbing twice changes nothing");
}

/// A write with the process's descriptor, a rename with the directory and the name, an overflow.
fn file_events() -> Vec<Vec<u8>> {
    let event = |mask: u64, file: i32, record: &[u8]| {
        let mut bytes = (24 + record.len() as u32).to_ne_bytes().to_vec();
        bytes.extend([3, 0, 24, 0]);
        bytes.extend(mask.to_ne_bytes());
        bytes.extend([file, 4711].map(i32::to_ne_bytes).concat());
        bytes.extend(record);
        bytes
    };
    let process = [4, 0, 8, 0, 9, 0, 0, 0];
    let mut name = vec![2, 0, 32, 0, 1, 1, 1, 1, 1, 1, 1, 1, 4, 0, 0, 0, 129, 0, 0, 0, 7, 7, 7, 7];
    name.extend(b"a.conf\0\0");
    vec![[event(2, 5, &process), event(0x80, -1, &name), event(0x4000, -1, &[])].concat()]
}

fn file_event(bytes: &[u8]) {
    let (events, whole) = events::decode(bytes);
    // 24 bytes is the least that an event takes.
    assert!(events.len() <= bytes.len() / 24);
    assert!(whole || !bytes.is_empty());
}

/// As the kernel sends it when `sh` with the pid 4711 ends.
fn task_exits() -> Vec<Vec<u8>> {
    let mut datagram = vec![0; 20 + 4 + 8 + 4 + 416];
    let mut put = |at: usize, bytes: &[u8]| datagram[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &452u32.to_ne_bytes());
    put(4, &31u16.to_ne_bytes());
    put(16, &[2, 1]);
    for (at, length, kind) in [(20, 432u16, 4u16), (24, 8, 1), (32, 420, 3)] {
        put(at, &[length.to_ne_bytes(), kind.to_ne_bytes()].concat());
    }
    put(28, &4711u32.to_ne_bytes());
    put(36 + 80, b"sh");
    put(36 + 128, &4711u32.to_ne_bytes());
    assert_eq!(exits::parse(&datagram).len(), 1, "the seed is well-formed");
    vec![datagram]
}

fn task_exit(bytes: &[u8]) {
    for exit in exits::parse(bytes) {
        assert!(exit.comm.chars().count() <= 32);
    }
}

fn profiles() -> Vec<Vec<u8>> {
    seeds(&SHIPPED.map(|(_, text)| text))
}

fn profile(bytes: &[u8]) {
    let _ = profile::check(&text(bytes));
}

fn knob_settings() -> Vec<Vec<u8>> {
    seeds(&["swappiness=10", "transparent-hugepages=never", "stop-services=a.service,b.service"])
}

/// What is taken is kept under the knob's name, or was `untouched`.
fn knob_setting(bytes: &[u8]) {
    let mut profile = Profile::default();
    let text = text(bytes);
    if profile.set(&text).is_ok() {
        let (id, value) = text.split_once('=').unwrap_or_default();
        assert_eq!(profile.knobs.contains_key(id), value != "untouched", "{text}");
    }
}

/// As `apply` leaves it.
fn journals() -> Vec<Vec<u8>> {
    seeds(&[include_str!("journal")])
}

fn journal(bytes: &[u8]) {
    let standing = Standing::parse(bytes, &Host::recorded(Snapshot::new("fuzz")));
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!(standing.damaged.iter().all(|line| (1..=lines).contains(line)));
}

/// One of every kind, the first unknown one too.
fn events_of_recorder() -> Vec<Vec<u8>> {
    let event = |kind: u16| {
        let mut bytes = vec![7; Event::BYTES];
        bytes[12..14].copy_from_slice(&kind.to_ne_bytes());
        bytes[16..20].copy_from_slice(&1u32.to_ne_bytes());
        bytes
    };
    (1..=18).map(event).collect()
}

/// Whatever a program wrote is an event or none; what is one survives being written down.
fn event_of_recorder(bytes: &[u8]) {
    let mut whole = [0; Event::BYTES];
    let length = bytes.len().min(whole.len());
    whole[..length].copy_from_slice(&bytes[..length]);
    let (_, Some(event)) = Event::decode(&whole, 3) else { return };
    assert_eq!(event.cpu, 3);
    assert!(format!("{event:?}").len() < 500);
}

fn waits() -> Vec<Vec<u8>> {
    vec![vec![0; Wait::BYTES], (0..Wait::BYTES).map(|n| n as u8).collect()]
}

/// Sizes of stacks that the kernel could not have written do not become stacks.
fn wait(bytes: &[u8]) {
    let Some(wait) = Wait::decode(bytes) else {
        return assert!(bytes.len() < Wait::BYTES);
    };
    for stack in [&wait.kernel, &wait.waker_kernel, &wait.waker_user] {
        assert!(stack.len() * 8 <= Wait::BYTES);
    }
}

fn kernel_symbols() -> Vec<Vec<u8>> {
    seeds(&[
        "ffffffff81000000 T _stext\nffffffff81000100 t do_it\t[mod]\nffffffff81000200 D data\n",
        "0000000000000000 T hidden\n",
    ])
}

fn kernel_symbol(bytes: &[u8]) {
    let kernel = Kallsyms::parse(&text(bytes));
    assert_eq!(kernel.name(0), None);
    let _ = kernel.name(u64::MAX);
}

/// One ring of four slots of which the third was overwritten.
fn live_segments() -> Vec<Vec<u8>> {
    let mut bytes = b"qcLIVE\x1a\0".to_vec();
    [2u32, 1, 4, 77, 3].iter().for_each(|number| bytes.extend(number.to_ne_bytes()));
    bytes.resize(64, 0);
    [5u64, 78].iter().for_each(|number| bytes.extend(number.to_ne_bytes()));
    bytes.resize(128, 0);
    for seq in [5u64, 2, 3, 4] {
        [seq, seq * 10, seq * 10 + 5, 1].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
    }
    vec![bytes]
}

fn live_segment(bytes: &[u8]) {
    for span in live::parse(bytes).unwrap_or_default() {
        assert!(span.start_ns <= span.end_ns);
    }
}

fn fault_scripts() -> Vec<Vec<u8>> {
    seeds(&[
        "after 500 events gap 3 on btcusdt@depth # a comment\nevery 10 events duplicate 2",
        "at 2s close 1008 Too many requests; after 1 event reorder 4 on @depth@100ms",
        "rest 429 retry-after 1500ms 2 times after 1 request\nupgrade 503 always",
        "snapshot stale; snapshot future 5 3 times; certificate wrong-name",
        "after 5 events oversize 1_000; after 6 slow 20_000; after 7 silence 5ms; after 8 close 1006",
    ])
}

fn fault_script(bytes: &[u8]) {
    let read = text(bytes).parse::<server::Script>();
    if let Err(error) = read {
        assert!(error.line >= 1 && !error.problem.is_empty());
    }
}

fn venue_requests() -> Vec<Vec<u8>> {
    seeds(&[
        r#"{"method":"SUBSCRIBE","params":["btcusdt@depth@100ms"],"id":1}"#,
        r#"{"id":"x","params":["a","b"],"method":"UNSUBSCRIBE"}"#,
        r#"{"method":"LIST_SUBSCRIPTIONS","id":null}"#,
        r#"{"op":"subscribe","args":[{"channel":"books","instId":"BTC-USDT-SWAP"}]}"#,
    ])
}

/// Whatever is wrong is answered with JSON.
fn venue_request(bytes: &[u8]) {
    let text = text(bytes);
    for answer in
        [server::read_command(&text).err(), server::read_okx_command(&text).err()].iter().flatten()
    {
        assert!(answer.starts_with('{') && answer.ends_with('}'));
    }
}

fn http_heads() -> Vec<Vec<u8>> {
    seeds(&[
        "GET /fapi/v1/depth?symbol=BTCUSDT&limit=5 HTTP/1.1\r\nHost: x\r\n\r\nrest",
        "GET /public/stream?streams=a@depth/b@x HTTP/1.1\r\nConnection: keep-alive, Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    ])
}

fn http_head(bytes: &[u8]) {
    if let Ok(Some(head)) = server::Head::read(bytes) {
        assert!(head.length <= bytes.len());
        let _ = (server::Address::parse(&head.target), head.parameter("symbol"));
    }
}

fn tapes() -> Vec<Vec<u8>> {
    let depth = r#"{"stream":"btcusdt@depth@0ms","data":{"e":"depthUpdate","E":3,"T":3,"s":"BTCUSDT","U":21,"u":30,"pu":20,"b":[["100.0","3.0"]],"a":[["101.0","0.000"]]}}"#;
    let snapshot = r#"{"lastUpdateId":15,"E":1,"T":1,"bids":[["100.0","1.5"],["99.5","2.0"]],"asks":[["100.5","1.0"]]}"#;
    let quote = r#"{"e":"bookTicker","u":40,"s":"BTCUSDT","b":"100.0","B":"4.0","a":"100.5","A":"1.0","T":5,"E":5}"#;
    seeds(&[&format!("{snapshot}\n{depth}\n{quote}"), &format!("{depth}\n{snapshot}\n{depth}")])
}

/// A tape plays whatever can be read of it, to its end.
fn tape(bytes: &[u8]) {
    let lines: Vec<(u64, Vec<u8>)> =
        bytes.split(|byte| *byte == b'\n').zip(1..).map(|(line, at)| (at, line.to_vec())).collect();
    let count = lines.len();
    let mut tape = server::Tape::new(Box::new(lines.into_iter()));
    let mut out = Vec::new();
    while tape.due().is_some() {
        tape.step(&|_| true, &mut out);
    }
    assert!(out.len() <= count);
    for symbol in 0..tape.listings().len() {
        let _ = (tape.book(symbol), tape.oldest_book(symbol), tape.future_book(symbol, 3));
    }
}
