//! The process that takes a lease back when its term is over.
//!
//! It sleeps in the kernel until the moment, the end of the process or a change of the journal:
//! no timer of its own wakes a CPU in between.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, pidfd_open, setsid};
use rustix::time::Timespec;

use super::slot::started_at;
use super::{LeaseError, Term, boot, look, state};
use crate::clock::KernelClock;
use crate::host::{Host, Trouble};

/// Why waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The term is over: take the lease back.
    Now,
    /// The lease was ended, or is kept for good.
    Never,
}

/// A term that ends so many nanoseconds from now, or with this boot.
pub fn until(host: &Host, nanos: u64) -> Term {
    Term::Until { boot: boot(host), nanos: KernelClock::Boottime.now().saturating_add(nanos) }
}

/// A term that ends with this process.
pub fn while_alive() -> Term {
    let pid = std::process::id();
    Term::While { pid, started: started_at(pid).unwrap_or_default() }
}

/// Whether a term is over.
pub fn is_over(term: &Term, host: &Host) -> bool {
    match term {
        Term::Kept => false,
        // A reboot has not been confirmed either.
        Term::Until { boot: of, nanos } => {
            *of != boot(host) || KernelClock::Boottime.now() >= *nanos
        }
        Term::While { pid, started } => match started_at(*pid) {
            Ok(now) => now != *started,
            Err(trouble) => trouble == Trouble::Missing,
        },
    }
}

/// Returns when the term of a lease is over, or the lease is ended or kept for good.
pub fn wait(folder: &Path, name: &str, host: &Host) -> Result<Over, LeaseError> {
    let failed = |error: rustix::io::Errno| state(folder)(error.into());
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)
        .map_err(failed)?;
    let any = inotify::WatchFlags::MODIFY | inotify::WatchFlags::DELETE;
    inotify::add_watch(&watch, folder, any).map_err(failed)?;
    loop {
        let Some(standing) = look(folder, name, host)? else { return Ok(Over::Never) };
        if standing.term == Term::Kept {
            return Ok(Over::Never);
        }
        if is_over(&standing.term, host) {
            return Ok(Over::Now);
        }
        sleep(&watch, &standing.term).map_err(failed)?;
        drain(&watch);
    }
}

/// Until the folder changes, the process ends or the moment comes.
fn sleep(watch: &OwnedFd, term: &Term) -> rustix::io::Result<()> {
    let process = match term {
        Term::While { pid, .. } => open_process(*pid),
        _ => None,
    };
    let rest = match term {
        Term::Until { nanos, .. } => nanos.saturating_sub(KernelClock::Boottime.now()),
        // Without a pidfd (Linux before 5.3) the process is looked for twice a second.
        Term::While { .. } if process.is_none() => 500_000_000,
        _ => u64::MAX,
    };
    let fds: Vec<BorrowedFd> =
        [Some(watch.as_fd()), process.as_ref().map(AsFd::as_fd)].into_iter().flatten().collect();
    let mut fds: Vec<PollFd> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    // A day at most: a longer sleep is another round.
    let rest = Duration::from_nanos(rest).min(Duration::from_secs(86_400));
    let limit = Timespec {
        tv_sec: rest.as_secs().try_into().unwrap_or_default(),
        tv_nsec: rest.subsec_nanos().into(),
    };
    match poll(&mut fds, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

fn open_process(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()
}

/// What happened is read from the journal, not from the events.
fn drain(watch: &OwnedFd) {
    let mut bytes = [0; 4096];
    while rustix::io::read(watch, &mut bytes).is_ok_and(|read| read > 0) {}
}

/// Starts a guardian: a program that calls [`wait`]. Where systemd runs the host it becomes a
/// unit of its own, which outlives the session of the one who started it and is started again
/// if it is killed; elsewhere it leaves the terminal behind.
///
/// # Errors
/// It could not be started; nothing should be changed then.
pub fn spawn(unit: &str, program: &Path, args: &[&OsStr]) -> std::io::Result<()> {
    if !Path::new("/run/systemd/system").exists() {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec only setsid(2) is called, a plain system call.
        unsafe {
            command.pre_exec(|| {
                let _ = setsid();
                Ok(())
            });
        }
        return command.spawn().map(drop);
    }
    let output = Command::new("systemd-run")
        .args(["--quiet", "--collect", "--property=Restart=on-failure", "--unit", unit])
        .arg(program)
        .args(args)
        .stdin(Stdio::null())
        .output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let words = String::from_utf8_lossy(&output.stderr);
            Err(std::io::Error::other(format!("systemd-run: {}", words.trim())))
        }
    }
}
