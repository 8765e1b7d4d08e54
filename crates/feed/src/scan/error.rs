//! Why a message could not be read.

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The message ends before the value that began does.
    #[error("the message is cut off")]
    Truncated,
    /// Something else stands where this must.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A control character in a string, or an escape that JSON does not have.
    #[error("a string that JSON does not allow")]
    BadString,
    /// A string that is not UTF-8.
    #[error("a string that is not UTF-8")]
    NotUtf8,
    /// A string that should be a price or a quantity and is not a decimal number, or one that is
    /// finer than 1e-8 or too large.
    #[error("not a decimal number that 64 bits hold in units of 1e-8")]
    NotADecimal,
    /// A price or a quantity below nothing.
    #[error("a price or a quantity is negative")]
    Negative,
    /// A whole number of more than 64 bits.
    #[error("a number is larger than 64 bits")]
    TooLarge,
    /// Objects and arrays within each other, more of them than anything here nests.
    #[error("nested too deep")]
    TooDeep,
    /// Bytes behind the message.
    #[error("something follows the message")]
    Trailing,
    /// A message of a known kind lacks a field that it must have.
    #[error("the message has no {0:?}")]
    Missing(&'static str),
    /// A message says twice what it is, and not the same.
    #[error("the message contradicts itself")]
    Contradiction,
}

/// Why a message could not be read, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} (byte {at})")]
pub struct ScanError {
    /// What is wrong.
    pub fault: Fault,
    /// Where: bytes from the message's start, from 0.
    pub at: usize,
}
