//! Nothing: a thread that sleeps because it wants to.

use std::thread;
use std::time::Duration;

use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::Class;

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Span, Stage, now};

pub const INJECTOR: Injector = Injector {
    name: "sleep",
    about: "no cause at all: a thread that sleeps 2 ms because it wants to",
    expects: &[Kind::Sleep],
    spins: false,
    threshold: Nanos::from_us(20),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let victim = stage.be_victim(Class::Fifo { priority: 20 })?;
    while victim.goes_on() {
        let start = now();
        thread::sleep(Duration::from_millis(2));
        let span = Span { start, end: now() };
        victim.log.caused(span);
        victim.log.felt(span);
    }
    Ok(())
}
