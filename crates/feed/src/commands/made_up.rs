//! A market made up and served in this process, for commands that need no other.

use std::fs;
use std::path::PathBuf;
use std::process;

use anyhow::Context;

use crate::engine::{Address, Config};
use crate::server::{Config as VenueConfig, Generator, Running, Settings, Source, Stats, Venue};
use crate::tls::Roots;

/// A venue that runs, and the folder of its certificate.
#[derive(Debug)]
pub(super) struct MadeUp {
    venue: Running,
    roots: PathBuf,
    // Dropped last: it holds the certificate.
    _folder: Folder,
}

impl MadeUp {
    /// Serves these instruments on a free port of this host.
    pub fn start(symbols: &[String], config: VenueConfig) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let settings = Settings { symbols: symbols.to_vec(), ..Settings::default() };
        let market = Source::Generated(Box::new(Generator::new(settings)));
        let certificates = Some(folder.0.clone());
        let venue = Venue::start(market, VenueConfig { certificates, ..config })?;
        let roots = venue.roots_path().context("the market has no certificate")?.to_owned();
        Ok(Self { venue, roots, _folder: folder })
    }

    /// Has an engine follow it.
    pub fn followed(&self, config: Config) -> Config {
        let address = self.venue.address();
        let at = Address { host: address.ip().to_string(), port: address.port() };
        Config { at: Some(at), roots: Roots::File(self.roots.clone()), ..config }
    }

    /// Ends it: what it has done.
    pub fn stop(self) -> Stats {
        self.venue.stop()
    }
}

/// A folder that goes away with its content.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("quietcore-feed-{}", process::id()));
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A certificate that nobody will need again.
        let _ = fs::remove_dir_all(&self.0);
    }
}
