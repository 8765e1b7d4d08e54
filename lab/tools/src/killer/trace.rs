//! Runs a program under ptrace, stops it at every system call and kills it where it was told to.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::{memory, points};

/// Where to kill.
pub struct Order {
    pub number: u32,
    pub after: bool,
    pub tree: bool,
}

/// How the program ended.
pub enum End {
    Killed,
    Exited(i32),
    Signalled(Signal),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Killed => write!(f, "killed"),
            End::Exited(code) => write!(f, "the program ended with exit code {code}"),
            End::Signalled(signal) => write!(f, "the program was ended by {signal}"),
        }
    }
}

/// Runs the program until it ends or is killed; `seen` hears of every kill point. Children that
/// outlive it are let go when killer ends.
pub fn run(
    command: &[OsString],
    order: Option<&Order>,
    mut seen: impl FnMut(u32, &str),
) -> Result<End> {
    let root = start(command)?;
    let mut trace = Trace {
        root,
        // Both of the program's streams are killer's stderr.
        streams: memory::file(Pid::this(), libc::STDERR_FILENO),
        order,
        count: 0,
        // It is in the call that made it this program.
        inside: HashMap::from([(root, Some(0))]),
    };
    resume(root, None)?;
    loop {
        if let Some(end) = trace.step(&mut seen)? {
            return Ok(end);
        }
    }
}

/// Starts the program and stops it before its first instruction.
fn start(command: &[OsString]) -> Result<Pid> {
    // What happens between fork and exec takes `unsafe`; in a program of its own it does not.
    let mut own = Command::new("/proc/self/exe");
    own.args(["traced", "--"]).args(command).stdout(Stdio::from(io::stderr()));
    let child = own.spawn().context("cannot start a process to trace")?;
    let root = Pid::from_raw(i32::try_from(child.id()).context("a process id")?);
    waitpid(root, Some(WaitPidFlag::WUNTRACED)).context("waiting for the process to trace")?;
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE;
    // Seized children that killer lets go run on; attached ones would keep the SIGSTOP that
    // announces them.
    ptrace::seize(root, options).context("tracing the program")?;
    kill(root, Signal::SIGCONT).context("starting the program")?;
    loop {
        match waitpid(root, None).context("waiting for the program to start")? {
            WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXEC) => return Ok(root),
            WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(_, Signal::SIGCONT) => {
                ptrace::cont(root, None).context("starting the program")?;
            }
            other => bail!("the program did not start: {other:?}"),
        }
    }
}

struct Trace<'a> {
    root: Pid,
    streams: String,
    order: Option<&'a Order>,
    /// Kill points so far.
    count: u32,
    /// Every thread that is traced, and the call that it is in: the number of its kill point, or
    /// 0 where the call is none.
    inside: HashMap<Pid, Option<u32>>,
}

impl Trace<'_> {
    /// Waits for whatever happens next.
    fn step(&mut self, seen: &mut impl FnMut(u32, &str)) -> Result<Option<End>> {
        match next()? {
            WaitStatus::PtraceSyscall(pid) => return self.syscall(pid, seen),
            WaitStatus::PtraceEvent(pid, _, event) => {
                match event {
                    libc::PTRACE_EVENT_EXEC => self.rename(pid)?,
                    libc::PTRACE_EVENT_FORK
                    | libc::PTRACE_EVENT_VFORK
                    | libc::PTRACE_EVENT_CLONE => self.made(pid)?,
                    // A new child or thread announces itself in this way, often later than the call
                    // that made it returns.
                    libc::PTRACE_EVENT_STOP => {
                        self.inside.entry(pid).or_insert(None);
                    }
                    _ => {}
                }
                resume(pid, None)?;
            }
            WaitStatus::Stopped(pid, signal) => resume(pid, Some(signal))?,
            WaitStatus::Exited(pid, code) if pid == self.root => {
                return Ok(Some(End::Exited(code)));
            }
            WaitStatus::Signaled(pid, signal, _) if pid == self.root => {
                return Ok(Some(End::Signalled(signal)));
            }
            WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) => {
                self.inside.remove(&pid);
            }
            _ => {}
        }
        Ok(None)
    }

    fn syscall(&mut self, pid: Pid, seen: &mut impl FnMut(u32, &str)) -> Result<Option<End>> {
        let due = match self.inside.get(&pid).copied().flatten() {
            None => {
                let number = self.entered(pid, seen)?;
                self.inside.insert(pid, Some(number));
                self.order.is_some_and(|order| order.number == number && !order.after)
            }
            Some(number) => {
                self.inside.insert(pid, None);
                self.order.is_some_and(|order| order.number == number && order.after)
            }
        };
        if due {
            return self.kill().map(Some);
        }
        resume(pid, None)?;
        Ok(None)
    }

    /// The number of the kill point that a thread has come to, or 0.
    fn entered(&mut self, pid: Pid, seen: &mut impl FnMut(u32, &str)) -> Result<u32> {
        let point = match points::at(pid, &self.streams) {
            Err(Errno::ESRCH) => None,
            other => other.with_context(|| format!("reading the registers of {pid}"))?,
        };
        let Some(text) = point else { return Ok(0) };
        self.count += 1;
        seen(self.count, &text);
        Ok(self.count)
    }

    /// A thread has made another one. It counts from here on, so that it is not forgotten when the
    /// tree is killed before it has announced itself.
    fn made(&mut self, pid: Pid) -> Result<()> {
        let child = match ptrace::getevent(pid) {
            Err(Errno::ESRCH) => return Ok(()),
            other => other.context("asking whom a thread has made")?,
        };
        let child = Pid::from_raw(i32::try_from(child).context("a thread id")?);
        self.inside.entry(child).or_insert(None);
        Ok(())
    }

    /// A thread that executes a program takes over the id of its process.
    fn rename(&mut self, pid: Pid) -> Result<()> {
        let old = match ptrace::getevent(pid) {
            Err(Errno::ESRCH) => return Ok(()),
            other => other.context("asking who executed a program")?,
        };
        let old = Pid::from_raw(i32::try_from(old).context("a thread id")?);
        let call = self.inside.remove(&old).flatten();
        self.inside.insert(pid, call);
        Ok(())
    }

    /// Kills the program where it stands. A thread that is stopped on its way into a call dies
    /// without making it.
    fn kill(&mut self) -> Result<End> {
        let order = self.order.context("nothing is killed without an order")?;
        // The root last: a child that runs may do something once its parent is gone.
        if order.tree {
            self.inside.keys().filter(|pid| **pid != self.root).try_for_each(|pid| end(*pid))?;
        }
        end(self.root)?;
        let mut killed = None;
        while killed.is_none() || (order.tree && !self.inside.is_empty()) {
            match next()? {
                WaitStatus::Exited(pid, code) => {
                    self.inside.remove(&pid);
                    if pid == self.root {
                        killed = Some(End::Exited(code));
                    }
                }
                WaitStatus::Signaled(pid, signal, _) => {
                    self.inside.remove(&pid);
                    if pid == self.root {
                        killed = Some(match signal {
                            Signal::SIGKILL => End::Killed,
                            other => End::Signalled(other),
                        });
                    }
                }
                // One that was just being made when its parent was killed.
                WaitStatus::PtraceEvent(pid, _, libc::PTRACE_EVENT_STOP) if order.tree => {
                    self.inside.insert(pid, None);
                    end(pid)?;
                }
                _ => {}
            }
        }
        killed.context("the program was waited for")
    }
}

fn next() -> Result<WaitStatus> {
    waitpid(None, Some(WaitPidFlag::__WALL)).context("waiting for the program")
}

/// Lets a thread go on to its next stop. It may have been killed meanwhile.
fn resume(pid: Pid, signal: Option<Signal>) -> Result<()> {
    match ptrace::syscall(pid, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("resuming {pid}")),
    }
}

fn end(pid: Pid) -> Result<()> {
    match kill(pid, Signal::SIGKILL) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("killing {pid}")),
    }
}
