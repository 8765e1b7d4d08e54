//! The `quietcore-feed` command.
#![forbid(unsafe_code)]

fn main() {}
