//! The victim touches memory for the first time.

use memmap2::{Advice, MmapMut};
use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::Class;

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Span, Stage, now};

/// A large page, so that clearing it takes long; where there are none, the first of 512 small ones.
const BYTES: usize = 2 << 20;

pub const INJECTOR: Injector = Injector {
    name: "page-fault",
    about: "memory touched for the first time, in pages of 2 MB where there are any",
    expects: &[Kind::PageFault],
    spins: true,
    threshold: Nanos::from_us(1),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let victim = stage.be_victim(Class::Fifo { priority: 20 })?;
    while victim.goes_on() {
        let mut pages = MmapMut::map_anon(2 * BYTES)?;
        // Without large pages a small one is touched.
        let _ = pages.advise(Advice::HugePage);
        // Aligned, so that all of a large page lies within the map.
        let first = BYTES - (pages.as_ptr() as usize & (BYTES - 1));
        stage.pause(3_000_000);
        let start = now();
        pages[first] = 1;
        let span = Span { start, end: now() };
        if span.end - span.start >= stage.threshold.0 {
            victim.log.caused(span);
            victim.log.felt(span);
        }
    }
    Ok(())
}
