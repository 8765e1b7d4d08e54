//! Placeholder while the first commit is written.
