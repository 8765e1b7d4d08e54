//! The exchanges: one folder each.

pub mod binance_usdm;
mod instruments;
pub mod okx;
mod request;

use std::fmt;
use std::time::Duration;

pub use instruments::{Instrument, find_instrument};
pub use request::{
    Connection, Endpoint, InstrumentsRequest, Keepalive, SnapshotRequest, Speed, VenueError, Wanted,
};

use crate::market::{Levels, Message};
use crate::scan::ScanError;

/// Every venue.
pub const ALL: &[&dyn Venue] = &[&binance_usdm::BinanceUsdm, &okx::Okx];

/// How a book is brought to a state that is proven, and kept in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The snapshot comes over REST and must be bridged. Changes are kept until it is there; those
    /// with `last < snapshot.last` are dropped; the first one applied must have
    /// `first <= snapshot.last <= last`; every later one must have `previous` equal to the `last`
    /// before. Anything else: a new snapshot.
    Bridge,
    /// The snapshot is the stream's first message. Every later one must have `previous` equal to
    /// the `last` before. `last == previous` without levels says that the venue lives and nothing
    /// changed; `last < previous` that the venue counts anew from there. Anything else: subscribe
    /// again.
    InStream,
}

/// An exchange: what it says, and how it is asked.
pub trait Venue: fmt::Debug + Sync {
    /// As commands name it: lower case, `-` between words.
    fn name(&self) -> &'static str;

    /// As people name it.
    fn title(&self) -> &'static str;

    /// Where its streams are, by default.
    fn stream_host(&self) -> Endpoint;

    /// Where its REST requests go, by default.
    fn rest_host(&self) -> Endpoint;

    /// How its books are kept.
    fn rule(&self) -> Rule;

    /// How many levels of each side its snapshots hold at most: beyond them a book is known only
    /// where it has changed since.
    fn snapshot_levels(&self) -> usize;

    /// Reads a message: levels into `levels` (which are emptied first), the rest into what is
    /// returned. Allocates nothing once `levels` have room.
    ///
    /// # Errors
    /// What is not JSON, and a message of a known kind that lacks a field or has another type
    /// there. `levels` then hold nothing of use.
    fn scan<'a>(&self, text: &'a [u8], levels: &mut Levels) -> Result<Message<'a>, ScanError>;

    /// What to connect to, and what to send there, to get what is wanted of these instruments.
    ///
    /// # Errors
    /// An instrument whose name cannot be one, and what the venue does not offer.
    fn connections(&self, symbols: &[&str], wanted: Wanted) -> Result<Vec<Connection>, VenueError>;

    /// How to ask for an instrument's whole book. `None` where it comes by itself.
    fn snapshot(&self, symbol: &str) -> Option<SnapshotRequest>;

    /// What to say to a connection on which nothing is sent otherwise. `None`: answering the
    /// venue's pings is enough.
    fn keepalive(&self) -> Option<Keepalive>;

    /// After how long the venue ends a connection that is in order. `None`: it does not say.
    fn longest_connection(&self) -> Option<Duration>;

    /// How to ask for the instruments among which these would be.
    fn instruments(&self, symbols: &[&str]) -> Vec<InstrumentsRequest>;

    /// Reads the answer to one of [`Venue::instruments`].
    ///
    /// # Errors
    /// An answer that is not a list of instruments.
    fn read_instruments(&self, answer: &[u8]) -> Result<Vec<Instrument>, VenueError>;
}

/// The venue of this name.
///
/// # Errors
/// There is none: the error names them all.
pub fn find(name: &str) -> Result<&'static dyn Venue, VenueError> {
    let found = ALL.iter().copied().find(|venue| venue.name() == name);
    found.ok_or_else(|| {
        let all: Vec<_> = ALL.iter().map(|venue| venue.name()).collect();
        VenueError::NoVenue { name: name.to_owned(), all: all.join(", ") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_is_a_venue_in_the_list() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/venues");
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut folders: Vec<_> = entries
            .filter(|path| path.is_dir())
            .map(|path| path.file_name().unwrap().to_str().unwrap().replace('_', "-"))
            .collect();
        folders.sort();
        let mut names: Vec<_> = ALL.iter().map(|venue| venue.name()).collect();
        names.sort();
        assert_eq!(names, folders);
    }

    #[test]
    fn a_venue_is_found_by_name_or_the_names_are_listed() {
        for venue in ALL {
            assert_eq!(find(venue.name()).unwrap().title(), venue.title());
        }
        let error = find("binance").unwrap_err().to_string();
        assert_eq!(error, "there is no venue \"binance\"; there are binance-usdm, okx");
    }
}
