//! The interchange format: HdrHistogram V2, and its interval log.
//!
//! Any HdrHistogram library reads what is written here, and histograms of other tools come in
//! this way. [`Hist`] has the very buckets of HdrHistogram, so every count comes back where it was,
//! and a histogram that was read merges with one that is being recorded. Not in the format, hence
//! lost: the exact minimum, maximum and mean (bounds and middle of the buckets come back), exact
//! counts at edges, and which values saturated (they come back at the maximum).
//!
//! Written by hand although there is a well-kept library, which is the oracle of the tests: its
//! decoder allocates what a length field says before reading (up to 4 GiB), overflows on a run of
//! 2^63 zeros, and would bring a second base64, a parser and a channel library into a tool that
//! runs as root. Decoding here takes a file as a stranger's: it never panics, and it holds no more
//! than one histogram of the resolution that the header declares, however long the payload says
//! it is or unpacks to.

use std::io::{BufReader, Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use crate::hist::BITS_OF_DIGITS;
use crate::{Hist, HistConfig, Nanos};

const COOKIE: u32 = 0x1c84_9313;
const COMPRESSED_COOKIE: u32 = 0x1c84_9314;

/// Why bytes are not a histogram, or a text not a log of them.
#[derive(Debug, thiserror::Error)]
pub enum HdrError {
    /// Not base64.
    #[error("histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// It ends early, or what is packed cannot be unpacked.
    #[error("histogram cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// It begins with the mark of another format or of an older version.
    #[error("histogram begins with {0:#010x}, which is not HdrHistogram V2")]
    Cookie(u32),
    /// Resolution or range are impossible.
    #[error("histogram of {digits} digits from {low} to {high} is impossible")]
    Range {
        /// Significant digits.
        digits: u32,
        /// Smallest value to be told from 0.
        low: u64,
        /// Largest value.
        high: u64,
    },
    /// Shifted or scaled histograms (of floating-point values) are not read.
    #[error("histogram is shifted or scaled (a recording of floating-point values?)")]
    Scaled,
    /// Counts go on beyond the largest value.
    #[error("histogram has counts beyond its range")]
    TooLong,
    /// Something follows the counts, or the outer length is not that of what is there.
    #[error("histogram is followed by something else, or is cut off")]
    Length,
    /// Counts add up to more than 64 bits hold.
    #[error("histogram's counts are impossibly large")]
    TooMany,
    /// A line of a log that is none.
    #[error("line {line} of the histogram log: {why}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A tag that would not be read back.
    #[error("`{0}` cannot be a tag: commas, blanks and line breaks are not allowed")]
    Tag(String),
    /// A record's figures and the histogram beside them are not of the same values.
    #[error("{0} does not agree with its histogram")]
    Contradiction(String),
}

/// Encodes a histogram as HdrHistogram V2, compressed, in base64: what an interval log line and
/// [`crate::Distribution::hist`] hold.
pub fn encode_v2(hist: &Hist) -> String {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail; if it did, an empty text is no histogram to any reader.
    let Ok(packed) = packed.write_all(&encode_v2_bytes(hist)).and_then(|()| packed.finish()) else {
        return String::new();
    };
    let mut bytes = Vec::with_capacity(8 + packed.len());
    bytes.extend(COMPRESSED_COOKIE.to_be_bytes());
    bytes.extend((packed.len() as u32).to_be_bytes());
    bytes.extend(packed);
    BASE64.encode(bytes)
}

/// Encodes a histogram as HdrHistogram V2 without compression.
pub fn encode_v2_bytes(hist: &Hist) -> Vec<u8> {
    let config = hist.config();
    let digits = digits_for(config.precision_bits);
    let bits = u32::from(BITS_OF_DIGITS[digits]);
    let high = config.highest.max(hist.max().filter(|_| hist.saturated() > 0).unwrap_or(0));

    let mut counts = Vec::new();
    let mut next = 0;
    let mut buckets =
        hist.buckets().map(|(_, high, n)| (HistConfig::index(bits, high), n)).peekable();
    while let Some((index, mut count)) = buckets.next() {
        // Saturated values can share the maximum's bucket with regular ones.
        while let Some((_, more)) = buckets.next_if(|&(same, _)| same == index) {
            count = count.saturating_add(more);
        }
        match index - next {
            0 => {}
            1 => put_zigzag(&mut counts, 0),
            zeros => put_zigzag(&mut counts, -(zeros as i64)),
        }
        put_zigzag(&mut counts, i64::try_from(count).unwrap_or(i64::MAX));
        next = index + 1;
    }
    if counts.is_empty() {
        put_zigzag(&mut counts, 0);
    }

    let mut bytes = Vec::with_capacity(Header::LEN + counts.len());
    bytes.extend(COOKIE.to_be_bytes());
    bytes.extend((counts.len() as u32).to_be_bytes());
    bytes.extend(0u32.to_be_bytes());
    bytes.extend((digits as u32).to_be_bytes());
    bytes.extend(1u64.to_be_bytes());
    bytes.extend(high.max(2).to_be_bytes());
    bytes.extend(1f64.to_be_bytes());
    bytes.extend(counts);
    bytes
}

/// Decodes a base64 histogram, compressed or not.
///
/// The precision is that of the histogram's digits, its range the same; one without digits, or that
/// does not tell single units apart (its lowest value is above 1), is held finer than it was. Either
/// way every bucket keeps its count and its upper bound, and with them all quantiles.
///
/// # Errors
/// When the text is not such a histogram, whole and consistent.
pub fn decode_v2(text: &str) -> Result<Hist, HdrError> {
    decode_v2_bytes(&BASE64.decode(text.trim_end())?)
}

/// Decodes a histogram, compressed or not.
///
/// # Errors
/// As [`decode_v2`].
pub fn decode_v2_bytes(bytes: &[u8]) -> Result<Hist, HdrError> {
    let hist = decode_once(bytes, None)?;
    if hist.saturated() == 0 {
        return Ok(hist);
    }
    // Other libraries let values in that are above the declared range but fit into the last row.
    let highest = hist.max();
    drop(hist);
    decode_once(bytes, highest)
}

/// One entry of an interval log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// What tells it from others of the same time; without commas, blanks and line breaks.
    pub tag: Option<String>,
    /// When the interval began, since [`HistLog::started_unix_ms`].
    pub start: Nanos,
    /// How long it was.
    pub len: Nanos,
    /// What was recorded in it.
    pub hist: Hist,
}

/// An interval log: histograms by time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistLog {
    /// What the entries' times are counted from, in milliseconds since 1970-01-01T00:00:00Z; 0 if
    /// they are absolute themselves.
    pub started_unix_ms: u64,
    /// The entries, in the order of the file.
    pub entries: Vec<LogEntry>,
}

/// Writes an interval log of format 1.3. The maximum of an interval, a help to human readers only,
/// is in the unit of the values.
///
/// # Errors
/// When a tag holds what separates fields.
pub fn write_log(log: &HistLog) -> Result<String, HdrError> {
    let start = format!("{}.{:03}", log.started_unix_ms / 1000, log.started_unix_ms % 1000);
    let mut text = String::from("#[Histogram log format version 1.3]\n");
    // Without a base time, readers guess from its size whether a start is absolute.
    for name in ["StartTime", "BaseTime"] {
        text += &format!("#[{name}: {start} (seconds since epoch)]\n");
    }
    text += "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
    for entry in &log.entries {
        if let Some(tag) = &entry.tag {
            if tag.contains([',', ' ', '\r', '\n']) {
                return Err(HdrError::Tag(tag.clone()));
            }
            text += &format!("Tag={tag},");
        }
        let (start, len) = (seconds(entry.start), seconds(entry.len));
        let max = entry.hist.max().unwrap_or(0);
        text += &format!("{start},{len},{max}.0,{}\n", encode_v2(&entry.hist));
    }
    Ok(text)
}

/// Reads an interval log. Comments and the legend are passed over.
///
/// # Errors
/// When a line is none of a log, or its histogram cannot be decoded.
pub fn read_log(text: &str) -> Result<HistLog, HdrError> {
    let mut log = HistLog::default();
    let mut base = None;
    for (index, line) in text.lines().enumerate() {
        let wrong = |why: &str| HdrError::Line { line: index + 1, why: why.to_owned() };
        let line = line.trim_end();
        if let Some(time) = header(line, "StartTime") {
            log.started_unix_ms = unix_ms(time).ok_or_else(|| wrong("no time"))?;
        } else if let Some(time) = header(line, "BaseTime") {
            base = Some(unix_ms(time).ok_or_else(|| wrong("no time"))?);
        } else if !(line.is_empty()
            || line.starts_with('#')
            || line.starts_with("\"StartTimestamp\""))
        {
            log.entries.push(entry(line).map_err(|why| wrong(&why))?);
        }
    }
    log.started_unix_ms = match base {
        Some(base) => base,
        None => implied_base(&log),
    };
    Ok(log)
}

/// Without a base time, entries count from the start time if they are more than a year smaller,
/// and are absolute otherwise: the rule of the Java library.
fn implied_base(log: &HistLog) -> u64 {
    const YEAR_MS: u64 = 365 * 86_400_000;
    let first_ms = log.entries.first().map_or(0, |entry| entry.start.0 / 1_000_000);
    if first_ms.saturating_add(YEAR_MS) < log.started_unix_ms { log.started_unix_ms } else { 0 }
}

fn entry(line: &str) -> Result<LogEntry, String> {
    let (tag, fields) = match line.strip_prefix("Tag=") {
        Some(tagged) => {
            let (tag, fields) = tagged.split_once(',').ok_or("a tag and nothing else")?;
            (Some(tag.to_owned()), fields)
        }
        None => (None, line),
    };
    let mut fields = fields.splitn(4, ',');
    let mut field = |name: &str| fields.next().ok_or_else(|| format!("no {name}"));
    let start = nanos(field("start")?).ok_or("start is not a number of seconds")?;
    let len = nanos(field("length")?).ok_or("length is not a number of seconds")?;
    let _max = field("maximum")?;
    let hist = decode_v2(field("histogram")?).map_err(|error| error.to_string())?;
    Ok(LogEntry { tag, start, len, hist })
}

/// The value of a header line `#[name: value (comment)]`.
fn header<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let value = line.strip_prefix("#[")?.strip_prefix(name)?.strip_prefix(':')?;
    value.trim_start().split([' ', ']']).next()
}

fn unix_ms(seconds: &str) -> Option<u64> {
    Some(nanos(seconds)?.0 / 1_000_000)
}

/// Seconds with as many decimals as nanoseconds need, three at least.
fn seconds(nanos: Nanos) -> String {
    let mut text = format!("{}.{:09}", nanos.0 / 1_000_000_000, nanos.0 % 1_000_000_000);
    while text.ends_with('0') && !text.ends_with(".000") {
        let _ = text.pop();
    }
    text
}

/// Decimal seconds to nanoseconds, digit by digit: a float would lose the last ones.
fn nanos(seconds: &str) -> Option<Nanos> {
    let (whole, fraction) = seconds.trim().split_once('.').unwrap_or((seconds.trim(), ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let fraction: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let whole: u64 = whole.parse().ok()?;
    Some(Nanos(whole.checked_mul(1_000_000_000)?.checked_add(fraction.parse().ok()?)?))
}

fn digits_for(precision_bits: u8) -> usize {
    BITS_OF_DIGITS.iter().position(|&bits| bits >= precision_bits).unwrap_or(5)
}

/// Decodes with the header's range, or one that is known to be larger.
fn decode_once(bytes: &[u8], highest: Option<u64>) -> Result<Hist, HdrError> {
    let mut rest = bytes;
    if u32::from_be_bytes(take(&mut rest)?) != COMPRESSED_COOKIE {
        return decode_plain(bytes, highest);
    }
    let len = u32::from_be_bytes(take(&mut rest)?);
    if rest.len() as u64 != u64::from(len) {
        return Err(HdrError::Length);
    }
    decode_plain(BufReader::new(ZlibDecoder::new(rest)), highest)
}

fn decode_plain(mut bytes: impl Read, highest: Option<u64>) -> Result<Hist, HdrError> {
    let header = Header::read(&mut bytes)?;
    let config =
        HistConfig { precision_bits: header.bits as u8, highest: highest.unwrap_or(header.high) };
    let mut hist = Hist::new(config);
    let mut payload = bytes.by_ref().take(header.payload_len);
    let (mut index, mut total) = (0usize, 0u64);
    while payload.limit() > 0 {
        let number = take_zigzag(&mut payload)?;
        // Negative numbers are runs of empty buckets.
        let (count, step) = match u64::try_from(number) {
            Ok(count) => (count, 1),
            Err(_) => (0, usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX)),
        };
        if count > 0 && index >= header.buckets {
            return Err(HdrError::TooLong);
        }
        if count > 0 {
            total = total.checked_add(count).ok_or(HdrError::TooMany)?;
            let (low, high) = header.bounds(index);
            // The last bucket reaches beyond the largest value only on paper.
            let high = if low <= config.highest { high.min(config.highest) } else { high };
            hist.record_between(low, high, count);
        }
        index =
            index.checked_add(step).filter(|&i| i <= header.buckets).ok_or(HdrError::TooLong)?;
    }
    // Reading to the end is also what checks the packed form's checksum.
    match bytes.read(&mut [0])? {
        0 => Ok(hist),
        _ => Err(HdrError::Length),
    }
}

/// What precedes the counts.
struct Header {
    payload_len: u64,
    /// Buckets per power of two, as a power of two.
    bits: u32,
    /// Values differing in fewer low bits than this are not told apart.
    unit_bits: u32,
    high: u64,
    /// How many buckets the range has.
    buckets: usize,
}

impl Header {
    const LEN: usize = 40;

    fn read(bytes: &mut impl Read) -> Result<Self, HdrError> {
        let cookie = u32::from_be_bytes(take(bytes)?);
        if cookie != COOKIE {
            return Err(HdrError::Cookie(cookie));
        }
        let payload_len = u64::from(u32::from_be_bytes(take(bytes)?));
        let shift = u32::from_be_bytes(take(bytes)?);
        let digits = u32::from_be_bytes(take(bytes)?);
        let low = u64::from_be_bytes(take(bytes)?);
        let high = u64::from_be_bytes(take(bytes)?);
        let scale = f64::from_be_bytes(take(bytes)?);
        if shift != 0 || scale != 1.0 {
            return Err(HdrError::Scaled);
        }
        let impossible = || HdrError::Range { digits, low, high };
        let bits = BITS_OF_DIGITS.get(digits as usize).copied().ok_or_else(impossible)?;
        let bits = u32::from(bits);
        let unit_bits = low.checked_ilog2().ok_or_else(impossible)?;
        if high / 2 < low || unit_bits + bits + 1 > 63 {
            return Err(impossible());
        }
        // Rows of 2^bits buckets are always whole.
        let rows = (HistConfig::index(bits, high >> unit_bits) >> bits) + 1;
        Ok(Self { payload_len, bits, unit_bits, high, buckets: rows << bits })
    }

    fn bounds(&self, index: usize) -> (u64, u64) {
        let (low, high) = HistConfig::bounds(self.bits, index);
        (low << self.unit_bits, high << self.unit_bits | ((1 << self.unit_bits) - 1))
    }
}

fn take<const N: usize>(bytes: &mut impl Read) -> Result<[u8; N], HdrError> {
    let mut taken = [0; N];
    bytes.read_exact(&mut taken)?;
    Ok(taken)
}

/// ZigZag LEB128 of at most 9 bytes: the ninth holds 8 bits.
fn put_zigzag(bytes: &mut Vec<u8>, number: i64) {
    let mut rest = (number << 1 ^ number >> 63) as u64;
    for _ in 0..8 {
        if rest < 0x80 {
            break;
        }
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

fn take_zigzag(bytes: &mut impl Read) -> Result<i64, HdrError> {
    let mut number = 0u64;
    for place in 0..9 {
        let [byte] = take(bytes)?;
        if place == 8 {
            number |= u64::from(byte) << 56;
            break;
        }
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            break;
        }
    }
    Ok((number >> 1) as i64 ^ -((number & 1) as i64))
}
