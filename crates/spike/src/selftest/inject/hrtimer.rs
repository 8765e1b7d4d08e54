//! Timers of high resolution that expire on the victim's CPU and wake nobody.

use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::{self, Class};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Span, Stage, now};

/// How many, and how far apart at least.
const TIMERS: usize = 250;
const APART: u64 = 5_000_000;

/// The moment of a timer, delivery by a host included.
const LATE: u64 = 20_000;

pub const INJECTOR: Injector = Injector {
    name: "hrtimer",
    about: "timers (timerfd) armed on the victim's CPU, which nobody waits for",
    expects: &[Kind::Timer],
    spins: true,
    threshold: Nanos::from_us(1),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let victim = stage.be_victim(Class::Fifo { priority: 20 })?;
    // A timer stays on the CPU where it was armed, which is this one.
    let mut timers = Vec::new();
    let mut at = now() + 20_000_000;
    for _ in 0..TIMERS {
        at = stage.quiet_moment(at, APART);
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &once(at))?;
        timers.push((timer, at));
    }
    victim.spin();
    let over = now();
    for &(_, start) in timers.iter().filter(|&&(_, at)| at + LATE < over) {
        victim.log.caused(Span { start, end: start + LATE });
    }
    sched::set_class(sched::CALLER, Class::Other { nice: 0 })?;
    Ok(())
}

fn once(at: u64) -> Itimerspec {
    let at = i64::try_from(at).unwrap_or(i64::MAX);
    Itimerspec {
        it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: Timespec { tv_sec: at / 1_000_000_000, tv_nsec: at % 1_000_000_000 },
    }
}
