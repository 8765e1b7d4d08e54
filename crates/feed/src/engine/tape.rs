//! Hands raw messages to a thread that writes them, so that the hot one does not wait for a disk.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use quietcore_sys::clock::KernelClock;

use crate::recording::{WriteError, Writer};

/// Messages are handed over in blocks of about this size, in bytes.
const BLOCK: usize = 1 << 20;

/// The hot thread's end. A message costs a copy of it.
#[derive(Debug)]
pub(super) struct Tape {
    block: Vec<u8>,
    full: Sender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    writer: JoinHandle<Result<u64, WriteError>>,
}

impl Tape {
    /// Writes every message with the time at which it came.
    pub fn start(mut to: Writer) -> io::Result<Self> {
        let room = || Vec::with_capacity(BLOCK + BLOCK / 4);
        let (full, blocks) = channel::<Vec<u8>>();
        let (give_back, empty) = channel();
        (0..8).for_each(|_| drop(give_back.send(room())));
        let writer = Builder::new().name("feed-capture".to_owned()).spawn(move || {
            let mut messages = 0;
            for mut block in blocks {
                let mut rest = block.as_slice();
                while let Some((ns, text, after)) = message(rest) {
                    to.write(ns, text)?;
                    messages += 1;
                    rest = after;
                }
                block.clear();
                // Once the hot thread is gone nobody wants it back.
                let _ = give_back.send(block);
            }
            to.finish().map(|()| messages)
        })?;
        Ok(Self { block: room(), full, empty, writer })
    }

    /// Takes a message.
    #[inline]
    pub fn write(&mut self, stamp_ns: Option<u64>, text: &[u8]) {
        let ns = stamp_ns.unwrap_or_else(|| KernelClock::Realtime.now());
        self.block.extend_from_slice(&ns.to_le_bytes());
        self.block.extend_from_slice(&(text.len() as u64).to_le_bytes());
        self.block.extend_from_slice(text);
        if self.block.len() >= BLOCK {
            self.hand_over();
        }
    }

    /// Hands over what there is.
    pub fn hand_over(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let next = self.empty.try_recv().unwrap_or_default();
        // A writer that has failed is found out at the end.
        let _ = self.full.send(std::mem::replace(&mut self.block, next));
    }

    /// Waits until all is written: how many messages.
    ///
    /// # Errors
    /// What writing them failed with.
    pub fn finish(mut self) -> io::Result<u64> {
        self.hand_over();
        drop(self.full);
        match self.writer.join() {
            Ok(written) => written.map_err(io::Error::other),
            Err(_) => Err(io::Error::other("the writing thread died")),
        }
    }
}

/// The first message of a block, and what follows it.
fn message(block: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (ns, rest) = block.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
    Some((u64::from_le_bytes(*ns), text, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Reader;
    use std::path::Path;

    #[test]
    fn every_message_arrives_once_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("capture.gz");
        let mut tape = Tape::start(Writer::create(&path).unwrap()).unwrap();
        let text = |n: u64| format!("[{}]", "1".repeat((n * 37 % 5_000) as usize + 1));
        (0..3_000).for_each(|n| tape.write(Some(n), text(n).as_bytes()));
        assert_eq!(tape.finish().unwrap(), 3_000);
        let mut reader = Reader::open(&path).unwrap();
        for n in 0..3_000 {
            let line = reader.next_line().unwrap().unwrap();
            assert!(line.received_ns == n && line.json == text(n).as_bytes(), "{n}");
        }
        assert!(reader.next_line().unwrap().is_none());
    }

    #[test]
    fn a_disk_that_is_full_is_told_at_the_end() {
        let mut tape = Tape::start(Writer::create(Path::new("/dev/full")).unwrap()).unwrap();
        tape.write(None, b"{}");
        assert!(tape.finish().unwrap_err().to_string().contains("/dev/full"));
    }
}
