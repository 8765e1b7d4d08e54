//! Another thread of the process unmaps memory, so that every CPU has to forget it.

use std::thread;

use memmap2::MmapMut;
use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::Class;

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Stage};

pub const INJECTOR: Injector = Injector {
    name: "tlb",
    about: "memory unmapped by another thread of the process: munmap",
    expects: &[Kind::TlbShootdown],
    spins: true,
    threshold: Nanos::from_us(1),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let victim = stage.be_victim(Class::Fifo { priority: 20 })?;
    thread::scope(|scope| {
        stage.helper(scope, "u", |log| {
            while !stage.over() {
                let Ok(mut pages) = MmapMut::map_anon(4 * 4096) else { return };
                pages.fill(1);
                stage.pause(2_000_000);
                log.causing(|| drop(pages));
            }
        })?;
        victim.spin();
        Ok(())
    })
}
