//! The interchange format held against the HdrHistogram library, both ways, and against hostility.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry as TheirEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};
use proptest::collection::vec;
use proptest::prelude::*;
use quietcore_measure::{
    HdrError, Hist, HistConfig, HistLog, LogEntry, Nanos, decode_v2, decode_v2_bytes, encode_v2,
    encode_v2_bytes, read_log, write_log,
};

const QUANTILES: [f64; 7] = [0.0001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0];

fn recorded(config: HistConfig, values: &[u64]) -> Hist {
    let mut hist = Hist::new(config);
    values.iter().for_each(|&value| hist.record(value));
    hist
}

fn theirs(text: &str) -> Histogram<u64> {
    Deserializer::new().deserialize(&mut BASE64.decode(text).unwrap().as_slice()).unwrap()
}

/// Values as they come: near each other, near zero, anywhere.
fn values() -> impl Strategy<Value = Vec<u64>> {
    vec(prop_oneof![0u64..300, 50_000u64..90_000, 0u64..3_600_000_000_000], 0..150)
}

fn assert_same_quantiles(ours: &Hist, theirs: &Histogram<u64>) {
    assert_eq!(ours.count(), theirs.len());
    for q in QUANTILES.into_iter().filter(|_| !ours.is_empty()) {
        // Theirs ends at the bucket's bound, ours at the maximum, which it knows.
        let bound = theirs.value_at_quantile(q).min(ours.max().unwrap());
        assert_eq!(ours.value_at(q), Some(bound), "at {q}");
    }
}

proptest! {
    #[test]
    fn the_library_reads_what_we_write(
        values in values(), digits in 1usize..=3, compressed in any::<bool>(),
    ) {
        let config = HistConfig { precision_bits: [4, 7, 10][digits - 1], ..HistConfig::default() };
        let hist = recorded(config, &values);
        let theirs = match compressed {
            true => theirs(&encode_v2(&hist)),
            false => Deserializer::new().deserialize(&mut encode_v2_bytes(&hist).as_slice()).unwrap(),
        };
        assert_same_quantiles(&hist, &theirs);
        prop_assert_eq!(usize::from(theirs.sigfig()), digits);
        prop_assert_eq!(theirs.high(), config.highest);
        for (low, high, count) in hist.buckets() {
            prop_assert_eq!(theirs.count_at(low), count);
            prop_assert_eq!(theirs.count_at(high), count);
        }
    }

    #[test]
    fn we_read_what_the_library_writes(
        values in values(), digits in 0u8..=3, low in 1u64..5_000, compressed in any::<bool>(),
    ) {
        let mut theirs = Histogram::<u64>::new_with_bounds(low, 3_600_000_000_000, digits).unwrap();
        values.iter().for_each(|&value| theirs.record(value).unwrap());
        let mut bytes = Vec::new();
        match compressed {
            true => V2DeflateSerializer::new().serialize(&theirs, &mut bytes).unwrap(),
            false => V2Serializer::new().serialize(&theirs, &mut bytes).unwrap(),
        };
        let hist = decode_v2_bytes(&bytes).unwrap();
        assert_same_quantiles(&hist, &theirs);
        prop_assert_eq!(hist.config().highest, theirs.high());
        prop_assert_eq!(hist.saturated(), 0);
    }

    #[test]
    fn both_write_the_same_bytes(values in values()) {
        let mut theirs = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 2).unwrap();
        values.iter().for_each(|&value| theirs.record(value).unwrap());
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&theirs, &mut bytes).unwrap();
        prop_assert_eq!(encode_v2_bytes(&recorded(HistConfig::default(), &values)), bytes);
    }

    #[test]
    fn what_is_written_is_read_back(values in values(), precision_bits in 1u8..=10) {
        let config = HistConfig { precision_bits, ..HistConfig::default() };
        let hist = recorded(config, &values);
        let back = decode_v2(&encode_v2(&hist)).unwrap();
        prop_assert_eq!(back.config(), hist.config());
        prop_assert!(back.buckets().eq(hist.buckets()));
    }

    #[test]
    fn random_bytes_are_refused_or_read_but_never_harm(bytes in vec(any::<u8>(), 0..300)) {
        let _ = decode_v2_bytes(&bytes);
        let _ = decode_v2(&BASE64.encode(&bytes));
        let _ = decode_v2(&String::from_utf8_lossy(&bytes));
        let _ = read_log(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn damaged_histograms_are_refused_or_read_but_never_harm(
        values in values(), compressed in any::<bool>(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>(),
    ) {
        let hist = recorded(HistConfig::default(), &values);
        let mut bytes = match compressed {
            true => BASE64.decode(encode_v2(&hist)).unwrap(),
            false => encode_v2_bytes(&hist),
        };
        prop_assert!(decode_v2_bytes(&bytes[..cut.index(bytes.len())]).is_err());
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(read) = decode_v2_bytes(&bytes) {
            prop_assert_eq!(read.buckets().map(|(_, _, n)| n).sum::<u64>(), read.count());
        }
    }

    #[test]
    fn damaged_logs_are_refused_or_read_but_never_harm(
        at in any::<prop::sample::Index>(), byte in 0u8..128,
    ) {
        let mut text = write_log(&log()).unwrap().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        let _ = read_log(std::str::from_utf8(&text).unwrap());
    }
}

#[test]
fn every_number_of_digits_is_exchanged() {
    for (digits, precision_bits) in [(1, 4), (2, 7), (3, 10), (4, 14), (5, 17)] {
        let config = HistConfig { precision_bits, highest: 10_000_000 };
        let hist = recorded(config, &[0, 1, 77_777, 9_999_999]);
        let read = theirs(&encode_v2(&hist));
        assert_eq!(read.sigfig(), digits);
        assert_same_quantiles(&hist, &read);
        let back = decode_v2(&encode_v2(&hist)).unwrap();
        assert_eq!(back.config(), config);
        assert!(back.buckets().eq(hist.buckets()));
    }
}

#[test]
fn saturated_values_come_back_at_the_maximum() {
    let hist = recorded(HistConfig { precision_bits: 7, highest: 1_000 }, &[999, 5_000, 77_777]);
    let back = decode_v2(&encode_v2(&hist)).unwrap();
    assert_eq!((back.count(), back.saturated()), (3, 0));
    assert_eq!(back.value_at(0.5), Some(77_777));
    assert_eq!(back.max(), Some(77_777));
    assert_same_quantiles(&back, &theirs(&encode_v2(&hist)));
}

#[test]
fn values_above_the_declared_range_that_the_library_admits_are_kept() {
    let mut theirs = Histogram::<u64>::new_with_bounds(1, 1_030, 2).unwrap();
    theirs.record(2_000).unwrap();
    theirs.record(1_500).unwrap();
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&theirs, &mut bytes).unwrap();
    let hist = decode_v2_bytes(&bytes).unwrap();
    assert_same_quantiles(&hist, &theirs);
    assert_eq!(hist.saturated(), 0);
}

#[test]
fn the_whole_range_of_64_bits_is_written_and_read() {
    let whole = HistConfig { precision_bits: 7, highest: u64::MAX };
    let hist = recorded(whole, &[0, 1, i64::MAX as u64, u64::MAX]);
    let back = decode_v2(&encode_v2(&hist)).unwrap();
    assert!(back.buckets().eq(hist.buckets()));
    // The library's own upper bound of the last bucket of all is off by one; below it, it agrees.
    let hist = recorded(whole, &[0, 1, 1 << 62, i64::MAX as u64]);
    assert_same_quantiles(&hist, &theirs(&encode_v2(&hist)));
}

#[test]
fn large_counts_are_written_in_nine_bytes() {
    let mut hist = Hist::new(HistConfig::default());
    hist.record_n(5, i64::MAX as u64);
    assert_eq!(decode_v2(&encode_v2(&hist)).unwrap().count(), i64::MAX as u64);
    assert_eq!(theirs(&encode_v2(&hist)).len(), i64::MAX as u64);
}

/// A header that declares what it likes, followed by a payload.
fn plain(payload_len: u32, digits: u32, low: u64, high: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(0x1c84_9313u32.to_be_bytes());
    bytes.extend(payload_len.to_be_bytes());
    bytes.extend(0u32.to_be_bytes());
    bytes.extend(digits.to_be_bytes());
    bytes.extend(low.to_be_bytes());
    bytes.extend(high.to_be_bytes());
    bytes.extend(1f64.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn compressed(plain: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(plain).unwrap();
    let packed = packed.finish().unwrap();
    let mut bytes = 0x1c84_9314u32.to_be_bytes().to_vec();
    bytes.extend((packed.len() as u32).to_be_bytes());
    bytes.extend(packed);
    bytes
}

#[test]
fn a_lying_length_is_an_early_end_not_an_allocation() {
    let bytes = plain(u32::MAX, 2, 1, 1_000, &[2, 2, 2]);
    assert!(matches!(decode_v2_bytes(&bytes), Err(HdrError::Read(_))));
    assert!(matches!(decode_v2_bytes(&compressed(&bytes)), Err(HdrError::Read(_))));
}

#[test]
fn a_bomb_is_left_at_the_end_of_its_range() {
    // 8 MiB of empty buckets in some 8 KiB.
    let zeros = vec![0u8; 8 << 20];
    let bomb = compressed(&plain(zeros.len() as u32, 2, 1, 1_000_000, &zeros));
    assert!(bomb.len() < 10_000);
    assert!(matches!(decode_v2_bytes(&bomb), Err(HdrError::TooLong)));
}

#[test]
fn impossible_headers_and_payloads_are_named() {
    let refused = |bytes: Vec<u8>| decode_v2_bytes(&bytes).unwrap_err();
    for (digits, low, high) in
        [(6, 1, 1_000), (2, 0, 1_000), (2, 600, 1_000), (5, 1 << 62, u64::MAX), (u32::MAX, 1, 9)]
    {
        assert!(matches!(refused(plain(1, digits, low, high, &[2])), HdrError::Range { .. }));
    }
    let mut scaled = plain(1, 2, 1, 1_000, &[2]);
    scaled[32] = 0x40;
    assert!(matches!(refused(scaled), HdrError::Scaled));
    let mut shifted = plain(1, 2, 1, 1_000, &[2]);
    shifted[11] = 1;
    assert!(matches!(refused(shifted), HdrError::Scaled));
    assert!(matches!(refused(b"nothing of ours".to_vec()), HdrError::Cookie(_)));
    // A run of 2^63 empty buckets, which has no positive counterpart in 64 bits.
    let run = [0xff; 9];
    assert!(matches!(refused(plain(9, 2, 1, 1_000, &run)), HdrError::TooLong));
    // Three counts of 2^63 - 1.
    let mut trailing = plain(1, 2, 1, 1_000, &[2, 2]);
    assert!(matches!(refused(trailing.clone()), HdrError::Length));
    assert!(matches!(refused(compressed(&trailing)), HdrError::Length));
    let _ = trailing.pop();
    assert_eq!(decode_v2_bytes(&trailing).unwrap().count(), 1);
    let most = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff].repeat(3);
    assert!(matches!(refused(plain(27, 2, 1, 1_000, &most)), HdrError::TooMany));
    // The payload ends within a number.
    assert!(matches!(refused(plain(1, 2, 1, 1_000, &[0x80])), HdrError::Read(_)));
}

fn log() -> HistLog {
    let entry = |tag: Option<&str>, start: Nanos, values: &[u64]| LogEntry {
        tag: tag.map(str::to_owned),
        start,
        len: Nanos::from_secs(1),
        hist: decode_v2(&encode_v2(&recorded(HistConfig::default(), values))).unwrap(),
    };
    HistLog {
        started_unix_ms: 1_441_812_279_474,
        entries: vec![
            entry(None, Nanos(0), &[80_000, 81_000]),
            entry(Some("cpu=2"), Nanos(1_000_000_001), &[200_000]),
            entry(Some("empty"), Nanos(2_500_000_000), &[]),
        ],
    }
}

#[test]
fn a_log_is_read_back_to_the_nanosecond() {
    let text = write_log(&log()).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("#[Histogram log format version 1.3]"));
    assert_eq!(lines.next(), Some("#[StartTime: 1441812279.474 (seconds since epoch)]"));
    assert_eq!(lines.next(), Some("#[BaseTime: 1441812279.474 (seconds since epoch)]"));
    assert_eq!(
        lines.next(),
        Some(
            r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#
        )
    );
    assert!(lines.next().unwrap().starts_with("0.000,1.000,81"));
    assert!(lines.next().unwrap().starts_with("Tag=cpu=2,1.000000001,1.000,200"));
    assert_eq!(read_log(&text).unwrap(), log());
}

#[test]
fn the_library_reads_our_log() {
    let text = write_log(&log()).unwrap();
    let mut intervals = 0;
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        match entry.unwrap() {
            TheirEntry::StartTime(at) | TheirEntry::BaseTime(at) => {
                assert_eq!(at.as_millis(), 1_441_812_279_474);
            }
            TheirEntry::Interval(theirs_at) => {
                let ours = &log().entries[intervals];
                assert_eq!(theirs_at.tag().map(|tag| tag.as_str()), ours.tag.as_deref());
                assert_eq!(Nanos::from(theirs_at.start_timestamp()), ours.start);
                assert_eq!(Nanos::from(theirs_at.duration()), ours.len);
                assert_same_quantiles(&ours.hist, &theirs(theirs_at.encoded_histogram()));
                intervals += 1;
            }
        }
    }
    assert_eq!(intervals, 3);
}

#[test]
fn we_read_the_librarys_log() {
    let start = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_441_812_279_474);
    let mut theirs = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    theirs.record_n(80_000, 50).unwrap();
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("written by the library")
        .with_start_time(start)
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut text, &mut serializer)
        .unwrap();
    let (second, tag) = (std::time::Duration::from_secs(1), Tag::new("cpu=2"));
    writer.write_histogram(&theirs, second / 2, second, tag).unwrap();
    writer.write_histogram(&theirs, second * 2, second, None).unwrap();

    let log = read_log(std::str::from_utf8(&text).unwrap()).unwrap();
    assert_eq!(log.started_unix_ms, 1_441_812_279_474);
    assert_eq!(log.entries.len(), 2);
    assert_eq!(log.entries[0].tag.as_deref(), Some("cpu=2"));
    assert_eq!((log.entries[0].start, log.entries[1].tag.as_ref()), (Nanos::from_ms(500), None));
    assert_same_quantiles(&log.entries[1].hist, &theirs);
}

#[test]
fn entries_with_absolute_times_are_not_counted_from_the_start_time() {
    let line =
        write_log(&log()).unwrap().lines().nth(4).unwrap().replacen("0.000", "1441812280.5", 1);
    let text = format!("#[StartTime: 1441812279.474 (seconds since epoch), some day]\n{line}\n");
    let log = read_log(&text).unwrap();
    assert_eq!(log.started_unix_ms, 0);
    assert_eq!(log.entries[0].start, Nanos(1_441_812_280_500_000_000));
}

#[test]
fn a_bad_line_is_named_by_its_number() {
    for line in ["1.0,1.0", "x,1.0,2.0,HIST", "Tag=a", "1.0,1.0,2.0,!!!", "-1.0,1.0,2.0,HIST"] {
        let text = format!("#comment\n{line}\n");
        assert!(matches!(read_log(&text), Err(HdrError::Line { line: 2, .. })), "{line}");
    }
    let mut bad = log();
    bad.entries[0].tag = Some("a b".to_owned());
    assert!(matches!(write_log(&bad), Err(HdrError::Tag(_))));
}
