//! Page faults are seen to begin and to end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quietcore_bpf::{Set, Settings, State, Timeline, Watch, What};
use quietcore_measure::Nanos;

struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs root: cargo test -p quietcore-bpf --test faults -- --ignored"]
fn root_a_fault_ends_before_its_thread_faults_again() {
    let settings = Settings {
        sets: vec![Set::Fault],
        slots: 1 << 16,
        ..Settings::new(Watch::All, Nanos::from_secs(1))
    };
    let timeline = Timeline::start(&settings).unwrap();
    let ends = timeline.health().iter().find(|health| health.program == "fault_end").unwrap();
    assert_eq!(ends.state, State::Ok);
    let script = "while :; do /bin/true; done";
    let _load =
        Load(Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().unwrap());
    std::thread::sleep(Duration::from_millis(300));

    let mut events: Vec<_> =
        (0..timeline.cpus()).flat_map(|cpu| timeline.events_after(cpu, 0).events).collect();
    events.sort_by_key(|event| event.ts);
    let (mut open, mut faults, mut ended) = (BTreeMap::new(), 0, 0);
    let mut lengths = Vec::new();
    for event in events {
        match event.what {
            What::Fault { tid, .. } => {
                open.insert(tid, event.ts);
                faults += 1;
            }
            What::FaultEnd { tid } => {
                if let Some(since) = open.remove(&tid) {
                    lengths.push(Nanos(event.ts - since));
                    ended += 1;
                }
            }
            _ => {}
        }
    }
    lengths.sort_unstable();
    println!("{faults} faults, {ended} seen to end; half within {}", lengths[lengths.len() / 2]);
    // Of some the kernel must try again, and those are not counted.
    assert!(faults > 100 && ended * 10 >= faults * 9, "{ended} of {faults}");
}
