//! Where the socket's bytes stand until their records are whole, and are decrypted.

use std::fmt;
use std::ops::Range;

/// Bytes kept free for the next read.
pub(super) const SPACE: usize = 64 * 1024;

/// Four reads' worth: a reader that takes every whole record keeps less than one record back, so
/// that at most a twelfth of the bytes is ever moved.
const CAPACITY: usize = 4 * SPACE;

/// A buffer that is filled at its end and read at its front.
///
/// An empty one starts over at its first byte, which is then still in the cache; else what is left
/// over moves to the front when the end is near. No more bytes are moved than were read since they
/// were moved last. It grows only under a caller that reads from the socket without taking records.
pub(super) struct ReceiveBuffer {
    bytes: Vec<u8>,
    unread: Range<usize>,
}

impl ReceiveBuffer {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; CAPACITY], unread: 0..0 }
    }

    /// Where the next bytes go: at least [`SPACE`] of them.
    pub(super) fn space(&mut self) -> &mut [u8] {
        if self.unread.is_empty() {
            self.unread = 0..0;
        }
        if self.bytes.len() - self.unread.end < SPACE {
            self.make_room();
        }
        &mut self.bytes[self.unread.end..]
    }

    #[cold]
    fn make_room(&mut self) {
        let length = self.unread.len();
        if self.unread.start >= length {
            self.bytes.copy_within(self.unread.clone(), 0);
            self.unread = 0..length;
        }
        if self.bytes.len() - self.unread.end < SPACE {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
    }

    /// `count` bytes were put where [`Self::space`] said; more than there was room for are none.
    pub(super) fn filled(&mut self, count: usize) {
        self.unread.end = (self.unread.end + count).min(self.bytes.len());
    }

    /// What has been filled and not consumed.
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.unread.clone()]
    }

    pub(super) fn unread_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.unread.clone()]
    }

    /// The first `count` unread bytes are done with. They stay where they are until the next
    /// [`Self::space`]; the answer says where.
    pub(super) fn consume(&mut self, count: usize) -> Range<usize> {
        let start = self.unread.start;
        self.unread.start = (start + count).min(self.unread.end);
        start..self.unread.start
    }

    /// What stands at a place that [`Self::consume`] has told.
    pub(super) fn at(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }
}

impl fmt::Debug for ReceiveBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReceiveBuffer({} bytes unread)", self.unread.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Bytes come out as they went in, whatever the sizes of reads and takes.
        #[test]
        fn bytes_keep_their_order(steps in prop::collection::vec((0..70_000usize, 0..90_000usize), 1..30)) {
            let (mut buffer, mut written, mut read) = (ReceiveBuffer::new(), 0u64, 0u64);
            for (fill, take) in steps {
                let space = buffer.space();
                assert!(space.len() >= SPACE);
                let fill = fill.min(space.len());
                for byte in &mut space[..fill] {
                    *byte = (written % 251) as u8;
                    written += 1;
                }
                buffer.filled(fill);
                let take = take.min(buffer.unread().len());
                let range = buffer.consume(take);
                for byte in buffer.at(range) {
                    assert_eq!(*byte, (read % 251) as u8);
                    read += 1;
                }
                assert_eq!(buffer.unread().len() as u64, written - read);
            }
        }
    }

    #[test]
    fn a_reader_that_keeps_less_than_a_record_back_never_makes_it_grow() {
        let mut buffer = ReceiveBuffer::new();
        for size in (1..2_000).map(|n| n * 7_919 % SPACE) {
            buffer.space();
            buffer.filled(size);
            let unread = buffer.unread().len();
            buffer.consume(unread.saturating_sub(16_645));
        }
        assert_eq!(buffer.bytes.len(), CAPACITY);
    }

    #[test]
    fn more_than_there_was_room_for_is_not_filled() {
        let mut buffer = ReceiveBuffer::new();
        buffer.space();
        buffer.filled(usize::MAX / 2);
        assert_eq!(buffer.unread().len(), CAPACITY);
        assert!(buffer.space().len() >= SPACE, "a reader that takes nothing gets more room");
    }
}
