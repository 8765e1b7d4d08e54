//! What the other end did that RFC 6455 forbids.

use thiserror::Error;

/// A violation of the protocol, after which the connection must be failed (RFC 6455, 7.1.7): send
/// a close frame with [`ProtocolError::close_code`] and hang up.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ProtocolError {
    /// RSV1 to RSV3, which only extensions use (5.2).
    #[error("a frame uses reserved bits, but no extension was agreed on (compressed?)")]
    ReservedBits,
    /// An opcode that has no meaning (5.2).
    #[error("a frame has the reserved opcode {0:#x}")]
    ReservedOpcode(u8),
    /// A server masks nothing (5.1).
    #[error("a frame from a server is masked")]
    Masked,
    /// A client masks everything (5.1).
    #[error("a frame from a client is not masked")]
    Unmasked,
    /// A control frame is never fragmented (5.5).
    #[error("a control frame is fragmented")]
    FragmentedControl,
    /// A control frame's payload is at most 125 bytes (5.5).
    #[error("a control frame is longer than 125 bytes")]
    LongControl,
    /// The length is written in more bytes than it needs (5.2).
    #[error("a frame's length is not written in the fewest bytes")]
    LengthNotMinimal,
    /// The highest bit of a length of 64 bits is not 0 (5.2).
    #[error("a frame's length has its highest bit set")]
    LengthTopBit,
    /// A continuation of no message (5.4).
    #[error("a continuation frame, but no message was begun")]
    NothingToContinue,
    /// A new message within a fragmented one (5.4).
    #[error("a new message before the fragmented one has ended")]
    MessageNotEnded,
    /// A close frame's payload is nothing, or a code of two bytes and a reason (5.5.1).
    #[error("a close frame's payload is one byte")]
    CloseOfOneByte,
    /// A code that no frame may carry (7.4).
    #[error("a close frame has the code {0}, which no frame may carry")]
    CloseCode(u16),
    /// A close frame's reason is UTF-8 (5.5.1).
    #[error("a close frame's reason is not UTF-8")]
    ReasonNotUtf8,
    /// A text message is UTF-8 (5.6, 8.1).
    #[error("a text message is not UTF-8")]
    TextNotUtf8,
    /// More than our own limit.
    #[error("a message of at least {length} bytes; the limit is {limit}")]
    TooLong {
        /// What it would be with the frame that was announced last, in bytes.
        length: u64,
        /// [`Limits::message`](super::Limits::message).
        limit: usize,
    },
}

impl ProtocolError {
    /// The code of the close frame to answer with (RFC 6455, 7.4.1).
    pub fn close_code(self) -> u16 {
        match self {
            Self::ReasonNotUtf8 | Self::TextNotUtf8 => 1007,
            Self::TooLong { .. } => 1009,
            _ => 1002,
        }
    }
}
