//! A real-time thread on the victim's CPU.

use std::thread;

use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::{self, Class};

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Stage, now};

/// How long it burns.
const BURN: u64 = 200_000;

pub const INJECTOR: Injector = Injector {
    name: "fifo",
    about: "a thread in SCHED_FIFO that takes the CPU for 200 µs at a time",
    expects: &[Kind::Preempted],
    spins: true,
    threshold: Nanos::from_us(20),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let victim = stage.be_victim(Class::Fifo { priority: 20 })?;
    thread::scope(|scope| {
        stage.helper(scope, "f", |log| {
            let _ = sched::place(sched::CALLER, &[stage.cpu].into_iter().collect());
            let _ = sched::set_class(sched::CALLER, Class::Fifo { priority: 30 });
            while !stage.over() {
                stage.pause(5_000_000);
                log.causing(|| {
                    let begin = now();
                    while now() - begin < BURN {}
                });
            }
        })?;
        victim.spin();
        Ok(())
    })
}
