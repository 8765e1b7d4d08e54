//! The exchanges: one folder each.

/// How a venue's changes of a book join up with its snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The snapshot is asked for apart from the stream; the change that it lies within is the first
    /// to be applied (Binance).
    Bridge,
    /// The stream itself begins with a snapshot (OKX).
    InStream,
}
