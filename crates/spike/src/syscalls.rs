//! The names of system calls, and what a thread that sleeps in one sleeps for.

use quietcore_measure::Kind;

/// `kind "name" number;` of every such call that this architecture has.
macro_rules! calls {
    ($($(#[$only:meta])* $kind:ident $name:literal $number:ident;)*) => {
        &[$($(#[$only])* (calls!(@ $kind), $name, libc::$number),)*]
    };
    (@ Any) => { None };
    (@ $kind:ident) => { Some(Kind::$kind) };
}

/// `Any` says nothing by itself: a read may wait for a device or for another program.
const CALLS: &[(Option<Kind>, &str, libc::c_long)] = calls! {
    Sleep "nanosleep" SYS_nanosleep;
    Sleep "clock_nanosleep" SYS_clock_nanosleep;
    #[cfg(target_arch = "x86_64")] Sleep "poll" SYS_poll;
    Sleep "ppoll" SYS_ppoll;
    #[cfg(target_arch = "x86_64")] Sleep "select" SYS_select;
    Sleep "pselect6" SYS_pselect6;
    #[cfg(target_arch = "x86_64")] Sleep "epoll_wait" SYS_epoll_wait;
    Sleep "epoll_pwait" SYS_epoll_pwait;
    Sleep "epoll_pwait2" SYS_epoll_pwait2;
    #[cfg(target_arch = "x86_64")] Sleep "pause" SYS_pause;
    Sleep "rt_sigtimedwait" SYS_rt_sigtimedwait;
    Sleep "rt_sigsuspend" SYS_rt_sigsuspend;
    Sleep "wait4" SYS_wait4;
    Sleep "waitid" SYS_waitid;
    Sleep "accept" SYS_accept;
    Sleep "accept4" SYS_accept4;
    Sleep "recvfrom" SYS_recvfrom;
    Sleep "recvmsg" SYS_recvmsg;
    Sleep "recvmmsg" SYS_recvmmsg;
    Sleep "msgrcv" SYS_msgrcv;
    Sleep "mq_timedreceive" SYS_mq_timedreceive;
    Sleep "io_getevents" SYS_io_getevents;
    Sleep "io_uring_enter" SYS_io_uring_enter;
    Sleep "restart_syscall" SYS_restart_syscall;
    Lock "futex" SYS_futex;
    Lock "futex_waitv" SYS_futex_waitv;
    Lock "semop" SYS_semop;
    Lock "semtimedop" SYS_semtimedop;
    Lock "flock" SYS_flock;
    Io "fsync" SYS_fsync;
    Io "fdatasync" SYS_fdatasync;
    Io "msync" SYS_msync;
    Io "sync" SYS_sync;
    Io "syncfs" SYS_syncfs;
    Io "sync_file_range" SYS_sync_file_range;
    Any "read" SYS_read;
    Any "write" SYS_write;
    #[cfg(target_arch = "x86_64")] Any "open" SYS_open;
    Any "openat" SYS_openat;
    Any "close" SYS_close;
    Any "mmap" SYS_mmap;
    Any "mprotect" SYS_mprotect;
    Any "munmap" SYS_munmap;
    Any "mremap" SYS_mremap;
    Any "madvise" SYS_madvise;
    Any "brk" SYS_brk;
    Any "ioctl" SYS_ioctl;
    Any "pread64" SYS_pread64;
    Any "pwrite64" SYS_pwrite64;
    Any "readv" SYS_readv;
    Any "writev" SYS_writev;
    Any "sendto" SYS_sendto;
    Any "sendmsg" SYS_sendmsg;
    Any "sched_yield" SYS_sched_yield;
    Any "getpid" SYS_getpid;
    Any "gettid" SYS_gettid;
    Any "clone" SYS_clone;
    Any "clone3" SYS_clone3;
    Any "execve" SYS_execve;
    Any "exit" SYS_exit;
    Any "clock_gettime" SYS_clock_gettime;
    Any "membarrier" SYS_membarrier;
};

fn numbers(of: Kind) -> Vec<u32> {
    let calls = CALLS.iter().filter(|(kind, ..)| *kind == Some(of));
    calls.filter_map(|&(.., number)| u32::try_from(number).ok()).collect()
}

/// Those in which a thread asks to sleep: that it sleeps is no spike, waking up late is. For
/// [`quietcore_bpf::Settings::voluntary`].
pub fn asked_to_sleep() -> Vec<u32> {
    numbers(Kind::Sleep)
}

/// Those that wait for a lock, or for as long as they were told to: which of the two it was is known
/// when they end. For [`quietcore_bpf::Settings::timed`].
pub fn locks() -> Vec<u32> {
    numbers(Kind::Lock)
}

fn known(number: u32) -> Option<&'static (Option<Kind>, &'static str, libc::c_long)> {
    CALLS.iter().find(|&&(.., of)| of == libc::c_long::from(number))
}

/// What a thread that sleeps in it waits for, where the number alone says it.
pub fn sleeps_for(number: u32) -> Option<(Kind, &'static str)> {
    known(number).and_then(|&(kind, name, _)| Some((kind?, name)))
}

/// A system call's name, or its number.
pub fn name(number: u32) -> String {
    known(number).map_or_else(|| format!("system call {number}"), |&(_, name, _)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_leads_back_to_its_name() {
        for &(kind, called, number) in CALLS {
            let number = u32::try_from(number).unwrap();
            assert_eq!((name(number), sleeps_for(number).map(|it| it.0)), (called.into(), kind));
        }
        assert_eq!(name(9999), "system call 9999");
    }

    #[test]
    fn a_lock_is_not_a_sleep_that_was_asked_for() {
        let futex = u32::try_from(libc::SYS_futex).unwrap();
        assert!(!asked_to_sleep().contains(&futex) && locks().contains(&futex));
        assert!(asked_to_sleep().iter().all(|number| !locks().contains(number)));
    }
}
