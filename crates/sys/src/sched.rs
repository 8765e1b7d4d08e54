//! Where and in which class a thread runs.
