//! A venue to connect to: recorded or generated markets over real TLS, WebSocket and REST, with
//! whatever may go wrong.
//!
//! ```text
//! Generator | Tape ─► clock ─► hub ─► a queue per client ─► faults ─► WebSocket ─► TLS ─► socket
//!         └─────────────────── REST: the true book ───────────────────────────────┘
//! ```
//!
//! [`Venue::start`] takes a [`Source`] and a [`Config`]; the [`Running`] venue says where it listens
//! and whom to trust. One thread is the market's clock, one takes clients, and each client has its
//! own. The other side of the engine's protocols is made of well-kept libraries (rustls,
//! tungstenite, rcgen), not of the engine's own code.

mod book;
mod certificate;
mod clock;
mod control;
mod decimal;
mod fault;
mod generator;
mod http;
mod hub;
mod okx;
mod rest;
mod session;
mod socket;
mod source;
mod stream;
mod tape;
mod venue;
mod wake;
mod wire;

pub use book::{Digits, TrueBook};
pub use certificate::{CertificateError, Flaw};
pub use clock::{Begin, Pace};
pub use control::{Command, read as read_command};
pub use fault::{Answer, Fault, Pattern, Refusal, Request, Rule, Script, ScriptError, When};
pub use generator::{Contract, Generator, Settings};
pub use http::Head;
pub use okx::{OkxCommand, read as read_okx_command};
pub use source::{Age, Event, Listing, Source};
pub use stream::{Address, Channel, Route, Stream};
pub use tape::{Lines, Tape};
pub use venue::{Config, Running, Stats, Venue, VenueError};
pub use wire::{Cutting, Pieces, PiecesError};
