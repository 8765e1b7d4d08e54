//! The head of a [`Run`]: who made it, where, when, and how long it took.

use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use quietcore_measure::{HostSummary, Nanos, Run, SCHEMA, Validity};

/// A run without sections, begun now.
pub fn new_run(command: Vec<String>, host: HostSummary) -> Run {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Run {
        schema: SCHEMA,
        quietcore: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        started_unix_ms: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
        took_ns: Nanos::default(),
        host,
        validity: Validity::default(),
        sections: Vec::new(),
    }
}

/// Times a command from its first line to its last.
#[derive(Debug)]
pub struct Stopwatch {
    started: Instant,
    run: Run,
}

impl Stopwatch {
    /// Starts now; the command is this process's own command line.
    pub fn start() -> Self {
        let args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
        let run = new_run(spoken(args), HostSummary::default());
        Self { started: Instant::now(), run }
    }

    /// How long it has been.
    pub fn elapsed(&self) -> Nanos {
        self.started.elapsed().into()
    }

    /// Stops: a run without sections that knows how long it took.
    pub fn stop(self, host: HostSummary) -> Run {
        let took_ns = self.elapsed();
        Run { host, took_ns, ..self.run }
    }
}

/// The command line as people speak of it: where the program lies on disk is nobody's business.
fn spoken(mut args: impl Iterator<Item = String>) -> Vec<String> {
    let program = args.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
    std::iter::once(name.unwrap_or(program)).chain(args).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_named_without_its_directory() {
        let args = ["/opt/bin/quietcore", "audit", "--root", "/x"].map(str::to_owned);
        assert_eq!(spoken(args.into_iter()), ["quietcore", "audit", "--root", "/x"]);
        assert_eq!(spoken(std::iter::empty()), [""]);
    }

    #[test]
    fn a_stopped_watch_fills_the_head_of_the_run() {
        let host = HostSummary { name: "trading-1".into(), ..HostSummary::default() };
        let watch = Stopwatch::start();
        let before = watch.elapsed();
        let run = watch.stop(host);
        assert!(run.took_ns >= before);
        assert_eq!(run.schema, SCHEMA);
        assert_eq!(run.host.name, "trading-1");
        // 2020-01-01: a clock before that is not set, and the figure would be nonsense.
        assert!(run.started_unix_ms > 1_577_836_800_000);
    }
}
