//! Timers of the wheel: keep-alives of many connections, which expire in the TIMER softirq of the
//! CPU that armed them.

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use quietcore_measure::{Kind, Nanos};
use quietcore_sys::sched::{self, Class};
use rustix::net::sockopt;

use super::net_rx::own_loopback;
use crate::selftest::Injector;
use crate::selftest::stage::{NotHere, Span, Stage, now};

/// Connections: their timers take the softirq some hundred microseconds.
const CONNECTIONS: usize = 300;

/// A timer of a second is kept to an eighth of it.
const GRAIN: u64 = 130_000_000;

pub const INJECTOR: Injector = Injector {
    name: "timers",
    about: "keep-alive timers of 300 connections, armed on the victim's CPU",
    expects: &[Kind::Softirq],
    spins: true,
    threshold: Nanos::from_us(100),
    run,
};

fn run(stage: &Stage) -> Result<(), NotHere> {
    own_loopback(stage.cpu)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let to = listener.local_addr()?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push((TcpStream::connect(to)?, listener.accept()?));
    }
    let victim = stage.be_victim(Class::Fifo { priority: 20 })?;
    let armed = now();
    for (stream, _) in &connections {
        sockopt::set_tcp_keepidle(stream, Duration::from_secs(1))?;
        sockopt::set_tcp_keepintvl(stream, Duration::from_secs(1))?;
        sockopt::set_socket_keepalive(stream, true)?;
    }
    thread::scope(|_| victim.spin());
    let over = now();
    let mut start = armed + 1_000_000_000;
    while start + GRAIN < over {
        victim.log.caused(Span { start, end: start + GRAIN });
        start += 1_000_000_000 + GRAIN;
    }
    sched::set_class(sched::CALLER, Class::Other { nice: 0 })?;
    Ok(())
}
