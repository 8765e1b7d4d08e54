//! Who is watched, and keeping out of their way.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{anyhow, bail};
use quietcore_bpf::Watch;
use quietcore_console::check_online;
use quietcore_facts::Facts;
use quietcore_measure::CpuSet;
use quietcore_sys::{Host, sched};

use super::Spikes;

/// Who is watched.
#[derive(Debug)]
pub(super) struct Target {
    pub watch: Watch,
    /// The CPUs they use.
    cpus: CpuSet,
    name: String,
}

impl Target {
    /// Refuses what is not there: watching it would see nothing, and look like silence.
    pub fn find(asked: &Spikes, facts: &Facts) -> anyhow::Result<Self> {
        let host = facts.host();
        let found = if let Some(cpus) = &asked.cpus {
            check_online(cpus, &facts.cpus().online).map_err(|why| anyhow!(why))?;
            let (watch, name) = (Watch::Cpus(cpus.clone()), format!("CPUs {cpus}"));
            Self { watch, cpus: cpus.clone(), name }
        } else if asked.all {
            // Nobody must share what was set apart.
            let cpus = host.cpu_list("/sys/devices/system/cpu/isolated").unwrap_or_default();
            Self { watch: Watch::All, cpus, name: "all threads".to_owned() }
        } else if asked.tid.is_empty() {
            let name = named(host, "process", &asked.pid)?;
            let tasks = asked.pid.iter().flat_map(|&pid| host.threads(pid).unwrap_or_default());
            let cpus = tasks.fold(CpuSet::new(), |all, task| all.or(&task.affinity));
            let watch = match asked.pid[..] {
                [pid] => Watch::Process(pid),
                _ => Watch::Tasks(asked.pid.clone()),
            };
            Self { watch, cpus, name }
        } else {
            let name = named(host, "thread", &asked.tid)?;
            let of = |&tid: &u32| sched::affinity(i32::try_from(tid).ok()?).ok();
            let cpus = asked.tid.iter().filter_map(of).fold(CpuSet::new(), |all, one| all.or(&one));
            let watch = match asked.tid[..] {
                [tid] => Watch::Thread(tid),
                _ => Watch::Threads(asked.tid.clone()),
            };
            Self { watch, cpus, name }
        };
        Ok(found)
    }

    /// Moves this thread, and those that it will start, off the CPUs of whom it watches where it
    /// may run elsewhere. The CPUs it stays on.
    pub fn keep_away(&self) -> CpuSet {
        let own = sched::affinity(sched::CALLER).unwrap_or_default();
        let away = own.minus(&self.cpus);
        match away.is_empty() || sched::place(sched::CALLER, &away).is_err() {
            true => own,
            false => away,
        }
    }

    /// The processes of whom was named; none where CPUs or all threads are watched.
    pub fn processes(&self, host: &Host) -> BTreeSet<u32> {
        let of = |tid: &u32| -> Option<u32> {
            let status = host.read(&format!("/proc/{tid}/status")).ok()?;
            status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
        };
        match &self.watch {
            Watch::All | Watch::Cpus(_) => BTreeSet::new(),
            Watch::Process(number) | Watch::Thread(number) => of(number).into_iter().collect(),
            Watch::Tasks(numbers) | Watch::Threads(numbers) => {
                numbers.iter().filter_map(of).collect()
            }
        }
    }

    /// Whether any of them is still there.
    pub fn lives(&self, host: &Host) -> bool {
        let there = |number: &u32| host.exists(&format!("/proc/{number}"));
        match &self.watch {
            Watch::All | Watch::Cpus(_) => true,
            Watch::Process(number) | Watch::Thread(number) => there(number),
            Watch::Tasks(numbers) | Watch::Threads(numbers) => numbers.iter().any(there),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// `process 812 (engine)`; an error names what is not there.
fn named(host: &Host, what: &str, numbers: &[u32]) -> anyhow::Result<String> {
    let mut names = Vec::new();
    for &number in numbers {
        if number == std::process::id() {
            bail!("{what} {number} is quietcore itself, which is never watched");
        }
        let Ok(comm) = host.line(&format!("/proc/{number}/comm")) else {
            bail!("there is no {what} {number}");
        };
        names.push(format!("{number} ({comm})"));
    }
    let what = match (numbers.len(), what) {
        (1, what) => what.to_owned(),
        (_, "process") => "processes".to_owned(),
        (_, what) => format!("{what}s"),
    };
    Ok(format!("{what} {}", names.join(", ")))
}
