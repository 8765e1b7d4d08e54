//! A venue to connect to: recorded or generated markets over real TLS and WebSocket.

mod book;
mod certificate;
mod decimal;
mod fault;
mod generator;
mod source;
mod stream;
mod tape;

pub use book::{Digits, TrueBook};
pub use certificate::{CertificateError, Flaw};
pub use fault::{Answer, Fault, Pattern, Refusal, Request, Rule, Script, ScriptError, When};
pub use generator::{Contract, Generator, Settings};
pub use source::{Age, Event, Listing, Source};
pub use stream::{Address, Channel, Route, Stream};
pub use tape::{Lines, Tape};
