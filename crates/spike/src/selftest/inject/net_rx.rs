//! Packets on a loopback of its own, which the victim's CPU is told to receive.

use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::thread;

use quietcore_measure::{CpuSet, Kind, Nanos};
use quietcore_sys::sched::Class;
use quietcore_sys::selftest::leave_network_and_mounts;

use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Stage};

/// Packets at a time: so many that the interrupt that announces them is small beside them.
const BURST: usize = 64;

pub const INJECTOR: Injector = Injector {
    name: "net-rx",
    about: "UDP over a loopback in a namespace of its own, received by the victim's CPU (RPS)",
    expects: &[Kind::Softirq],
    spins: true,
    threshold: Nanos::from_us(1),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    own_loopback(stage.cpu)?;
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let to = receiver.local_addr()?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    let victim = stage.be_victim(Class::Fifo { priority: 20 })?;
    thread::scope(|scope| {
        stage.helper(scope, "n", |log| {
            while !stage.over() {
                stage.pause(2_000_000);
                log.causing(|| {
                    for _ in 0..BURST {
                        // A full buffer only drops what has been received already.
                        let _ = sender.send_to(&[7; 1024], to);
                    }
                });
            }
        })?;
        victim.spin();
        Ok(())
    })
}

/// Leaves the host's network for one that has only a loopback, whose packets `cpu` receives.
pub fn own_loopback(cpu: usize) -> Result<(), NotHere> {
    leave_network_and_mounts()?;
    let does = |program: &str, args: &[&str]| -> Result<(), NotHere> {
        let output = Command::new(program).args(args).stdin(Stdio::null()).output();
        let output = output.map_err(|error| NotHere(format!("{program}: {error}")))?;
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        output.status.success().then_some(()).ok_or(NotHere(format!("{program}: {why}")))
    };
    does("mount", &["--make-rprivate", "/"])?;
    does("mount", &["-t", "sysfs", "sysfs", "/sys"])?;
    does("ip", &["link", "set", "lo", "up"])?;
    let rps = "/sys/class/net/lo/queues/rx-0/rps_cpus";
    let mask: CpuSet = [cpu].into_iter().collect();
    fs::write(rps, mask.to_mask(cpu + 1)).map_err(|error| NotHere(format!("{rps}: {error}")))
}
