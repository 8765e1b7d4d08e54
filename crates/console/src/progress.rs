//! A bar on stderr for whatever takes more than two seconds.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quietcore_measure::Nanos;

use crate::Output;

/// How long something may take before people want to know how far it is.
const PATIENCE: Duration = Duration::from_secs(2);

/// How far a command has come. Hidden without a terminal, with `--quiet`, and for what is quick.
///
/// It draws only when [`set`](Self::set) is called: no thread of its own disturbs a measurement.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown_after: Duration,
}

impl Progress {
    /// For something that takes a known time; [`set`](Self::set) takes nanoseconds.
    pub fn time(output: &Output, what: &str, total: Nanos) -> Self {
        let known = Duration::from(total);
        let show = known > PATIENCE && is_wanted(output);
        let style = "{msg} {wide_bar} {percent:>3} %  {eta} left";
        Self::new(show, what, total.0, style, Duration::ZERO)
    }

    /// For a number of steps of unknown length; shown once two seconds have gone by.
    pub fn steps(output: &Output, what: &str, total: u64) -> Self {
        let style = "{msg} {wide_bar} {pos}/{len}  {eta} left";
        Self::new(is_wanted(output), what, total, style, PATIENCE)
    }

    fn new(show: bool, what: &str, total: u64, style: &str, shown_after: Duration) -> Self {
        let target = if show {
            // A redraw costs tens of microseconds; four a second are enough for a person.
            ProgressDrawTarget::stderr_with_hz(4)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_message(what.to_owned());
        Self { bar, started: Instant::now(), shown_after }
    }

    /// Whether anything can be seen.
    pub fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    /// How far it is, in nanoseconds or steps, whichever it was made for.
    pub fn set(&self, position: u64) {
        if self.started.elapsed() >= self.shown_after {
            self.bar.set_position(position);
        }
    }
}

/// The bar makes room for the result, however the command ends.
impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn is_wanted(output: &Output) -> bool {
    !output.quiet && std::io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_and_quick_things_show_no_bar() {
        let quiet = Output { quiet: true, ..Output::default() };
        assert!(Progress::time(&quiet, "jitter", Nanos::from_secs(60)).is_hidden());
        assert!(Progress::steps(&quiet, "checks", 40).is_hidden());
        assert!(Progress::time(&Output::default(), "probe", Nanos::from_secs(2)).is_hidden());
    }

    #[test]
    fn the_templates_are_valid() {
        for template in [
            "{msg} {wide_bar} {percent:>3} %  {eta} left",
            "{msg} {wide_bar} {pos}/{len}  {eta} left",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
