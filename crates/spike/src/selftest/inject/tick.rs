//! The periodic tick, which is there without being asked for.

use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::Class;

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Span, Stage, now};

/// The moment of a tick, delivery by a host included.
const LATE: u64 = 20_000;

pub const INJECTOR: Injector = Injector {
    name: "tick",
    about: "the periodic tick of a busy CPU",
    expects: &[Kind::Tick],
    spins: true,
    threshold: Nanos::from_us(1),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let (period, due) = stage.tick();
    let due =
        due.ok_or_else(|| NotHere("/proc/timer_list does not say when ticks are due".into()))?;
    let victim = stage.be_victim(Class::Fifo { priority: 20 })?;
    let log = stage.log();
    let begin = now();
    victim.spin();
    let first = begin + period - (begin + period - due % period) % period;
    for start in (first..now() - LATE).step_by(usize::try_from(period).unwrap_or(usize::MAX)) {
        log.caused(Span { start, end: start + LATE });
    }
    Ok(())
}
