//! Another thread has every CPU that runs this process pass a memory barrier.

use std::thread;

use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::Class;
use rustix::thread::{MembarrierCommand, membarrier};

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Stage};

pub const INJECTOR: Injector = Injector {
    name: "ipi",
    about: "memory barriers asked of the victim's CPU: membarrier(PRIVATE_EXPEDITED)",
    expects: &[Kind::Ipi],
    spins: true,
    threshold: Nanos::from_us(1),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    membarrier(MembarrierCommand::RegisterPrivateExpedited)?;
    let victim = stage.be_victim(Class::Fifo { priority: 20 })?;
    thread::scope(|scope| {
        stage.helper(scope, "b", |log| {
            while !stage.over() {
                stage.pause(2_000_000);
                let _ = log.causing(|| membarrier(MembarrierCommand::PrivateExpedited));
            }
        })?;
        victim.spin();
        Ok(())
    })
}
