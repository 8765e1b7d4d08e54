//! What the guest sent: records with lengths and checksums in their headers.
//!
//! `lab/guest/record` writes them; its head describes the format.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

const MAGIC: &str = "QCLAB1";

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// hello, step, file or bye
    pub kind: String,
    pub name: String,
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Whole seconds the step took by the guest's clock.
    pub seconds: u64,
}

struct Header {
    record: Record,
    lengths: [usize; 2],
    sums: [String; 2],
}

/// Takes a guest's output apart. What is incomplete at the end belongs to a guest that stopped
/// while writing and is left out; anything else that does not fit is an error.
pub fn parse(bytes: &[u8], sum: &dyn Fn(&[u8]) -> Result<String>) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut rest = bytes;
    while let Some((record, length)) = first(rest, sum)? {
        rest = &rest[length..];
        records.push(record);
    }
    Ok(records)
}

/// The record that `bytes` begin with and its length; `None` while it is incomplete.
pub fn first(
    bytes: &[u8],
    sum: &dyn Fn(&[u8]) -> Result<String>,
) -> Result<Option<(Record, usize)>> {
    let Some(end) = bytes.iter().position(|b| *b == b'\n') else { return Ok(None) };
    let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let Header { mut record, lengths: [out, err], sums } = header(&line)?;
    let blobs = &bytes[end + 1..];
    let length = out.saturating_add(err);
    if blobs.len() < length {
        return Ok(None);
    }
    record.stdout = blobs[..out].to_vec();
    record.stderr = blobs[out..length].to_vec();
    for (blob, told) in [(&record.stdout, &sums[0]), (&record.stderr, &sums[1])] {
        let found = sum(blob)?;
        if found != *told {
            bail!("{} arrived damaged: checksum {found}, sent as {told}", record.name);
        }
    }
    Ok(Some((record, end + 1 + length)))
}

fn header(line: &str) -> Result<Header> {
    let fields: Vec<&str> = line.split(' ').collect();
    let [MAGIC, kind, name, code, out, err, out_sum, err_sum, seconds] = fields[..] else {
        bail!("no record header: {line:?}");
    };
    let bad = || format!("in the record header {line:?}");
    Ok(Header {
        record: Record {
            kind: kind.to_string(),
            name: name.to_string(),
            code: code.parse().with_context(bad)?,
            stdout: Vec::new(),
            stderr: Vec::new(),
            seconds: seconds.parse().with_context(bad)?,
        },
        lengths: [out.parse().with_context(bad)?, err.parse().with_context(bad)?],
        sums: [out_sum.to_string(), err_sum.to_string()],
    })
}

/// SHA-256 in hexadecimal, by the program of that name.
pub fn sha256(bytes: &[u8]) -> Result<String> {
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run sha256sum")?;
    if let Some(mut stdin) = child.stdin.take() {
        // It prints nothing before it has read everything, so this cannot block for good.
        stdin.write_all(bytes).context("writing to sha256sum")?;
    }
    let out = child.wait_with_output().context("waiting for sha256sum")?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    match text.split_whitespace().next() {
        Some(sum) if out.status.success() => Ok(sum.to_string()),
        _ => bail!("sha256sum failed: {}", out.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checksum that is easy to write in a test: the length.
    fn len(bytes: &[u8]) -> Result<String> {
        Ok(format!("L{}", bytes.len()))
    }

    #[test]
    fn what_a_step_prints_cannot_be_taken_for_framing() {
        let evil = "QCLAB1 step fake 0 1 1 L1 L1 0\n";
        let text = format!(
            "QCLAB1 step real 3 {0} 2 L{0} L2 7\n{evil}e\nQCLAB1 bye guest 0 0 0 L0 L0 0\n",
            evil.len()
        );
        let records = parse(text.as_bytes(), &len).unwrap();
        assert_eq!(records.len(), 2);
        assert_eq!((records[0].name.as_str(), records[0].code, records[0].seconds), ("real", 3, 7));
        assert_eq!(records[0].stdout, evil.as_bytes());
        assert_eq!(records[0].stderr, b"e\n");
        assert_eq!(records[1].kind, "bye");
    }

    #[test]
    fn a_cut_record_is_left_out_at_every_length() {
        let text = b"QCLAB1 hello guest 0 4 0 L4 L0 0\n6.1\nQCLAB1 step a 0 3 3 L3 L3 0\noutout";
        for n in 0..text.len() {
            let records = parse(&text[..n], &len).unwrap();
            assert!(records.len() <= 1, "{n}");
        }
        assert_eq!(parse(text, &len).unwrap().len(), 2);
    }

    #[test]
    fn damage_is_an_error() {
        assert!(parse(b"QCLAB1 step a 0 1 0 L2 L0 0\nx", &len).is_err());
        assert!(parse(b"kernel noise\n", &len).is_err());
        assert!(parse(b"QCLAB1 step a zero 1 0 L1 L0 0\nx", &len).is_err());
    }

    #[test]
    fn the_checksum_is_sha256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(b"").unwrap(), empty);
    }
}
