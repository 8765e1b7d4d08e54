//! A lease as others see it: from its journal, without taking it.

use std::fs;
use std::io;
use std::path::Path;

use super::journal::{self, Entry, Term};
use super::{LeaseError, boot, file_of, live, machine};
use crate::host::Host;

/// A lease as it stands in its journal, without taking it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What it is about, as its holder has put it.
    pub about: serde_json::Value,
    /// Seconds since 1970 when it began.
    pub at: u64,
    /// Until when it holds.
    pub term: Term,
    /// The places that are changed.
    pub entries: Vec<Entry>,
    /// Lines of the journal that could not be read.
    pub damaged: Vec<usize>,
    /// Whether it was written on another machine.
    pub other_machine: bool,
}

impl Standing {
    /// What a journal says, whatever is in it.
    pub fn parse(bytes: &[u8], host: &Host) -> Self {
        let contents = journal::parse(bytes);
        Self {
            entries: live(&contents.entries, &boot(host)).cloned().collect(),
            other_machine: !contents.machine.is_empty() && contents.machine != machine(host),
            about: contents.about,
            at: contents.at,
            term: contents.term,
            damaged: contents.damaged,
        }
    }
}

/// Looks at a lease; `None` if there is none. Changes nothing and waits for nobody.
pub fn look(folder: &Path, name: &str, host: &Host) -> Result<Option<Standing>, LeaseError> {
    let path = file_of(folder, name);
    match fs::read(&path) {
        Ok(bytes) => Ok(Some(Standing::parse(&bytes, host))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LeaseError::State { path, source }),
    }
}

/// The names of all leases of a folder.
pub fn names(folder: &Path) -> Result<Vec<String>, LeaseError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(LeaseError::State { path: folder.to_owned(), source }),
    };
    let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> =
        files.filter_map(|file| file.strip_suffix(".lease").map(str::to_owned)).collect();
    names.sort();
    Ok(names)
}
