//! The flags that every subcommand shares.

use std::ffi::OsStr;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use quietcore_report::{Format, Options};

use crate::{Sink, SinkError};

/// Width of text that is not written to a terminal: fits a page, a mail and a code review.
const PAGE: u16 = 100;

/// Where and how a result is written.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// How to write the result [default: by the name of the file, else text]
    #[arg(
        long,
        value_name = "FORMAT",
        value_parser = PossibleValuesParser::new(Format::ALL.map(Format::name))
            .try_map(|name| name.parse::<Format>()),
    )]
    pub format: Option<Format>,

    /// Write the result to FILE; `-` is stdout
    ///
    /// The place is tried before anything is measured. The file appears whole, at the end: an
    /// interrupted run leaves the old one as it was.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Say nothing on stderr but errors
    #[arg(short, long)]
    pub quiet: bool,

    /// Show more in text: checks that passed, every row of long tables
    #[arg(short, long)]
    pub verbose: bool,
}

impl Output {
    /// The format asked for, or the one that the file's name speaks of, or text.
    pub fn format(&self) -> Format {
        self.format.or_else(|| by_extension(self.file()?)).unwrap_or(Format::Text)
    }

    /// The file to write to; `None` is stdout.
    pub fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| path.as_os_str() != "-")
    }

    /// Makes sure that the result can be written. Call it before measuring.
    pub fn open(&self) -> Result<Sink, SinkError> {
        Sink::open(self.file(), self.format(), self.options())
    }

    /// Tells people something on stderr, unless they asked for silence.
    pub fn say(&self, what: impl fmt::Display) {
        if !self.quiet {
            // A closed stderr is nobody listening.
            let _ = writeln!(std::io::stderr(), "{what}");
        }
    }

    /// How text is laid out: coloured and as wide as the screen on a terminal only.
    fn options(&self) -> Options {
        match self.file() {
            None => self.screen(),
            Some(_) => Options { colour: false, width: PAGE, verbose: self.verbose },
        }
    }

    /// How text on stdout is laid out, whatever becomes of the result.
    pub fn screen(&self) -> Options {
        let terminal = std::io::stdout().is_terminal();
        let screen = terminal_size::terminal_size_of(std::io::stdout()).filter(|_| terminal);
        Options {
            colour: terminal && wants_colour(|name| std::env::var_os(name)),
            width: screen.map_or(PAGE, |(width, _)| width.0.clamp(60, 140)),
            verbose: self.verbose,
        }
    }
}

/// <https://no-color.org>: set and not empty means no colour, whatever the value.
fn wants_colour<V: AsRef<OsStr>>(var: impl Fn(&str) -> Option<V>) -> bool {
    let refused = var("NO_COLOR").is_some_and(|value| !value.as_ref().is_empty());
    let dumb = var("TERM").is_some_and(|value| value.as_ref() == "dumb");
    !refused && !dumb
}

fn by_extension(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "json" => Some(Format::Json),
        "csv" => Some(Format::Csv),
        "html" | "htm" => Some(Format::Html),
        "txt" => Some(Format::Text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        output: Output,
    }

    fn parsed(args: &[&str]) -> Output {
        Cli::try_parse_from([&["quietcore"], args].concat()).map(|cli| cli.output).unwrap()
    }

    #[test]
    fn the_format_follows_the_file_unless_it_is_named() {
        for (args, format) in [
            (&[][..], Format::Text),
            (&["-o", "run.json"], Format::Json),
            (&["-o", "RUN.HTML"], Format::Html),
            (&["-o", "run.csv"], Format::Csv),
            (&["-o", "run.dat"], Format::Text),
            (&["-o", "-"], Format::Text),
            (&["-o", "run.json", "--format", "csv"], Format::Csv),
            (&["--format", "html"], Format::Html),
        ] {
            assert_eq!(parsed(args).format(), format, "{args:?}");
        }
    }

    #[test]
    fn a_dash_is_stdout() {
        assert_eq!(parsed(&["-o", "-"]).file(), None);
        assert_eq!(parsed(&["-o", "./-"]).file(), Some(Path::new("./-")));
    }

    #[test]
    fn an_unknown_format_is_a_usage_error_that_names_the_known_ones() {
        let error = Cli::try_parse_from(["quietcore", "--format", "xml"]).err().unwrap();
        assert_eq!(error.exit_code(), 2);
        for format in Format::ALL {
            assert!(error.to_string().contains(format.name()), "{error}");
        }
    }

    #[test]
    fn colour_is_refused_by_no_color_and_by_a_dumb_terminal() {
        let with = |name: &'static str, value: &'static str| {
            wants_colour(move |asked| (asked == name).then_some(value))
        };
        assert!(with("OTHER", ""));
        assert!(!with("NO_COLOR", "1"));
        assert!(with("NO_COLOR", ""));
        assert!(!with("TERM", "dumb"));
        assert!(with("TERM", "xterm-256color"));
    }

    #[test]
    fn a_file_is_never_coloured() {
        let options = parsed(&["-o", "run.txt"]).options();
        assert!(!options.colour);
        assert_eq!(options.width, PAGE);
    }
}
