//! Threads of a running process, placed and given back. In a program of its own: `*` means its
//! other threads, too.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use quietcore_host::placement::{Ground, Map, Moved, State, assign, lease_of, place};
use quietcore_host::tuning::rollback;
use quietcore_measure::CpuSet;
use quietcore_sys::Host;
use quietcore_sys::lease::{Outcome, look};
use quietcore_sys::sched;

/// A thread that lives as long as this is kept.
struct Named {
    tid: u32,
    _end: Sender<()>,
}

impl Named {
    fn start(name: &str) -> Self {
        let (end, wait): (Sender<()>, Receiver<()>) = channel();
        let (tell, told) = channel();
        let body = move || {
            let tid = std::fs::read_link("/proc/thread-self").unwrap();
            tell.send(tid.file_name().unwrap().to_str().unwrap().parse().unwrap()).unwrap();
            let _ = wait.recv();
        };
        thread::Builder::new().name(name.to_owned()).spawn(body).unwrap();
        Self { tid: told.recv().unwrap(), _end: end }
    }

    fn cpus(&self) -> CpuSet {
        sched::affinity(self.tid as i32).unwrap()
    }
}

fn put(folder: &Path, map: &str) -> Vec<Moved> {
    let mut host = Host::live();
    let map: Map = map.parse().unwrap();
    let pid = std::process::id();
    let threads = host.threads(pid).unwrap();
    let online = sched::affinity(sched::CALLER).unwrap();
    let ground = Ground { pid, threads: &threads, online: &online, cpuset: None };
    let placements = assign(&map, &ground, true).unwrap();
    place(&mut host, folder, pid, &map, &placements).unwrap()
}

fn states(moved: &[Moved]) -> BTreeMap<u32, &State> {
    moved.iter().map(|moved| (moved.placement.task.tid, &moved.state)).collect()
}

#[test]
fn threads_are_placed_and_given_back_and_what_others_have_set_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let before = sched::affinity(sched::CALLER).unwrap();
    let (first, last) = (before.lowest().unwrap(), before.highest().unwrap());
    let one = |cpu: usize| CpuSet::from_iter([cpu]);
    let (btc, eth, log) = (Named::start("btc-usd"), Named::start("eth-usd"), Named::start("log"));
    let pid = std::process::id();

    let moved = put(folder.path(), &format!("btc={last},eth={first}"));
    assert_eq!((btc.cpus(), eth.cpus(), log.cpus()), (one(last), one(first), before.clone()));
    // On a machine of one CPU they were there already.
    let done = if before.len() == 1 { State::Already } else { State::Placed };
    assert_eq!(states(&moved), BTreeMap::from([(btc.tid, &done), (eth.tid, &done)]));

    // Once more, with all others: the journal still knows what was before the first time.
    let moved = put(folder.path(), &format!("btc={last},*={first}"));
    assert_eq!(states(&moved)[&btc.tid], &State::Already);
    assert_eq!((btc.cpus(), log.cpus()), (one(last), one(first)));
    let mut host = Host::live();
    let standing = look(folder.path(), &lease_of(pid), &host).unwrap();
    if before.len() > 1 {
        assert_eq!(standing.unwrap().about["placement"]["btc"], last.to_string());
        // Somebody else moves one of them.
        sched::place(log.tid as i32, &one(last)).unwrap();
    }

    let done = rollback(&mut host, folder.path(), &lease_of(pid)).unwrap();
    assert_eq!((btc.cpus(), eth.cpus()), (before.clone(), before.clone()));
    let kept = |outcome: &Outcome| matches!(outcome, Outcome::Kept { .. });
    let places = done.map_or(Vec::new(), |done| done.places);
    let kept = places.iter().filter(|place| kept(&place.outcome)).count();
    assert_eq!(kept, usize::from(before.len() > 1), "{places:?}");
    assert_eq!(look(folder.path(), &lease_of(pid), &host).unwrap(), None);
}
