//! A [`Run`] in, bytes out. Nothing here measures, reads a host or knows a subcommand: whatever
//! is in the run can be shown in every format, today or from a file next year.
#![forbid(unsafe_code)]

mod csv;
mod curve;
pub mod flame;
mod html;
mod json;
mod perfetto;
mod pprof;
mod spikes;
mod text;
mod words;

use std::fmt;
use std::str::FromStr;

use quietcore_measure::Run;

pub use json::{ReadError, parse, schema};
pub use perfetto::perfetto;
pub use pprof::pprof;
pub use spikes::line as spike_line;

/// A way to show a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    #[default]
    Text,
    /// The run itself; every other format can be made from it again.
    Json,
    /// One block per section, for spreadsheets and scripts.
    Csv,
    /// One file that needs no network.
    Html,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Text, Self::Json, Self::Csv, Self::Html];

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Html => "html",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format: choose text, json, csv or html")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

/// How text is laid out; the other formats always hold everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether to use ANSI colours. Nothing is told by colour alone.
    pub colour: bool,
    /// Columns to fill.
    pub width: u16,
    /// Whether to list what passed, each check that could not be decided by itself, all evidence
    /// and every row of long tables.
    pub verbose: bool,
}

/// A plain page: no colour, 100 columns, the passed checks counted only.
impl Default for Options {
    fn default() -> Self {
        Self { colour: false, width: 100, verbose: false }
    }
}

/// Why a run cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The run cannot be written as JSON.
    #[error("the run cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// Shows a run in a format. The result ends with a newline.
pub fn render(run: &Run, format: Format, options: &Options) -> Result<String, RenderError> {
    match format {
        Format::Text => Ok(text::render(run, options)),
        Format::Json => json::render(run),
        Format::Csv => Ok(csv::render(run)),
        Format::Html => Ok(html::render(run)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_names() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let error = "xml".parse::<Format>().unwrap_err().to_string();
        for format in Format::ALL {
            assert!(error.contains(format.name()), "{error}");
        }
    }
}
