//! Becoming another program whose memory is locked from its first instruction on.
//!
//! Memory locks end at `execve`, so a launcher that calls `mlockall` and then executes a program
//! has locked nothing; raising the limit only allows the program to do it itself. What works is
//! to make the call *in* the new program: a helper process traces this one across the `execve`,
//! lets it make one system call before its first instruction, and lets go. The program keeps its
//! process id, its parent and its children. What it executes in turn is not locked.

use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::ptr;

use libc::{c_int, c_long, c_void, pid_t};

/// Why a program could not be started with its memory locked.
#[derive(Debug, thiserror::Error)]
pub enum LockedExecError {
    /// The helper could not be started or did not answer.
    #[error("cannot start the helper that locks the new program's memory: {0}")]
    Helper(io::Error),
    /// This process may not be traced.
    #[error(
        "the helper may not trace this process ({0}), which locking another program's memory \
         takes: a debugger, a seccomp filter or kernel.yama.ptrace_scope=3 stands in the way"
    )]
    Trace(io::Error),
    /// The program could not be executed.
    #[error("cannot execute {program}: {error}")]
    Exec {
        /// The program.
        program: String,
        /// What the kernel said.
        error: io::Error,
    },
}

/// Exit code of a program that could not be locked and was therefore not started.
pub const NOT_LOCKED: c_int = 3;

/// Replaces this process by `program` (looked up in PATH) with `arguments`, its name first, and
/// all memory locked, present and future. Returns only if that fails before the program is there;
/// if its memory cannot be locked then, it exits with [`NOT_LOCKED`] before its first instruction
/// and says so on stderr. A set-user-id program is started without the other user's rights.
///
/// To be called while this process has a single thread: it forks.
///
/// # Errors
/// [`LockedExecError`], always.
pub fn exec_locked(program: &CStr, arguments: &[CString]) -> LockedExecError {
    let mut vector: Vec<*const libc::c_char> = arguments.iter().map(|a| a.as_ptr()).collect();
    vector.push(ptr::null());
    if let Err(error) = start_helper() {
        return error;
    }
    // SAFETY: `program` and all of `vector` but its last, null, are C strings that live on.
    unsafe { libc::execvp(program.as_ptr(), vector.as_ptr()) };
    LockedExecError::Exec {
        program: program.to_string_lossy().into_owned(),
        error: io::Error::last_os_error(),
    }
}

/// Starts the helper as a grandchild, so that the new program has no child it does not know, and
/// waits until it traces this process.
fn start_helper() -> Result<(), LockedExecError> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(LockedExecError::Helper(io::Error::last_os_error()));
    }
    let [answers, answer] = ends;
    let mut yama = [0; 2];
    // SAFETY: as above.
    if unsafe { libc::pipe2(yama.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(LockedExecError::Helper(io::Error::last_os_error()));
    }
    let [permission, permit] = yama;
    // SAFETY: getpid takes nothing. The children make async-signal-safe calls only and never
    // return from this block.
    let child = unsafe {
        let tracee = libc::getpid();
        match libc::fork() {
            0 => match libc::fork() {
                0 => helper(tracee, answer, permission),
                grandchild => libc::_exit(c_int::from(grandchild < 0)),
            },
            child => child,
        }
    };
    if child < 0 {
        return Err(LockedExecError::Helper(io::Error::last_os_error()));
    }
    let mut status = 0;
    // SAFETY: `status` is a valid place to write to, and the child is ours to wait for.
    unsafe { libc::waitpid(child, &mut status, 0) };
    // The helper's end: should it die, reading from the other one ends.
    close(&[answer]);
    let answered = (|| {
        let helper_pid = receive(answers)?;
        // Yama lets a process be traced by its ancestors only, unless it names its tracer. On a
        // kernel without Yama this fails, and is not needed.
        // SAFETY: takes integers.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, helper_pid as libc::c_ulong, 0, 0, 0) };
        send(permit, 0);
        receive(answers)
    })();
    close(&[answers, permission, permit]);
    match answered {
        None => Err(LockedExecError::Helper(io::ErrorKind::UnexpectedEof.into())),
        Some(0) => Ok(()),
        Some(errno) => Err(LockedExecError::Trace(io::Error::from_raw_os_error(errno))),
    }
}

fn close(descriptors: &[c_int]) {
    for &descriptor in descriptors {
        // SAFETY: the caller made these and uses them no more.
        unsafe { libc::close(descriptor) };
    }
}

fn send(to: c_int, word: c_int) {
    // SAFETY: four bytes are read from `word`. A write this short to a pipe is whole or not at all.
    unsafe { libc::write(to, ptr::from_ref(&word).cast(), size_of::<c_int>()) };
}

fn receive(from: c_int) -> Option<c_int> {
    let mut word: c_int = 0;
    // SAFETY: at most four bytes are written to `word`.
    let got = unsafe { libc::read(from, ptr::from_mut(&mut word).cast(), size_of::<c_int>()) };
    (got == size_of::<c_int>() as isize).then_some(word)
}

/// The life of the helper: traces, waits for the `execve`, makes the new program lock its memory,
/// and lets go. Async-signal-safe calls only, no allocation.
fn helper(tracee: pid_t, answer: c_int, permission: c_int) -> ! {
    // SAFETY: getpid takes nothing.
    send(answer, unsafe { libc::getpid() });
    let _ = receive(permission);
    let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;
    if trace(libc::PTRACE_SEIZE, tracee, 0, options as usize) < 0 {
        send(answer, errno());
        // SAFETY: ends the helper.
        unsafe { libc::_exit(1) };
    }
    send(answer, 0);
    close(&[answer, permission]);
    let code = match until_exec(tracee).and_then(|()| lock_inside(tracee)) {
        Some(()) => 0,
        None => 1,
    };
    // SAFETY: ends the helper; whatever it still traces is let go by the kernel.
    unsafe { libc::_exit(code) }
}

/// Lets the tracee run until it has executed another program. `None` if it ends instead.
fn until_exec(tracee: pid_t) -> Option<()> {
    const EXEC: c_int = libc::SIGTRAP | libc::PTRACE_EVENT_EXEC << 8;
    loop {
        let status = wait(tracee)?;
        if status >> 8 == EXEC {
            return Some(());
        }
        // A signal on its way to the tracee is passed on; any other stop is just left.
        let signal = match status >> 16 {
            0 => libc::WSTOPSIG(status),
            _ => 0,
        };
        trace(libc::PTRACE_CONT, tracee, 0, signal as usize);
    }
}

/// Makes the program, which has not begun yet, call `mlockall`; if that fails, exit.
fn lock_inside(tracee: pid_t) -> Option<()> {
    // The end of execve has yet to set the result register, and would overwrite ours.
    next_stop(tracee)?;
    let before = arch::Registers::of(tracee)?;
    let at = before.instruction_pointer();
    let code = peek(tracee, at)?;
    poke(tracee, at, arch::with_system_call(code));
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE;
    let result = before.is_native().then(|| {
        before.calling(libc::SYS_mlockall, flags as u64).set(tracee);
        next_stop(tracee)?;
        next_stop(tracee)?;
        Some(arch::Registers::of(tracee)?.result())
    });
    match result {
        Some(Some(0)) => {
            poke(tracee, at, code);
            before.set(tracee);
        }
        refused => {
            complain(refused.flatten());
            before.calling(libc::SYS_exit_group, NOT_LOCKED as u64).set(tracee);
        }
    }
    trace(libc::PTRACE_DETACH, tracee, 0, 0);
    Some(())
}

fn complain(result: Option<i64>) {
    let text: &[u8] = match result.map(|result| -result as c_int) {
        Some(libc::ENOMEM | libc::EAGAIN) => {
            b"quietcore: the program was not started: locking its memory exceeds RLIMIT_MEMLOCK \
              (raise it with `ulimit -l`, memlock in limits.conf or LimitMEMLOCK=) or the memory \
              there is\n"
        }
        Some(libc::EPERM) => {
            b"quietcore: the program was not started: it may not lock memory; grant CAP_IPC_LOCK \
              or raise RLIMIT_MEMLOCK\n"
        }
        _ => {
            b"quietcore: the program was not started: its memory could not be locked from \
              outside (is it built for another architecture?)\n"
        }
    };
    // SAFETY: writes from a static text; nobody could be told of a failure.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// Lets the tracee run to the beginning or the end of a system call. Signals that come before
/// its first instruction wait.
fn next_stop(tracee: pid_t) -> Option<()> {
    const SYSTEM_CALL: c_int = libc::SIGTRAP | 0x80;
    loop {
        trace(libc::PTRACE_SYSCALL, tracee, 0, 0);
        if libc::WSTOPSIG(wait(tracee)?) == SYSTEM_CALL {
            return Some(());
        }
    }
}

/// The status of the tracee's next stop; `None` once it is gone.
fn wait(tracee: pid_t) -> Option<c_int> {
    let mut status = 0;
    // SAFETY: `status` is a valid place to write to.
    let pid = unsafe { libc::waitpid(tracee, &mut status, libc::__WALL) };
    (pid == tracee && libc::WIFSTOPPED(status)).then_some(status)
}

fn trace(request: libc::c_uint, tracee: pid_t, address: usize, data: usize) -> c_long {
    // SAFETY: the requests made here take integers, or for PEEK and POKE an address of the tracee.
    unsafe { libc::ptrace(request as _, tracee, address as *mut c_void, data as *mut c_void) }
}

fn peek(tracee: pid_t, at: usize) -> Option<u64> {
    clear_errno();
    let word = trace(libc::PTRACE_PEEKTEXT, tracee, at, 0);
    (errno() == 0).then_some(word as u64)
}

fn poke(tracee: pid_t, at: usize, word: u64) {
    trace(libc::PTRACE_POKETEXT, tracee, at, word as usize);
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or_default()
}

fn clear_errno() {
    // SAFETY: the C library's errno of this thread is always valid to write to.
    unsafe { *libc::__errno_location() = 0 };
}

/// A tracee's registers, whole, as the kernel gives and takes them.
fn registers<T>(request: libc::c_uint, tracee: pid_t, registers: &mut T) -> bool {
    const NT_PRSTATUS: usize = 1;
    let mut vector =
        libc::iovec { iov_base: ptr::from_mut(registers).cast(), iov_len: size_of::<T>() };
    trace(request, tracee, NT_PRSTATUS, ptr::from_mut(&mut vector) as usize) == 0
        && vector.iov_len == size_of::<T>()
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use super::{mem, pid_t, registers};

    #[derive(Clone, Copy)]
    pub(super) struct Registers(libc::user_regs_struct);

    /// The code with `syscall` (0f 05) at its beginning.
    pub(super) fn with_system_call(code: u64) -> u64 {
        code & !0xffff | 0x050f
    }

    impl Registers {
        pub(super) fn of(tracee: pid_t) -> Option<Self> {
            // SAFETY: plain integers, for which zero is a value.
            let mut this = Self(unsafe { mem::zeroed() });
            registers(libc::PTRACE_GETREGSET, tracee, &mut this.0).then_some(this)
        }

        pub(super) fn set(mut self, tracee: pid_t) {
            registers(libc::PTRACE_SETREGSET, tracee, &mut self.0);
        }

        pub(super) fn instruction_pointer(&self) -> usize {
            self.0.rip as usize
        }

        /// Whether the program is 64-bit code.
        pub(super) fn is_native(&self) -> bool {
            self.0.cs == 0x33
        }

        pub(super) fn calling(mut self, number: i64, argument: u64) -> Self {
            self.0.rax = number as u64;
            self.0.rdi = argument;
            // Not within a system call: nothing to restart.
            self.0.orig_rax = u64::MAX;
            self
        }

        pub(super) fn result(&self) -> i64 {
            self.0.rax as i64
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use super::{mem, pid_t, registers};

    #[derive(Clone, Copy)]
    pub(super) struct Registers(libc::user_regs_struct);

    /// The code with `svc #0` at its beginning.
    pub(super) fn with_system_call(code: u64) -> u64 {
        code & !0xffff_ffff | 0xd400_0001
    }

    impl Registers {
        pub(super) fn of(tracee: pid_t) -> Option<Self> {
            // SAFETY: plain integers, for which zero is a value.
            let mut this = Self(unsafe { mem::zeroed() });
            registers(libc::PTRACE_GETREGSET, tracee, &mut this.0).then_some(this)
        }

        pub(super) fn set(mut self, tracee: pid_t) {
            registers(libc::PTRACE_SETREGSET, tracee, &mut self.0);
        }

        pub(super) fn instruction_pointer(&self) -> usize {
            self.0.pc as usize
        }

        /// Whether the program is 64-bit code: bit 4 of the state is the 32-bit mode.
        pub(super) fn is_native(&self) -> bool {
            self.0.pstate & 0x10 == 0
        }

        pub(super) fn calling(mut self, number: i64, argument: u64) -> Self {
            self.0.regs[8] = number as u64;
            self.0.regs[0] = argument;
            self
        }

        pub(super) fn result(&self) -> i64 {
            self.0.regs[0] as i64
        }
    }
}
