//! An ordinary thread that wants the victim's CPU as much as it does.

use std::thread;

use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::{self, Class};

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Span, Stage, now};

/// A shorter pause of the competitor is an interrupt, not the victim's turn.
const TURN: u64 = 200_000;

pub const INJECTOR: Injector = Injector {
    name: "competitor",
    about: "a busy ordinary thread on the victim's CPU",
    expects: &[Kind::Preempted, Kind::RunQueue],
    spins: true,
    threshold: Nanos::from_us(20),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let victim = stage.be_victim(Class::Other { nice: 0 })?;
    thread::scope(|scope| {
        stage.helper(scope, "c", |log| {
            let _ = sched::place(sched::CALLER, &[stage.cpu].into_iter().collect());
            let _ = sched::set_class(sched::CALLER, Class::Other { nice: 0 });
            let mut begin = now();
            let mut before = begin;
            while !stage.over() {
                let after = now();
                if after - before > TURN {
                    log.caused(Span { start: begin, end: before });
                    begin = after;
                }
                before = after;
            }
        })?;
        victim.spin();
        Ok(())
    })
}
