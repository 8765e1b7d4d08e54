//! Work that the kernel queues on every CPU: collecting the statistics of memory.

use std::fs::OpenOptions;
use std::io::Write;
use std::thread;

use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::Class;

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Stage};

const FILE: &str = "/proc/sys/vm/stat_refresh";

pub const INJECTOR: Injector = Injector {
    name: "kworker",
    about: "work queued on every CPU: vm.stat_refresh",
    expects: &[Kind::Preempted],
    spins: true,
    threshold: Nanos::from_us(1),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let open = || OpenOptions::new().write(true).open(FILE);
    let mut file = open().map_err(|error| NotHere(format!("{FILE}: {error}")))?;
    let victim = stage.be_victim(Class::Other { nice: 0 })?;
    thread::scope(|scope| {
        stage.helper(scope, "w", |log| {
            while !stage.over() {
                stage.pause(20_000_000);
                if log.causing(|| file.write_all(b"1")).is_err() {
                    return;
                }
            }
        })?;
        victim.spin();
        Ok(())
    })
}
