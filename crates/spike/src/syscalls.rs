//! System calls in which a thread asks to sleep: that it sleeps is no spike, waking up late is.

/// `(name, number)` of every such call that this architecture has.
macro_rules! calls {
    ($($(#[$only:meta])* $name:literal $number:ident;)*) => {
        &[$($(#[$only])* ($name, libc::$number),)*]
    };
}

const ASKED: &[(&str, libc::c_long)] = calls! {
    "nanosleep" SYS_nanosleep;
    "clock_nanosleep" SYS_clock_nanosleep;
    #[cfg(target_arch = "x86_64")] "poll" SYS_poll;
    "ppoll" SYS_ppoll;
    #[cfg(target_arch = "x86_64")] "select" SYS_select;
    "pselect6" SYS_pselect6;
    #[cfg(target_arch = "x86_64")] "epoll_wait" SYS_epoll_wait;
    "epoll_pwait" SYS_epoll_pwait;
    "epoll_pwait2" SYS_epoll_pwait2;
    #[cfg(target_arch = "x86_64")] "pause" SYS_pause;
    "rt_sigtimedwait" SYS_rt_sigtimedwait;
    "rt_sigsuspend" SYS_rt_sigsuspend;
    "wait4" SYS_wait4;
    "waitid" SYS_waitid;
    "accept" SYS_accept;
    "accept4" SYS_accept4;
    "recvfrom" SYS_recvfrom;
    "recvmsg" SYS_recvmsg;
    "recvmmsg" SYS_recvmmsg;
    "msgrcv" SYS_msgrcv;
    "io_getevents" SYS_io_getevents;
    "io_uring_enter" SYS_io_uring_enter;
    "restart_syscall" SYS_restart_syscall;
};

/// Their numbers, for [`quietcore_bpf::Settings::voluntary`].
pub fn asked_to_sleep() -> Vec<u32> {
    ASKED.iter().filter_map(|&(_, number)| u32::try_from(number).ok()).collect()
}

/// The name of one of them.
pub fn name(number: u32) -> Option<&'static str> {
    ASKED.iter().find(|&&(_, of)| of == libc::c_long::from(number)).map(|&(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_leads_back_to_its_name() {
        let names: Vec<_> = asked_to_sleep().into_iter().filter_map(name).collect();
        let all: Vec<_> = ASKED.iter().map(|&(name, _)| name).collect();
        assert_eq!(names, all);
        assert_eq!(name(u32::MAX), None);
    }

    #[test]
    fn a_lock_is_not_a_sleep_that_was_asked_for() {
        let futex = u32::try_from(libc::SYS_futex).unwrap();
        assert!(!asked_to_sleep().contains(&futex));
    }
}
