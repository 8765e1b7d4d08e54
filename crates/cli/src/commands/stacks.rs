//! What `offcpu` and `profile` share: whom they watch, how long, and their files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use quietcore_bpf::{BpfError, Watch};
use quietcore_console::{NotPossible, Output, Place, Progress, interrupted};
use quietcore_measure::{Nanos, Run, Section, Validity, Verdict};
use quietcore_report::{flame, pprof};

/// Whose stacks.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct Target {
    /// All threads of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// This thread
    #[arg(long, value_name = "TID")]
    tid: Option<u32>,

    /// Everybody but quietcore itself
    #[arg(long)]
    all: bool,
}

impl Target {
    /// Whom to watch.
    pub fn watch(&self) -> anyhow::Result<Watch> {
        match (self.pid, self.tid) {
            (Some(pid), _) => {
                let status = fs::read_to_string(format!("/proc/{pid}/status"))
                    .map_err(|_| anyhow!("--pid {pid}: there is no such process"))?;
                let process = status
                    .lines()
                    .find_map(|line| line.strip_prefix("Tgid:"))
                    .and_then(|tgid| tgid.trim().parse::<u32>().ok());
                if process.is_some_and(|process| process != pid) {
                    bail!("--pid {pid}: that is a thread, not a process; use --tid {pid}");
                }
                Ok(Watch::Process(pid))
            }
            (_, Some(tid)) if self.is_alive() => Ok(Watch::Thread(tid)),
            (_, Some(tid)) => bail!("--tid {tid}: there is no such thread"),
            (None, None) => Ok(Watch::All),
        }
    }

    /// Whether who is watched is still there.
    fn is_alive(&self) -> bool {
        let number = self.pid.or(self.tid);
        number.is_none_or(|number| Path::new(&format!("/proc/{number}")).exists())
    }

    /// Lets time go by, and has `each_second` look at what there is so far: names can only be had
    /// while a process lives. Of everybody that would cost too much. Ends early by Ctrl-C and when the process ends.
    pub fn wait(
        &self,
        duration: Nanos,
        output: &Output,
        validity: &mut Validity,
        mut each_second: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let bar = Progress::time(output, "measuring", duration);
        let (start, wanted) = (Instant::now(), Duration::from(duration));
        let mut looked = Duration::ZERO;
        loop {
            let elapsed = start.elapsed();
            if elapsed >= wanted {
                return Ok(());
            }
            if interrupted().load(Ordering::Relaxed) {
                validity.note(Verdict::Incomplete, "ended early, by hand");
                return Ok(());
            }
            if !self.is_alive() {
                validity.note(Verdict::Incomplete, "ended early: who was watched is gone");
                return Ok(());
            }
            if !self.all && elapsed - looked >= Duration::from_secs(1) {
                looked = elapsed;
                each_second()?;
            }
            bar.set(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
            thread::sleep((wanted - elapsed).min(Duration::from_millis(50)));
        }
    }
}

/// Files for other programs.
#[derive(Args, Debug)]
pub struct Files {
    /// Also write the stacks to FILE, one line each: `outermost;…;innermost weight`
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,

    /// Also draw the stacks as an interactive flame graph
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Also write the stacks for `go tool pprof`
    #[arg(long, value_name = "FILE")]
    pprof: Option<PathBuf>,
}

/// Files that can be written to.
#[derive(Debug)]
pub struct OpenFiles {
    folded: Option<Place>,
    svg: Option<Place>,
    pprof: Option<Place>,
}

impl Files {
    /// Tries the places before anything is measured.
    pub fn open(&self) -> anyhow::Result<OpenFiles> {
        let open = |path: &Option<PathBuf>| path.as_deref().map(|p| Place::open(Some(p)));
        Ok(OpenFiles {
            folded: open(&self.folded).transpose()?,
            svg: open(&self.svg).transpose()?,
            pprof: open(&self.pprof).transpose()?,
        })
    }
}

impl OpenFiles {
    /// Writes what was asked for of a run's stacks.
    pub fn write(self, run: &Run) -> anyhow::Result<()> {
        let stacks = run.sections.iter().find_map(|section| match section {
            Section::Flame(stacks) => Some(stacks),
            _ => None,
        });
        let Some(stacks) = stacks else { return Ok(()) };
        if let Some(place) = self.folded {
            place.write(flame::folded(stacks).as_bytes())?;
        }
        if let Some(place) = self.svg {
            place.write(&flame::svg(stacks).map_err(anyhow::Error::msg).context("--svg")?)?;
        }
        if let Some(place) = self.pprof {
            place.write(&pprof(stacks)?)?;
        }
        Ok(())
    }
}

/// What a host cannot do is not a failure.
pub fn not_possible(error: BpfError) -> anyhow::Error {
    if error.not_possible_here() {
        NotPossible::new(error.to_string()).into()
    } else {
        error.into()
    }
}
