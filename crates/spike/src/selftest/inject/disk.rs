//! Writing to a file and waiting for the disk.

use std::env;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::Class;

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Span, Stage, now, random};

pub const INJECTOR: Injector = Injector {
    name: "disk",
    about: "256 KB written to a file and waited for: fdatasync",
    expects: &[Kind::Io],
    spins: false,
    threshold: Nanos::from_us(20),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let path = ["/var/tmp".into(), env::temp_dir()]
        .into_iter()
        .find(|place| !in_memory(place))
        .ok_or(NotHere("/var/tmp lies in memory".into()))?
        .join(format!(".{:x}", random()));
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    // Nobody finds it, whatever ends this.
    fs::remove_file(&path)?;
    let victim = stage.be_victim(Class::Fifo { priority: 20 })?;
    while victim.goes_on() {
        stage.pause(5_000_000);
        // So much that waiting outweighs asking.
        file.write_all_at(&vec![random() as u8; 256 << 10], 0)?;
        let start = now();
        file.sync_data()?;
        let span = Span { start, end: now() };
        if span.end - span.start >= stage.threshold.0 {
            victim.log.caused(span);
            victim.log.felt(span);
        }
    }
    Ok(())
}

fn in_memory(path: &std::path::Path) -> bool {
    /// `TMPFS_MAGIC`
    const TMPFS: i64 = 0x0102_1994;
    rustix::fs::statfs(path).is_ok_and(|of| of.f_type == TMPFS)
}
