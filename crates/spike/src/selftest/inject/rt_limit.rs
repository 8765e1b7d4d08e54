//! A real-time thread that never sleeps, against which the kernel has a safety catch.

use std::thread;

use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::{self, Class};

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Stage, now};

pub const INJECTOR: Injector = Injector {
    name: "rt-limit",
    about: "a SCHED_FIFO thread that spins until the kernel takes the CPU from it",
    expects: &[Kind::RtThrottled],
    spins: true,
    threshold: Nanos::from_ms(5),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let victim = stage.be_victim(Class::Fifo { priority: 20 })?;
    thread::scope(|scope| {
        // Somebody whom the catch is for: without an ordinary thread there nothing is taken.
        stage.helper(scope, "o", |_| {
            let _ = sched::set_class(sched::CALLER, Class::Other { nice: 0 });
            let _ = sched::place(sched::CALLER, &[stage.cpu].into_iter().collect());
            let begin = now();
            while !stage.over() && now() - begin < 60_000_000_000 {}
        })?;
        victim.spin_causing();
        Ok(())
    })
}
