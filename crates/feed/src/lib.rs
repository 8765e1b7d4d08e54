//! The market-data engine: from the socket to the order book, every stage timed.
//!
//! A message's way, each step a module that knows nothing of the others:
//!
//! ```text
//! socket ─► tls ─► websocket ─► scan ─► sync ─► book
//!   S0 S1    S2       S3         S4      └── S5 ──┘
//! ```
//!
//! [`tls`], [`websocket`], [`scan`], [`book`] and [`sync`] take bytes and values and do no I/O; the
//! [`engine`] owns the sockets and the thread. What is particular to an exchange is one folder of
//! [`venues`].
#![forbid(unsafe_code)]

pub mod book;
#[cfg(feature = "nats")]
pub mod broker;
pub mod commands;
pub mod engine;
pub mod fixed;
pub mod market;
pub mod publish;
pub mod recording;
pub mod scan;
pub mod server;
pub mod stages;
pub mod sync;
pub mod tls;
pub mod venues;
pub mod websocket;
