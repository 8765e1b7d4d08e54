//! What a process is called and where it belongs, as far as it still can be asked.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::exits::Exit;
use crate::clock::KernelClock;

/// A process that wrote, as it was when it was asked right after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The command's name, at most 15 bytes, or what the program calls itself.
    pub comm: String,
    /// The first word of the command line; `None` if it had ended (or for a kernel thread). The
    /// rest may hold secrets and is not read.
    pub program: Option<String>,
    /// Its systemd unit, by its control group; `None` if it is in none or had ended.
    pub unit: Option<String>,
    /// When it was started, in milliseconds since 1970: to 10 ms, to 1 s if it had ended.
    pub started_unix_ms: Option<u64>,
    /// Who started it, unless that has ended, too.
    pub parent: Option<Parent>,
}

/// The process that started a writer, which says more than the name of a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its pid.
    pub pid: i32,
    /// Its command's name.
    pub comm: String,
    /// Its systemd unit.
    pub unit: Option<String>,
}

/// Asks `/proc/PID`; `None` if the process is gone, or if it cannot be told from a later one.
pub(super) fn of(pid: i32, pidfd: Option<&OwnedFd>) -> Option<Writer> {
    // In the order of their worth: it may end at any moment.
    let comm = comm(pid)?;
    let unit = unit(pid);
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    if pidfd.is_some_and(|pidfd| !is_there(pidfd)) {
        return None;
    }
    let stat = stat.as_deref().and_then(Stat::parse);
    Some(Writer {
        comm,
        program: program(&command_line),
        unit,
        started_unix_ms: stat.as_ref().and_then(Stat::started_unix_ms),
        parent: stat.and_then(|stat| parent(stat.parent)),
    })
}

/// What its record says of a task that has ended.
pub(super) fn of_ended(exit: &Exit) -> Writer {
    Writer {
        comm: exit.comm.clone(),
        program: None,
        unit: None,
        started_unix_ms: Some(u64::from(exit.started_unix_s) * 1000),
        parent: i32::try_from(exit.parent).ok().and_then(parent),
    }
}

fn parent(pid: i32) -> Option<Parent> {
    (pid > 0).then(|| Some(Parent { pid, comm: comm(pid)?, unit: unit(pid) }))?
}

fn comm(pid: i32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let name = String::from_utf8_lossy(&text).trim_end_matches('\n').to_owned();
    (!name.is_empty()).then_some(name)
}

fn unit(pid: i32) -> Option<String> {
    unit_of(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
}

/// Whether the process, ended or not, still holds its pid.
fn is_there(pidfd: &OwnedFd) -> bool {
    let nothing = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open; signal 0 only asks, and no further information is given.
    let asked =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), 0, nothing, 0) };
    asked == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

fn program(command_line: &[u8]) -> Option<String> {
    let first = command_line.split(|&byte| byte == 0).next()?;
    (!first.is_empty()).then(|| String::from_utf8_lossy(first).into_owned())
}

/// The innermost service or scope of `/proc/PID/cgroup`, in whichever hierarchy systemd has.
fn unit_of(cgroups: &str) -> Option<String> {
    let unit = |line: &str| {
        let path = line.splitn(3, ':').nth(2)?;
        let is_unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
        path.rsplit('/').find(is_unit).map(str::to_owned)
    };
    cgroups.lines().rev().find_map(unit)
}

/// Two fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: i32,
    /// In ticks of `_SC_CLK_TCK` since boot.
    started: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name may hold anything, brackets and blanks included.
        let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
        Some(Self { parent: fields.nth(1)?.parse().ok()?, started: fields.nth(17)?.parse().ok()? })
    }

    fn started_unix_ms(&self) -> Option<u64> {
        // SAFETY: takes a number and returns one.
        let ticks = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
        let boot = KernelClock::Realtime.now().checked_sub(KernelClock::Boottime.now())?;
        Some(boot / 1_000_000 + self.started.checked_mul(1000)?.checked_div(ticks)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_the_innermost_service_or_scope() {
        for (cgroups, unit) in [
            ("0::/system.slice/tuned.service\n", Some("tuned.service")),
            ("0::/system.slice/foo.service/payload\n", Some("foo.service")),
            ("0::/user.slice/user-0.slice/session-3.scope", Some("session-3.scope")),
            ("0::/user.slice/user@1.service/app.slice/x.service", Some("x.service")),
            (
                "4:memory:/a\n1:name=systemd:/system.slice/cron.service\n0::/\n",
                Some("cron.service"),
            ),
            ("0::/user.slice\n", None),
            ("0::/", None),
            ("", None),
        ] {
            assert_eq!(unit_of(cgroups).as_deref(), unit, "{cgroups}");
        }
    }

    #[test]
    fn only_the_first_word_of_a_command_line_is_kept() {
        assert_eq!(program(b"/bin/sh\0-c\0secret\0").as_deref(), Some("/bin/sh"));
        assert_eq!(program(b""), None);
    }

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9876 1 2 3";
        assert_eq!(Stat::parse(text), Some(Stat { parent: 7, started: 9876 }));
        assert_eq!(Stat::parse("42 (x"), None);
    }

    #[test]
    fn this_process_is_named_and_one_that_is_not_there_is_not() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let writer = of(pid, None).unwrap();
        assert!(writer.program.is_some() && writer.parent.is_some());
        let age = KernelClock::Realtime.now() / 1_000_000 - writer.started_unix_ms.unwrap();
        assert!(age < 3_600_000, "{age} ms");
        assert_eq!(of(i32::MAX, None), None);
    }
}
