//! The exchanges: one folder each.
