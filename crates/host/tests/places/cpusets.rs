//! With version 1 of the controller, where this machine has it; a guest of the lab has version 2.

use std::fs;

use quietcore_sys::Host;
use quietcore_sys::lease::{Change, Lease, Outcome, Slot, Value, started_at};

use crate::bench::{cores, there_and_back};
use crate::threads::Sleeper;

const ROOT: &str = "/sys/fs/cgroup/cpuset";

#[test]
fn root_isolated_cpus_get_a_set_of_their_own_and_the_rest_another() {
    if !fs::exists(format!("{ROOT}/cpuset.cpus")).unwrap() {
        eprintln!("skipped: version 1 of cpuset is not mounted here");
        return;
    }
    let sleeper = Sleeper::on("0-1");
    let of_ours = |slot: &Slot| match slot {
        Slot::Member { pid, .. } => *pid == sleeper.tid(),
        _ => true,
    };
    let reads = |name: &str| fs::read_to_string(format!("{ROOT}/{name}")).unwrap();
    there_and_back(
        "cpuset",
        "exclusive",
        &cores("1", "0"),
        |item| of_ours(&item.slot),
        |_| {
            assert_eq!(reads("quietcore/cpuset.cpus"), "1\n");
            assert_eq!(reads("quietcore/cpuset.cpu_exclusive"), "1\n");
            assert_eq!(reads("quietcore-system/cgroup.procs"), format!("{}\n", sleeper.tid()));
            assert_eq!(sleeper.cpus(), "0");
        },
    );
    assert_eq!(sleeper.cpus(), "0-1");
    assert!(!fs::exists(format!("{ROOT}/quietcore")).unwrap());
}

#[test]
fn root_a_thread_in_a_set_gets_its_cpus_back_once_it_is_out_of_it() {
    if !fs::exists(format!("{ROOT}/cpuset.cpus")).unwrap() {
        eprintln!("skipped: version 1 of cpuset is not mounted here");
        return;
    }
    let sleeper = Sleeper::on("0-1");
    let folder = format!("{ROOT}/quietcore-test-{}", std::process::id());
    fs::create_dir(&folder).unwrap();
    for (name, value) in [("cpuset.cpus", "0"), ("cpuset.mems", "0")] {
        fs::write(format!("{folder}/{name}"), value).unwrap();
    }
    let (pid, started) = (sleeper.tid(), started_at(sleeper.tid()).unwrap());
    let group = folder.rsplit('/').next().unwrap();
    let change = |slot, want: &str| Change { slot, want: Value::text(want), optional: false };
    // The set first, as the knobs do it, so that the thread is the first to be given back: in vain.
    let changes = [
        change(Slot::Member { pid, started, mount: ROOT.to_owned() }, &format!("/{group}")),
        change(Slot::Affinity { tid: pid, started }, "0"),
    ];
    let state = tempfile::tempdir().unwrap();
    let mut host = Host::live();
    let mut lease = Lease::take(state.path(), "t", &host).unwrap();
    lease.change(&mut host, &changes).unwrap();
    let back = lease.take_back(&mut host, |_| true).unwrap();
    fs::remove_dir(&folder).unwrap();
    assert!(!back.iter().any(|b| matches!(b.outcome, Outcome::Failed(_))), "{back:?}");
    assert_eq!(sleeper.cpus(), "0-1");
    assert!(lease.is_empty());
}
