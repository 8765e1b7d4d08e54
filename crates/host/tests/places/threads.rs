//! With processes that the tests start.

use std::process::{Child, Command};

use quietcore_facts::Facts;
use quietcore_measure::CpuSet;
use quietcore_sys::lease::{Lease, Slot};
use quietcore_sys::{Host, sched};

use crate::bench::{cores, propose, there_and_back};

/// A process that waits until it is dropped.
pub struct Sleeper(Child);

impl Sleeper {
    pub fn on(cpus: &str) -> Self {
        let child = Self(Command::new("sleep").arg("600").spawn().unwrap());
        sched::place(child.tid() as i32, &CpuSet::parse_list(cpus).unwrap()).unwrap();
        child
    }

    pub fn tid(&self) -> u32 {
        self.0.id()
    }

    fn owns(&self, slot: &Slot) -> bool {
        matches!(slot, Slot::Affinity { tid, .. } if *tid == self.tid())
    }

    pub fn cpus(&self) -> String {
        sched::affinity(self.tid() as i32).unwrap().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_program_that_may_run_anywhere_is_moved_and_moved_back() {
    let sleeper = Sleeper::on("0-1");
    there_and_back(
        "process-affinity",
        "housekeeping",
        &cores("1", "0"),
        |item| sleeper.owns(&item.slot),
        |_| assert_eq!(sleeper.cpus(), "0"),
    );
    assert_eq!(sleeper.cpus(), "0-1");
}

#[test]
fn a_program_that_was_put_on_an_isolated_cpu_stays_there() {
    let sleeper = Sleeper::on("1");
    let facts = Facts::of(Host::live());
    let proposal = propose(&facts, "process-affinity", "housekeeping", &cores("1", "0"));
    assert!(!proposal.items.is_empty());
    assert!(!proposal.items.iter().any(|item| sleeper.owns(&item.slot)));
}

#[test]
fn a_program_that_has_ended_since_the_plan_is_no_error() {
    let sleeper = Sleeper::on("0-1");
    let facts = Facts::of(Host::live());
    let proposal = propose(&facts, "process-affinity", "housekeeping", &cores("1", "0"));
    let item = proposal.items.iter().find(|item| sleeper.owns(&item.slot)).unwrap();
    let change = item.change().unwrap();
    drop(sleeper);
    let folder = tempfile::tempdir().unwrap();
    let mut host = Host::live();
    let mut lease = Lease::take(folder.path(), "t", &host).unwrap();
    assert_eq!(lease.change(&mut host, &[change]).unwrap(), []);
    lease.end().unwrap();
}
