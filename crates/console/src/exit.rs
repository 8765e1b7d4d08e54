//! The end of every process: one set of exit codes, one line for an error.

use std::process::{ExitCode, Termination};

use crate::SinkError;

/// How a command ended. The numbers are part of the interface, as those of `grep` and `diff` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, and nothing to complain of.
    Clean = 0,
    /// Done, and something was found: a failed check, a breach, a crossed threshold.
    Findings = 1,
    /// Wrong usage, or an operation failed. Also what clap exits with.
    Error = 2,
    /// This host cannot do it: no privilege, no BTF, no PMU.
    NotPossible = 3,
}

impl Exit {
    /// `Findings` if there were any, `Clean` otherwise.
    pub fn findings(any: bool) -> Self {
        if any { Self::Findings } else { Self::Clean }
    }

    /// The code the process ends with.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        self.into()
    }
}

/// What was asked for cannot be had on this host; the text says what is missing and what would help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotPossible(pub String);

impl NotPossible {
    /// From anything that can be said.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Runs a command, prints its error (once, with its causes, on stderr) and returns its exit code.
///
/// A reader that closed the pipe had enough: that ends quietly and clean.
pub fn run(command: impl FnOnce() -> anyhow::Result<Exit>) -> Exit {
    let error = match command() {
        Ok(exit) => return exit,
        Err(error) => error,
    };
    let exit = exit_of(&error);
    if exit != Exit::Clean {
        // Nothing is left to do if stderr is closed, too.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("quietcore: {error:#}\n").as_bytes(),
        );
    }
    exit
}

fn exit_of(error: &anyhow::Error) -> Exit {
    // `downcast_ref` sees through `.context(…)`; the chain holds what a library error wraps.
    let says = |test: fn(&(dyn std::error::Error + 'static)) -> bool| error.chain().any(test);
    if error.downcast_ref::<NotPossible>().is_some() || says(|e| e.is::<NotPossible>()) {
        Exit::NotPossible
    } else if says(|e| matches!(e.downcast_ref(), Some(SinkError::ReaderGone))) {
        Exit::Clean
    } else {
        Exit::Error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let codes = [Exit::Clean, Exit::Findings, Exit::Error, Exit::NotPossible].map(Exit::code);
        assert_eq!(codes, [0, 1, 2, 3]);
    }

    #[test]
    fn a_command_that_ends_well_keeps_its_code() {
        assert_eq!(run(|| Ok(Exit::findings(true))), Exit::Findings);
        assert_eq!(run(|| Ok(Exit::findings(false))), Exit::Clean);
    }

    #[test]
    fn what_the_host_lacks_is_not_an_error_even_under_context() {
        let bare = run(|| Err(NotPossible::new("no BTF").into()));
        assert_eq!(bare, Exit::NotPossible);
        let error = Err::<Exit, _>(NotPossible::new("no BTF")).context("loading the program");
        assert_eq!(run(|| error), Exit::NotPossible);
    }

    #[test]
    fn other_errors_are_operation_errors() {
        assert_eq!(run(|| anyhow::bail!("disk full")), Exit::Error);
    }

    #[test]
    fn a_closed_reader_ends_clean_but_a_broken_socket_does_not() {
        assert_eq!(exit_of(&SinkError::ReaderGone.into()), Exit::Clean);
        let socket = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(exit_of(&socket.into()), Exit::Error);
    }
}
