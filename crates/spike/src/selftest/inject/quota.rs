//! A control group that may use a fifth of a CPU.

use std::fs;
use std::path::{Path, PathBuf};
use std::{io, process};

use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::Class;

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Stage, random};

pub const INJECTOR: Injector = Injector {
    name: "quota",
    about: "a control group of 20 ms in every 100 ms (cpu.max or cpu.cfs_quota_us)",
    expects: &[Kind::CpuQuota],
    spins: true,
    // Others may take the CPU for some milliseconds at a time; the quota takes it for longer.
    threshold: Nanos::from_ms(40),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    let group = Group::with_quota("20000", "100000")?;
    group.enter()?;
    let victim = stage.be_victim(Class::Other { nice: -10 })?;
    victim.spin_causing();
    drop(group);
    Ok(())
}

/// A control group of our own, which goes away with this.
struct Group {
    path: PathBuf,
    parent: PathBuf,
}

impl Group {
    fn with_quota(quota: &str, period: &str) -> Result<Self, NotHere> {
        let (mount, unified) = cpu_controller()?;
        let path = mount.join(format!("q{:x}", random() >> 32));
        fs::create_dir(&path).map_err(|error| NotHere(format!("{}: {error}", path.display())))?;
        let group = Self { path, parent: mount };
        if unified {
            group.write("cpu.max", &format!("{quota} {period}"))?;
        } else {
            group.write("cpu.cfs_period_us", period)?;
            group.write("cpu.cfs_quota_us", quota)?;
        }
        Ok(group)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), NotHere> {
        let path = self.path.join(file);
        fs::write(&path, text).map_err(|error| NotHere(format!("{}: {error}", path.display())))
    }

    fn enter(&self) -> Result<(), NotHere> {
        self.write("cgroup.procs", &process::id().to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group of threads that have left can be removed; one that is left is named to nobody.
        let _ = fs::write(self.parent.join("cgroup.procs"), process::id().to_string());
        let _ = fs::remove_dir(&self.path);
    }
}

/// Where the CPU controller is mounted, and whether that is version 2.
fn cpu_controller() -> Result<(PathBuf, bool), NotHere> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    for mount in fields.filter(|fields| fields.len() > 3) {
        let path = Path::new(mount[1]);
        match mount[2] {
            "cgroup" if mount[3].split(',').any(|option| option == "cpu") => {
                return Ok((path.to_owned(), false));
            }
            "cgroup2" if has_cpu(path).unwrap_or(false) => return Ok((path.to_owned(), true)),
            _ => {}
        }
    }
    Err(NotHere("no cgroup mount has the cpu controller".into()))
}

fn has_cpu(mount: &Path) -> io::Result<bool> {
    let passed_on = fs::read_to_string(mount.join("cgroup.subtree_control"))?;
    Ok(passed_on.split_ascii_whitespace().any(|controller| controller == "cpu"))
}
