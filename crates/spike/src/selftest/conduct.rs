//! Runs an injector's process beside the recorder.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use quietcore_bpf::{BpfError, Set, Settings, Timeline, Watch};
use quietcore_measure::{CpuSet, Nanos, Spike, Thread};
use quietcore_sys::Host;

use super::protocol::{Line, Report, Span};
use super::{ClassResult, Injector, judge};
use crate::attribute::{Gaps, Window};
use crate::selftest::stage::now;
use crate::tape::Tape;

/// How often the recorder is read.
const BEAT: Duration = Duration::from_millis(20);

/// What goes on is written when it is over: a stretch is explained so long after its end.
const SETTLED: u64 = 50_000_000;

/// What is felt is told within this time.
const MEMORY: u64 = 3_000_000_000;

/// Of gaps that were explained before, those that may concern the next.
const REMEMBERED: usize = 64;

/// How long an injector may take to get ready: one builds a program first.
const PATIENCE: Duration = Duration::from_secs(40);

/// How long after its time an injector may take to end.
const GRACE: Duration = Duration::from_secs(15);

/// Why an injector could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum SelftestError {
    /// The recorder does not work here.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The injector's process failed.
    #[error("injector {name}: {error}")]
    Process {
        /// Which.
        name: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// The injector's process said what it should not.
    #[error("injector {name}: {said}")]
    Line {
        /// Which.
        name: &'static str,
        /// What it said, or that it said nothing.
        said: String,
    },
}

/// A process that is ended with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs an injector as `command` for some `duration` and judges what is found. `stop` ends it
/// early.
///
/// # Errors
/// [`SelftestError`]; that a cause cannot be had here is a result.
pub fn conduct(
    injector: &'static Injector,
    mut command: Command,
    duration: Nanos,
    host: &Host,
    stop: &AtomicBool,
) -> Result<ClassResult, SelftestError> {
    let name = injector.name;
    let failed = |error| SelftestError::Process { name, error };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut running = Running(command.spawn().map_err(failed)?);
    let stdin = running.0.stdin.take();
    let lines = read_lines(&mut running.0).map_err(failed)?;
    let (tid, cpu) = match first_line(name, &lines, stop)? {
        Line::Victim { tid, cpu } => (tid, cpu),
        Line::NotHere(why) => return Ok(ClassResult::not_here(name, why)),
        Line::Span(..) => return Err(silent(name, "it began before its time")),
    };
    let settings = Settings {
        sets: Set::ALL.to_vec(),
        slots: 1 << 16,
        ..Settings::new(Watch::Tasks(vec![tid]), Nanos::from_us(1))
    };
    let mut timeline = Timeline::start(&settings)?;
    let victim = thread_of(tid, host);
    timeline.watch_pauses(victim.pid)?;
    let whole: CpuSet = [cpu as usize].into_iter().collect();
    let tape = Tape::new(&timeline, &whole, host);
    let session = Session {
        injector,
        timeline,
        tape,
        victim,
        cpu,
        caused: Vec::new(),
        waiting: Vec::new(),
        felt: Vec::new(),
    };
    session.record(stdin, &lines, duration, stop)
}

fn silent(name: &'static str, said: &str) -> SelftestError {
    SelftestError::Line { name, said: said.to_owned() }
}

/// Reads lines as they come, on a thread that ends with the process.
fn read_lines(child: &mut Child) -> io::Result<Receiver<Result<Line, String>>> {
    let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line.parse()).is_err() {
                break;
            }
        }
    });
    Ok(lines)
}

fn first_line(
    name: &'static str,
    lines: &Receiver<Result<Line, String>>,
    stop: &AtomicBool,
) -> Result<Line, SelftestError> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if stop.load(Ordering::Relaxed) {
            return Ok(Line::NotHere("stopped before its time".into()));
        }
        match lines.recv_timeout(BEAT) {
            Ok(line) => return line.map_err(|said| SelftestError::Line { name, said }),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(silent(name, "it ended at once")),
        }
    }
    Ok(Line::NotHere(format!("it was not ready after {} s", PATIENCE.as_secs())))
}

/// A thread by its number, as /proc names it.
fn thread_of(tid: u32, host: &Host) -> Thread {
    let status = host.read(&format!("/proc/{tid}/status")).unwrap_or_default();
    let fields: BTreeMap<&str, &str> =
        status.lines().filter_map(|line| line.split_once(":\t")).collect();
    let pid = fields.get("Tgid").and_then(|pid| pid.parse().ok()).unwrap_or(tid);
    Thread { tid, pid, comm: fields.get("Name").copied().unwrap_or_default().to_owned() }
}

/// An injector at work.
struct Session {
    injector: &'static Injector,
    timeline: Timeline,
    tape: Tape,
    victim: Thread,
    cpu: u32,
    caused: Vec<Span>,
    waiting: Vec<Span>,
    felt: Vec<Spike>,
}

impl Session {
    fn record(
        mut self,
        mut stdin: Option<ChildStdin>,
        lines: &Receiver<Result<Line, String>>,
        duration: Nanos,
        stop: &AtomicBool,
    ) -> Result<ClassResult, SelftestError> {
        let name = self.injector.name;
        if let Some(stdin) = &mut stdin {
            let go = stdin.write_all(b"go\n");
            go.map_err(|error| SelftestError::Process { name, error })?;
        }
        let begin = Instant::now();
        let mut not_here = None;
        let mut open = true;
        while open && begin.elapsed() < Duration::from(duration) + GRACE {
            thread::sleep(BEAT);
            if stop.load(Ordering::Relaxed) {
                // The end of its input makes it clean up and end.
                drop(stdin.take());
            }
            // What ends later may not be on the tape yet, however long the rest of this takes.
            let until = now();
            self.tape.pull(&mut self.timeline)?;
            loop {
                match lines.try_recv() {
                    Ok(Ok(Line::Span(Report::Caused, span))) => self.caused.push(span),
                    Ok(Ok(Line::Span(Report::Felt, span))) => self.waiting.push(span),
                    Ok(Ok(Line::NotHere(why))) => not_here = Some(why),
                    Ok(Ok(Line::Victim { .. })) => return Err(silent(name, "a second victim")),
                    Ok(Err(said)) => return Err(SelftestError::Line { name, said }),
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => {
                        open = false;
                        break;
                    }
                }
            }
            self.explain(until.saturating_sub(SETTLED));
            self.tape.forget(until.saturating_sub(MEMORY));
        }
        thread::sleep(Duration::from_nanos(SETTLED));
        self.tape.pull(&mut self.timeline)?;
        self.explain(now());
        match not_here {
            Some(why) => Ok(ClassResult::not_here(name, why)),
            None => Ok(judge(self.injector, &self.caused, &self.felt)),
        }
    }

    /// Explains what ended before a moment.
    fn explain(&mut self, until: u64) {
        let waiting = std::mem::take(&mut self.waiting);
        let (now, later): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|span| span.end <= until);
        self.waiting = later;
        let before = self.felt.iter().rev().take(REMEMBERED);
        let before = before.map(|spike| (spike.start_ns, spike.start_ns + spike.len_ns.0));
        let spans = now.iter().chain(&self.waiting).map(|span| (span.start, span.end));
        let gaps: Vec<_> = before.chain(spans).collect();
        let known_from = gaps.iter().map(|gap| gap.0).min().unwrap_or(0);
        let gaps = Arc::new(Gaps::new(known_from, u64::MAX, gaps));
        for span in now {
            let window = Window {
                thread: self.victim.clone(),
                start_ns: span.start,
                end_ns: span.end,
                cpu: self.cpu,
                spins: self.injector.spins,
                gaps: self.injector.spins.then(|| Arc::clone(&gaps)),
            };
            self.felt.push(self.tape.explain(&window));
        }
    }
}
