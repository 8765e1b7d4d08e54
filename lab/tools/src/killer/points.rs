//! Which system calls are kill points, and what each is about to change.
//!
//! Left out is what stays inside the program and its streams: writes to pipes, to event
//! descriptors, to terminals, to /dev/null, and to what killer handed it as stdout and stderr.
//! Reads of a device's settings by ioctl or netlink count: from outside they look like the writes.

use libc::{c_int, c_long};
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::memory;

/// What a call's arguments mean, by their position.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "old calls have some of these"))]
enum Shape {
    /// Bytes into a file descriptor.
    Write(usize),
    /// Something else done to a file descriptor.
    Fd(usize),
    Path(usize),
    Paths(usize, usize),
    /// A folder's descriptor and a path.
    At(usize, usize),
    Ats(usize, usize),
    /// A path to be opened and the flags.
    Open(usize, usize),
    OpenAt(usize, usize, usize),
    /// The same with the flags in memory.
    OpenAt2,
    Fork,
    /// Flags that tell a process from a thread, as they are.
    Clone,
    /// The same with the flags in memory.
    Clone3,
    Ioctl,
    /// The id of a process or thread that it acts on.
    Task(usize),
}

use Shape::*;

const CALLS: &[(c_long, &str, Shape)] = &[
    (libc::SYS_write, "write", Write(0)),
    (libc::SYS_pwrite64, "pwrite64", Write(0)),
    (libc::SYS_writev, "writev", Write(0)),
    (libc::SYS_pwritev, "pwritev", Write(0)),
    (libc::SYS_pwritev2, "pwritev2", Write(0)),
    (libc::SYS_sendfile, "sendfile", Write(0)),
    (libc::SYS_copy_file_range, "copy_file_range", Write(2)),
    (libc::SYS_splice, "splice", Write(2)),
    (libc::SYS_ftruncate, "ftruncate", Fd(0)),
    (libc::SYS_fallocate, "fallocate", Fd(0)),
    (libc::SYS_fsync, "fsync", Fd(0)),
    (libc::SYS_fdatasync, "fdatasync", Fd(0)),
    (libc::SYS_sync_file_range, "sync_file_range", Fd(0)),
    (libc::SYS_syncfs, "syncfs", Fd(0)),
    (libc::SYS_sendto, "sendto", Fd(0)),
    (libc::SYS_sendmsg, "sendmsg", Fd(0)),
    (libc::SYS_sendmmsg, "sendmmsg", Fd(0)),
    (libc::SYS_fchmod, "fchmod", Fd(0)),
    (libc::SYS_fchown, "fchown", Fd(0)),
    (libc::SYS_fsetxattr, "fsetxattr", Fd(0)),
    (libc::SYS_truncate, "truncate", Path(0)),
    (libc::SYS_setxattr, "setxattr", Path(0)),
    (libc::SYS_umount2, "umount2", Path(0)),
    (libc::SYS_mount, "mount", Path(1)),
    (libc::SYS_execve, "execve", Path(0)),
    (libc::SYS_execveat, "execveat", At(0, 1)),
    (libc::SYS_unlinkat, "unlinkat", At(0, 1)),
    (libc::SYS_mkdirat, "mkdirat", At(0, 1)),
    (libc::SYS_mknodat, "mknodat", At(0, 1)),
    (libc::SYS_fchmodat, "fchmodat", At(0, 1)),
    // Not in every libc yet; newer calls have one number everywhere.
    (452, "fchmodat2", At(0, 1)),
    (libc::SYS_fchownat, "fchownat", At(0, 1)),
    (libc::SYS_symlinkat, "symlinkat", At(1, 2)),
    (libc::SYS_renameat, "renameat", Ats(0, 2)),
    (libc::SYS_renameat2, "renameat2", Ats(0, 2)),
    (libc::SYS_linkat, "linkat", Ats(0, 2)),
    (libc::SYS_openat, "openat", OpenAt(0, 1, 2)),
    (libc::SYS_openat2, "openat2", OpenAt2),
    (libc::SYS_clone, "clone", Clone),
    (libc::SYS_clone3, "clone3", Clone3),
    (libc::SYS_ioctl, "ioctl", Ioctl),
    (libc::SYS_sched_setaffinity, "sched_setaffinity", Task(0)),
    (libc::SYS_sched_setscheduler, "sched_setscheduler", Task(0)),
    (libc::SYS_sched_setparam, "sched_setparam", Task(0)),
    (libc::SYS_sched_setattr, "sched_setattr", Task(0)),
    (libc::SYS_setpriority, "setpriority", Task(1)),
    (libc::SYS_kill, "kill", Task(0)),
    (libc::SYS_tgkill, "tgkill", Task(0)),
    (libc::SYS_pidfd_send_signal, "pidfd_send_signal", Fd(0)),
];

/// What newer architectures have only in its `at` form.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[(c_long, &str, Shape)] = &[
    (libc::SYS_open, "open", Open(0, 1)),
    (libc::SYS_creat, "creat", Path(0)),
    (libc::SYS_rename, "rename", Paths(0, 1)),
    (libc::SYS_link, "link", Paths(0, 1)),
    (libc::SYS_symlink, "symlink", Path(1)),
    (libc::SYS_unlink, "unlink", Path(0)),
    (libc::SYS_rmdir, "rmdir", Path(0)),
    (libc::SYS_mkdir, "mkdir", Path(0)),
    (libc::SYS_mknod, "mknod", Path(0)),
    (libc::SYS_chmod, "chmod", Path(0)),
    (libc::SYS_chown, "chown", Path(0)),
    (libc::SYS_lchown, "lchown", Path(0)),
    (libc::SYS_fork, "fork", Fork),
    (libc::SYS_vfork, "vfork", Fork),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[(c_long, &str, Shape)] = &[];

/// Requests of ioctl that change a network card or a file (linux/sockios.h, linux/fs.h).
const REQUESTS: &[(u64, &str)] = &[
    (0x8946, "SIOCETHTOOL"),
    (0x8914, "SIOCSIFFLAGS"),
    (0x8922, "SIOCSIFMTU"),
    (0x8943, "SIOCSIFTXQLEN"),
    (0x4004_9409, "FICLONE"),
];

/// The number and arguments of the call that a process is about to make.
struct Call {
    number: c_long,
    args: [u64; 6],
}

/// The kill point that a process stands at, in words; `None` if the call is none. `streams` are
/// what it was given as stdout and stderr.
pub fn at(pid: Pid, streams: &str) -> nix::Result<Option<String>> {
    let Call { number, args } = call(pid)?;
    let mut calls = CALLS.iter().chain(OLD_CALLS);
    let Some((_, name, shape)) = calls.find(|(nr, ..)| *nr == number) else {
        return Ok(None);
    };
    Ok(target(pid, *shape, &args, streams).map(|target| format!("{name} {target}")))
}

#[cfg(target_arch = "x86_64")]
fn call(pid: Pid) -> nix::Result<Call> {
    let r = ptrace::getregs(pid)?;
    let number = c_long::from_ne_bytes(r.orig_rax.to_ne_bytes());
    Ok(Call { number, args: [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] })
}

#[cfg(target_arch = "aarch64")]
fn call(pid: Pid) -> nix::Result<Call> {
    let [a, b, c, d, e, f, _, _, number, ..] = ptrace::getregs(pid)?.regs;
    Ok(Call { number: c_long::from_ne_bytes(number.to_ne_bytes()), args: [a, b, c, d, e, f] })
}

fn target(pid: Pid, shape: Shape, args: &[u64; 6], streams: &str) -> Option<String> {
    let path = |n: usize| memory::path(pid, args[n]);
    let at = |fd: usize, n: usize| {
        memory::from_folder(pid, int(args[fd]), &path(n)).display().to_string()
    };
    let here = |n: usize| memory::from_folder(pid, libc::AT_FDCWD, &path(n)).display().to_string();
    match shape {
        Write(fd) => Some(memory::file(pid, int(args[fd])))
            .filter(|file| file != streams && leaves_the_program(file)),
        Fd(fd) => Some(memory::file(pid, int(args[fd]))),
        Path(n) => Some(here(n)),
        Paths(from, to) => Some(format!("{} -> {}", here(from), here(to))),
        At(fd, n) => Some(at(fd, n)),
        Ats(from, to) => Some(format!("{} -> {}", at(from, from + 1), at(to, to + 1))),
        Open(n, flags) => Some(here(n)).filter(|file| opens_to_change(file, args[flags])),
        OpenAt(fd, n, flags) => Some(at(fd, n)).filter(|file| opens_to_change(file, args[flags])),
        OpenAt2 => {
            Some(at(0, 1)).filter(|file| opens_to_change(file, memory::number(pid, args[2])))
        }
        Fork => Some("a child".into()),
        Clone => makes_a_process(args[0]).then(|| "a child".into()),
        Clone3 => makes_a_process(memory::number(pid, args[0])).then(|| "a child".into()),
        Ioctl => {
            let (_, name) = REQUESTS.iter().find(|(request, _)| *request == args[1])?;
            Some(format!("{name} {}", memory::file(pid, int(args[0]))))
        }
        Task(n) => Some(format!("task {}", int(args[n]))),
    }
}

/// Whether anybody else can see what is written there.
fn leaves_the_program(file: &str) -> bool {
    const INSIDE: [&str; 5] = ["pipe:", "anon_inode:", "/dev/tty", "/dev/pts/", "/dev/console"];
    file != "/dev/null" && !INSIDE.iter().any(|start| file.starts_with(start))
}

/// Opening makes or empties a file, but none of the kernel's.
fn opens_to_change(file: &str, flags: u64) -> bool {
    let is_kernels = ["/proc/", "/sys/"].iter().any(|start| file.starts_with(start));
    int(flags) & (libc::O_CREAT | libc::O_TRUNC) != 0 && !is_kernels && leaves_the_program(file)
}

fn makes_a_process(flags: u64) -> bool {
    int(flags) & libc::CLONE_THREAD == 0
}

/// The kernel looks at the lower half of a register only, where an argument is an `int`.
fn int(argument: u64) -> c_int {
    argument as u32 as c_int
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_call_is_listed_twice() {
        let all: Vec<c_long> = CALLS.iter().chain(OLD_CALLS).map(|(nr, ..)| *nr).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    #[test]
    fn streams_of_the_program_are_told_from_files() {
        assert!(leaves_the_program("/proc/sys/vm/swappiness"));
        assert!(leaves_the_program("socket netlink"));
        for inside in ["pipe:[7]", "anon_inode:[eventfd]", "/dev/null", "/dev/pts/0"] {
            assert!(!leaves_the_program(inside), "{inside}");
        }
    }

    #[test]
    fn opening_counts_where_it_makes_or_empties_a_file() {
        let flags = |flags: c_int| flags as u64;
        assert!(opens_to_change("/a", flags(libc::O_WRONLY | libc::O_CREAT)));
        assert!(opens_to_change("/a", flags(libc::O_WRONLY | libc::O_TRUNC)));
        assert!(!opens_to_change("/a", flags(libc::O_WRONLY)));
        assert!(!opens_to_change("/sys/a", flags(libc::O_WRONLY | libc::O_TRUNC)));
        assert!(!opens_to_change("/dev/null", flags(libc::O_WRONLY | libc::O_CREAT)));
    }
}
