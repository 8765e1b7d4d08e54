//! `quietcore explain`: the tail of a function or a thread, taken apart.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use quietcore_console::{Exit, NotPossible, Output, Progress, Stopwatch, duration, interrupted};
use quietcore_facts::Facts;
use quietcore_host::remedies::remedy;
use quietcore_measure::{Nanos, Section, Table, Verdict};
use quietcore_spike::explain::function::{self, FunctionError};
use quietcore_spike::explain::{
    ExplainError, ExplainSettings, Explained, ProbeCost, Subject, explain,
};
use quietcore_sys::Host;

use super::trace::Trace;

/// Parts of the extra time for which a remedy is looked up: each at least so much of it.
const WORTH_REMOVING: f64 = 0.01;

/// Take apart the tail of a function: what its slowest calls had that ordinary ones had not
///
/// Probes every call of the function and records what the kernel did meanwhile. Of the slowest calls
/// the extra time against ordinary ones is ranked by what it was, with evidence and with what
/// removes it; a wait for a lock names who held it and where. First it measures what its probes
/// cost, and refuses where that is more than 5 % of the median call.
///
/// Needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE. Each call costs about a microsecond more
/// while it runs, about ten where the function's first instruction cannot be emulated. Writes
/// nothing but its result.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore explain --pid 4211 --function process_packet
    quietcore explain --pid 4211 --function Book::update --duration 60s
    quietcore explain --pid 4211 --function SSL_read --binary /usr/lib/libssl.so.3
    quietcore explain --pid 4211 --spans               what the program says it does
    quietcore explain --tid 4213 --duration 30s        every wait of one thread")]
pub struct Explain {
    /// The process
    #[arg(long, value_name = "PID", required_unless_present = "tid")]
    pid: Option<u32>,

    /// The function: its name, or a part of it that only one function has
    #[arg(long, value_name = "NAME", requires = "pid", required_unless_present_any = ["tid", "spans"])]
    function: Option<String>,

    /// The file that holds the function [default: the program, then its libraries]
    #[arg(long, value_name = "FILE", requires = "function")]
    binary: Option<PathBuf>,

    /// Explain the waits of this thread instead of the calls of a function
    #[arg(long, value_name = "TID", conflicts_with_all = ["pid", "function"])]
    tid: Option<u32>,

    /// Explain the spans that the process publishes in shared memory
    #[arg(long, requires = "pid", conflicts_with_all = ["function", "tid"])]
    spans: bool,

    /// How long to look
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    duration: Nanos,

    /// Which part of all calls is the tail
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = percent)]
    tail: f64,

    /// Go on although the probes cost more than 5 % of the median call
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    trace: Trace,

    #[command(flatten)]
    output: Output,
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .trim_end_matches('%')
        .trim_end()
        .parse()
        .map_err(|_| "a percentage, as 0.1%".to_owned())?;
    match number > 0.0 && number <= 50.0 {
        true => Ok(number / 100.0),
        false => Err("between 0% and 50%".to_owned()),
    }
}

impl Explain {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let trace = self.trace.open()?;
        let facts = Facts::of(Host::live());
        let subject = self.subject(facts.host())?;
        let settings = ExplainSettings {
            subject,
            duration: self.duration,
            tail: self.tail,
            force: self.force,
        };
        let bar = Progress::time(&self.output, "watching", self.duration);
        let known = |cost: &ProbeCost| {
            if !self.output.quiet {
                let (about, within) = (cost.beginning.about(), cost.inside);
                eprintln!(
                    "the probes cost {} per call, {within} within it: {about}",
                    cost.per_call
                );
            }
        };
        let progress = |elapsed: Nanos| bar.set(elapsed.0.min(self.duration.0));
        let explained = explain(&settings, facts.host(), interrupted(), progress, known)
            .map_err(not_possible)?;
        let mut run = watch.stop(facts.summary());
        run.sections = explained.sections();
        run.sections.extend(remedies(&explained));
        run.validity.clone_from(&explained.validity);
        if explained.spans.is_empty() {
            let note = format!("not one of {} was seen", settings.subject.name());
            run.validity.note(Verdict::Incomplete, note);
        }
        // Both are tried: one full disk must not cost the other result.
        let traced = trace.write(&run);
        sink.write(&run)?;
        traced?;
        Ok(Exit::Clean)
    }

    fn subject(&self, host: &Host) -> anyhow::Result<Subject> {
        if let Some(tid) = self.tid {
            let status = host.read(&format!("/proc/{tid}/status"));
            let status = status.with_context(|| format!("--tid {tid}"))?;
            let tgid = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
            let pid = tgid.and_then(|text| text.trim().parse().ok());
            return Ok(Subject::Thread { pid: pid.context("no Tgid in its status")?, tid });
        }
        if let (true, Some(pid)) = (self.spans, self.pid) {
            return Ok(Subject::Spans { pid });
        }
        let (Some(pid), Some(name)) = (self.pid, &self.function) else {
            bail!("--pid and --function, or --tid")
        };
        let found = function::find(host, pid, name, self.binary.as_deref());
        let (target, name) = found.map_err(|error| match error {
            FunctionError::Go(_) => NotPossible::new(error.to_string()).into(),
            error => anyhow::Error::from(error),
        })?;
        Ok(Subject::Function(target, name))
    }
}

/// What is missing on this host is not an error of the command line.
fn not_possible(error: ExplainError) -> anyhow::Error {
    match &error {
        ExplainError::Bpf(bpf) if bpf.not_possible_here() => {
            NotPossible::new(error.to_string()).into()
        }
        _ => error.into(),
    }
}

/// What removes the parts that are worth removing, in their order.
fn remedies(explained: &Explained) -> Option<Section> {
    let columns = ["kind", "audit_checks", "knobs", "advice"];
    let mut table = Table::new("remedies", "What removes it", &columns);
    let parts = explained.parts();
    let all: f64 = parts.iter().map(|part| part.extra_ns).sum();
    let mut kinds = Vec::new();
    for part in parts.iter().filter(|part| part.extra_ns >= all * WORTH_REMOVING) {
        let known = remedy(part.kind).filter(|_| !kinds.contains(&part.kind));
        let Some(remedy) = known else { continue };
        kinds.push(part.kind);
        table.rows.push(vec![
            part.kind.name().into(),
            remedy.checks.join(", ").into(),
            remedy.knobs.join(", ").into(),
            remedy.advice.into(),
        ]);
    }
    (!table.rows.is_empty()).then_some(Section::Table(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_a_percentage() {
        assert_eq!(percent("0.1%"), Ok(0.001));
        assert_eq!(percent("5"), Ok(0.05));
        assert!(percent("0").is_err() && percent("60%").is_err() && percent("some").is_err());
    }
}
