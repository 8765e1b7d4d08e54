//! Reading, line by line, whatever the file holds.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

/// The longest line that is read: some hundred times the largest message known.
const LONGEST: usize = 16 << 20;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A recorded message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Number of the line in the file, from 1.
    pub number: u64,
    /// When it was received, in nanoseconds since 1970.
    pub received_ns: u64,
    /// The message, without the line's end.
    pub json: &'a [u8],
}

/// What is wrong with a recording. All but [`ReadError::Open`] and [`ReadError::Read`] are about one
/// line; reading goes on with the next.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened.
    #[error("cannot open the recording {path}: {source}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be read on: a fault of the disk, or damaged or cut-off gzip data.
    #[error("cannot read the recording after line {line}: {source}")]
    Read {
        /// The last whole line.
        line: u64,
        /// What the system or the unpacker said.
        source: io::Error,
    },
    /// The line does not begin with a number and a space.
    #[error("line {line} does not begin with a receive time in ns and a space")]
    NoTime {
        /// Its number.
        line: u64,
    },
    /// No JSON object or array after the time.
    #[error("line {line} has no JSON object or array after its receive time")]
    NoMessage {
        /// Its number.
        line: u64,
    },
    /// The line is longer than any message.
    #[error("line {line} is longer than {limit} bytes")]
    TooLong {
        /// Its number.
        line: u64,
        /// What is the most.
        limit: usize,
    },
    /// The last line has no end, neither has its JSON.
    #[error("the recording is cut off within line {line}")]
    CutOff {
        /// Its number.
        line: u64,
    },
}

impl ReadError {
    /// Whether nothing more can be read.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Read { .. })
    }
}

/// Reads a recording; memory for one line.
pub struct Reader {
    input: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: u64,
    bad: u64,
    longest: usize,
    is_over: bool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("number", &self.number).field("bad", &self.bad).finish()
    }
}

impl Reader {
    /// Of a file, plain or gzipped (one member or several), whatever its name.
    ///
    /// # Errors
    /// [`ReadError::Open`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let failed = |source| ReadError::Open { path: path.to_owned(), source };
        Self::new(File::open(path).map_err(failed)?).map_err(failed)
    }

    /// Of anything that can be read.
    ///
    /// # Errors
    /// Those of the first read, which tells whether it is gzipped.
    pub fn new(source: impl Read + Send + 'static) -> io::Result<Self> {
        let mut source = BufReader::with_capacity(1 << 16, source);
        let input: Box<dyn BufRead + Send> = if source.fill_buf()?.starts_with(&GZIP) {
            Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(source)))
        } else {
            Box::new(source)
        };
        Ok(Self { input, line: Vec::new(), number: 0, bad: 0, longest: LONGEST, is_over: false })
    }

    /// Lines that were wrong so far.
    pub fn bad(&self) -> u64 {
        self.bad
    }

    /// The next message; `None` at the end, and after an error that is final.
    ///
    /// # Errors
    /// What is wrong with this line. Reading may go on unless it is final.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, ReadError> {
        loop {
            if self.is_over || !self.read_line()? {
                return Ok(None);
            }
            if !matches!(self.line.trim_ascii_start().first(), None | Some(b'#')) {
                break;
            }
        }
        let result = parse(&self.line, self.number);
        // Nothing that is not whole JSON is given out as the file's last message.
        let is_whole = !self.is_over || result.as_ref().is_ok_and(|(_, json)| is_json(json));
        match result {
            _ if !is_whole => {
                self.bad += 1;
                Err(ReadError::CutOff { line: self.number })
            }
            Ok((received_ns, json)) => Ok(Some(Line { number: self.number, received_ns, json })),
            Err(error) => {
                self.bad += 1;
                Err(error)
            }
        }
    }

    /// The next line without its end; whether there is one.
    fn read_line(&mut self) -> Result<bool, ReadError> {
        self.line.clear();
        let mut length = 0;
        loop {
            let part = match self.input.fill_buf() {
                Ok(part) => part,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    self.is_over = true;
                    return Err(ReadError::Read { line: self.number, source });
                }
            };
            if part.is_empty() {
                self.is_over = true;
                break;
            }
            let end = part.iter().position(|byte| *byte == b'\n');
            let text = &part[..end.unwrap_or(part.len())];
            length += text.len();
            if length <= self.longest {
                self.line.extend_from_slice(text);
            }
            let used = text.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                break;
            }
        }
        if self.is_over && length == 0 {
            return Ok(false);
        }
        self.number += 1;
        if length > self.longest {
            self.bad += 1;
            return Err(ReadError::TooLong { line: self.number, limit: self.longest });
        }
        Ok(true)
    }
}

fn parse(text: &[u8], line: u64) -> Result<(u64, &[u8]), ReadError> {
    let text = text.trim_ascii();
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (time, rest) = text.split_at(end);
    let time = std::str::from_utf8(time).ok().and_then(|time| time.parse().ok());
    let (Some(time), Some(b' ' | b'\t')) = (time, rest.first()) else {
        return Err(ReadError::NoTime { line });
    };
    let json = rest.trim_ascii_start();
    match json.first() {
        Some(b'{' | b'[') => Ok((time, json)),
        _ => Err(ReadError::NoMessage { line }),
    }
}

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    /// Lines as `number:time:json`, errors in their own words.
    fn read(bytes: Vec<u8>) -> Vec<String> {
        let mut reader = Reader::new(io::Cursor::new(bytes)).unwrap();
        reader.longest = 60;
        let (mut found, mut bad) = (Vec::new(), 0);
        loop {
            match reader.next_line() {
                Ok(None) => break,
                Ok(Some(line)) => {
                    let json = std::str::from_utf8(line.json).unwrap();
                    found.push(format!("{}:{}:{json}", line.number, line.received_ns));
                }
                Err(error) => {
                    bad += u64::from(!error.is_final());
                    found.push(error.to_string());
                }
            }
        }
        assert_eq!(reader.bad(), bad);
        assert!(reader.next_line().unwrap().is_none(), "the end stays the end");
        found
    }

    const TEXT: &str = "# made by hand\n1 {\"a\":1}\r\n\n  \r\n2\t[2]\n3   {\"c\": 3} \n";
    const LINES: [&str; 3] = ["2:1:{\"a\":1}", "5:2:[2]", "6:3:{\"c\": 3}"];

    #[test]
    fn reads_plain_and_gzipped_files_of_one_member_or_several() {
        assert_eq!(read(TEXT.into()), LINES);
        assert_eq!(read(gzip(TEXT.as_bytes())), LINES);
        let (first, second) = TEXT.as_bytes().split_at(20);
        assert_eq!(read([gzip(first), gzip(second)].concat()), LINES);
        assert!(read(Vec::new()).is_empty());
        assert!(read(gzip(b"")).is_empty());
    }

    #[test]
    fn a_bad_line_is_named_and_the_next_one_read() {
        let long = format!("9 {{\"x\":\"{}\"}}", "x".repeat(60));
        let text = format!("x {{}}\n{{}}\n7\n8 x\n{long}\n99999999999999999999 {{}}\n1 {{}}\n");
        let no_time = |n| format!("line {n} does not begin with a receive time in ns and a space");
        let expected = [
            no_time(1),
            no_time(2),
            no_time(3),
            "line 4 has no JSON object or array after its receive time".to_owned(),
            "line 5 is longer than 60 bytes".to_owned(),
            no_time(6),
            "7:1:{}".to_owned(),
        ];
        assert_eq!(read(text.into()), expected);
    }

    #[test]
    fn a_last_line_cut_short_is_told_from_one_without_a_line_end() {
        assert_eq!(read("1 {}\n2 {\"a\":[1]}".into()), ["1:1:{}", "2:2:{\"a\":[1]}"]);
        for cut in ["2 {\"a\":[1", "2 ", "2", "2 {\"a\":\"x", "12345"] {
            let text = format!("1 {{}}\n{cut}");
            let expected = ["1:1:{}", "the recording is cut off within line 2"];
            assert_eq!(read(text.into()), expected, "{cut}");
        }
        assert_eq!(read("1 {}\n# no end".into()), ["1:1:{}"]);
    }

    #[test]
    fn gzip_cut_short_or_damaged_is_an_error_after_the_last_line() {
        let text: String = (0..2_000).map(|n| format!("{n} {{\"n\":{}}}\n", n * 7_919)).collect();
        let packed = gzip(text.as_bytes());
        let found = read(packed[..packed.len() / 2].to_vec());
        let (error, lines) = found.split_last().unwrap();
        assert!(!lines.is_empty());
        assert!(error.starts_with("cannot read the recording after line "), "{error}");
        let mut damaged = packed.clone();
        let end = damaged.len() - 6;
        damaged[end] ^= 1;
        assert!(read(damaged).last().unwrap().starts_with("cannot read the recording after line"));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Reader::open(Path::new("/nowhere/x.gz")).unwrap_err();
        assert!(error.is_final());
        assert!(error.to_string().starts_with("cannot open the recording /nowhere/x.gz: "));
    }
}
