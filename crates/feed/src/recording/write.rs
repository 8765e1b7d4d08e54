//! Writing what comes in, in the form that is read.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

/// A recording that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the recording {path}: {source}")]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

#[derive(Debug)]
enum Output {
    Plain(BufWriter<File>),
    Packed(Box<GzEncoder<BufWriter<File>>>),
}

/// Writes a recording. [`Writer::finish`] it, or its end may be missing without a word.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    output: Output,
    line: Vec<u8>,
}

impl Writer {
    /// A new file, gzipped if its name ends in `.gz`.
    ///
    /// # Errors
    /// Those of creating it.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        let file = File::create(path)
            .map_err(|source| WriteError { path: path.to_owned(), source })
            .map(|file| BufWriter::with_capacity(1 << 18, file))?;
        let is_packed = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gz"));
        let output = if is_packed {
            Output::Packed(Box::new(GzEncoder::new(file, Compression::fast())))
        } else {
            Output::Plain(file)
        };
        Ok(Self { path: path.to_owned(), output, line: Vec::new() })
    }

    /// Adds a message. Line ends in it, which JSON allows between its tokens only, become spaces.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn write(&mut self, received_ns: u64, json: &[u8]) -> Result<(), WriteError> {
        self.line.clear();
        let flat = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
        // Into memory first: a line is written whole or not at all.
        let put = write!(self.line, "{received_ns} ").and_then(|()| {
            self.line.extend(json.iter().map(flat));
            self.line.push(b'\n');
            match &mut self.output {
                Output::Plain(file) => file.write_all(&self.line),
                Output::Packed(packer) => packer.write_all(&self.line),
            }
        });
        put.map_err(|source| WriteError { path: self.path.clone(), source })
    }

    /// Everything is in the file after this.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn finish(self) -> Result<(), WriteError> {
        let Self { path, output, .. } = self;
        let end = |mut file: BufWriter<File>| file.flush();
        let done = match output {
            Output::Plain(file) => end(file),
            Output::Packed(packer) => packer.finish().and_then(end),
        };
        done.map_err(|source| WriteError { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reader;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_is_written_is_read_again(
            messages in proptest::collection::vec((any::<u64>(), "[ -~\n\r]{0,40}"), 0..20),
            packed in any::<bool>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(if packed { "x.gz" } else { "x.log" });
            let mut writer = Writer::create(&path).unwrap();
            for (time, text) in &messages {
                writer.write(*time, format!("[{text}]").as_bytes()).unwrap();
            }
            writer.finish().unwrap();
            let is_gzip = std::fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]);
            prop_assert_eq!(is_gzip, packed);
            let mut reader = Reader::open(&path).unwrap();
            for (time, text) in &messages {
                let line = reader.next_line().unwrap().unwrap();
                let flat = format!("[{text}]").replace(['\n', '\r'], " ");
                prop_assert_eq!((line.received_ns, line.json), (*time, flat.as_bytes()));
            }
            prop_assert!(reader.next_line().unwrap().is_none());
        }
    }

    #[test]
    fn a_file_that_cannot_be_made_is_named() {
        let error = Writer::create(Path::new("/nowhere/x.gz")).unwrap_err();
        assert!(error.to_string().starts_with("cannot write the recording /nowhere/x.gz: "));
    }
}
