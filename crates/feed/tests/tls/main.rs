//! The TLS module against rustls, OpenSSL and records made by hand.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may")]

mod control;
mod differential;
mod faults;
mod openssl;
mod peer;
mod trust;
