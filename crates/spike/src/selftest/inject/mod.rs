//! The injectors, one file each.

use super::Injector;

macro_rules! injectors {
    ($($file:ident)*) => {
        $(mod $file;)*

        /// Every injector, interrupts first.
        pub const ALL: &[Injector] = &[$($file::INJECTOR),*];
    };
}

mod program;

injectors! {
    tick
    hrtimer
    ipi
    tlb
    net_rx
    timers
    page_fault
    kworker
    fifo
    competitor
    quota
    rt_limit
    futex
    malloc
    disk
    java_gc
    go_gc
    sleep
}
