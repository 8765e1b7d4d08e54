//! Spikes as they happen, on stdout.

use std::io::IsTerminal;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use clap::ValueEnum;
use quietcore_console::{Output, print};
use quietcore_measure::Spike;
use quietcore_report::{Format, spike_line};
use quietcore_sys::clock::KernelClock;

use super::metrics::{Level, Severity};

/// Lines of text in a second: more could not be read.
const LINES: u32 = 20;

/// How spikes are shown as they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Live {
    /// A line each, at most 20 a second; the others are counted
    Text,
    /// A JSON object each, every one of them
    Jsonl,
    /// Not at all
    None,
}

impl Live {
    /// What was asked for, unless the result needs the same stdout.
    pub fn choose(asked: Option<Self>, output: &Output) -> anyhow::Result<Self> {
        let takes_stdout = output.file().is_none();
        let text = output.format() == Format::Text;
        match asked {
            Some(Self::Text) if takes_stdout && !text => {
                bail!("--live text and --format {} both need stdout: add -o FILE", output.format())
            }
            Some(Self::Jsonl) if takes_stdout && output.format.is_some() => {
                bail!("--live jsonl and --format {} both need stdout: add -o FILE", output.format())
            }
            Some(live) => Ok(live),
            None if std::io::stdout().is_terminal() && (text || !takes_stdout) => Ok(Self::Text),
            None => Ok(Self::None),
        }
    }
}

/// Spikes on their way to stdout.
#[derive(Debug)]
pub(super) struct Stream {
    live: Live,
    severity: Severity,
    colour: bool,
    width: usize,
    /// When the second of `shown` and `hidden` began.
    since: Instant,
    shown: u32,
    hidden: u64,
    any: bool,
}

impl Stream {
    pub fn new(live: Live, severity: Severity, output: &Output) -> Self {
        let screen = output.screen();
        Self {
            live,
            severity,
            colour: screen.colour,
            width: usize::from(screen.width),
            since: Instant::now(),
            shown: 0,
            hidden: 0,
            any: false,
        }
    }

    /// Shows one spike, or counts it.
    pub fn show(&mut self, spike: &Spike) -> anyhow::Result<()> {
        match self.live {
            Live::None => return Ok(()),
            Live::Jsonl => print(&format!("{}\n", serde_json::to_string(spike)?))?,
            Live::Text if self.shown >= LINES => self.hidden += 1,
            Live::Text => {
                if !self.any {
                    print("time (UTC)      waited  thread: what it was made of\n")?;
                }
                self.shown += 1;
                print(&self.line(spike))?;
            }
        }
        self.any = true;
        Ok(())
    }

    fn line(&self, spike: &Spike) -> String {
        let line = format!("{} {}", time_of_day(spike), spike_line(spike));
        let cut: String = match line.chars().count() > self.width {
            true => line.chars().take(self.width.saturating_sub(1)).chain(['…']).collect(),
            false => line,
        };
        let code = match self.severity.of(spike.len_ns) {
            Level::Critical if self.colour => "31",
            Level::Warning if self.colour => "33",
            _ => return format!("{cut}\n"),
        };
        format!("\x1b[{code}m{cut}\x1b[0m\n")
    }

    /// After every drain: once a second, says what was not shown.
    pub fn catch_up(&mut self) -> anyhow::Result<()> {
        if self.since.elapsed() >= Duration::from_secs(1) {
            self.say_hidden()?;
            (self.since, self.shown) = (Instant::now(), 0);
        }
        Ok(())
    }

    fn say_hidden(&mut self) -> anyhow::Result<()> {
        if self.hidden > 0 {
            print(&format!("… and {} more\n", self.hidden))?;
            self.hidden = 0;
        }
        Ok(())
    }

    /// Before the result is shown.
    pub fn end(mut self) -> anyhow::Result<()> {
        self.say_hidden()?;
        if self.any && self.live == Live::Text {
            print("\n")?;
        }
        Ok(())
    }
}

/// When a spike ended, as the reports count the time of day.
fn time_of_day(spike: &Spike) -> String {
    let end = spike.start_ns.saturating_add(spike.len_ns.0);
    let ago = Duration::from_nanos(KernelClock::Monotonic.now().saturating_sub(end));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = now.saturating_sub(ago).as_millis() % 86_400_000;
    let (s, ms) = (ms / 1000, ms % 1000);
    format!("{:02}:{:02}:{:02}.{ms:03}", s / 3600, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(format: Option<Format>, file: Option<&str>) -> Output {
        Output { format, output: file.map(Into::into), ..Output::default() }
    }

    #[test]
    fn stdout_has_one_owner() {
        let json = output(Some(Format::Json), None);
        assert!(Live::choose(Some(Live::Text), &json).is_err());
        assert!(Live::choose(Some(Live::Jsonl), &json).is_err());
        assert_eq!(Live::choose(Some(Live::None), &json).unwrap(), Live::None);
        let file = output(Some(Format::Json), Some("run.json"));
        assert_eq!(Live::choose(Some(Live::Jsonl), &file).unwrap(), Live::Jsonl);
        assert_eq!(Live::choose(Some(Live::Text), &file).unwrap(), Live::Text);
        assert_eq!(Live::choose(Some(Live::Text), &output(None, None)).unwrap(), Live::Text);
    }
}
