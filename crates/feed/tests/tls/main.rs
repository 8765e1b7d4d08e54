//! The TLS module against rustls, OpenSSL and records made by hand.
#![forbid(unsafe_code)]

mod control;
mod differential;
mod faults;
mod openssl;
mod peer;
mod trust;
