//! The line to the machine: scripts go in, records come out.
//!
//! `lab/machine/root/usr/local/lib/quietcore-lab/agent` is at the other end.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::lab::records::{self, Record};

/// QEMU makes its socket before it does anything slow.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);

pub struct Channel {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Channel {
    /// Connects to the socket that QEMU is about to make.
    pub fn open(socket: &Path) -> Result<Self> {
        let limit = Instant::now() + CONNECT_LIMIT;
        loop {
            match UnixStream::connect(socket) {
                Ok(stream) => return Ok(Self { stream, received: Vec::new() }),
                Err(e) if Instant::now() > limit => {
                    return Err(e).context("QEMU did not open the machine's channel");
                }
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Has a script run, of which the guest kills what is left after so many seconds.
    pub fn send(&mut self, name: &str, seconds: u64, script: &str) -> Result<()> {
        let request = format!("{name} {seconds} {}\n{script}", script.len());
        self.stream.write_all(request.as_bytes()).context("writing to the machine")
    }

    /// The next record, which must be complete before `limit`.
    pub fn receive(&mut self, limit: Instant) -> Result<Record> {
        loop {
            if let Some((record, length)) = records::first(&self.received, &records::sha256)? {
                self.received.drain(..length);
                return Ok(record);
            }
            self.read(limit)?;
        }
    }

    /// The greeting of a boot. A machine that goes down may leave half a record before it.
    pub fn greeting(&mut self, limit: Instant) -> Result<Record> {
        const HELLO: &[u8] = b"QCLAB1 hello ";
        loop {
            if let Some(at) = self.received.windows(HELLO.len()).position(|w| w == HELLO) {
                self.received.drain(..at);
                return self.receive(limit);
            }
            self.read(limit)?;
        }
    }

    fn read(&mut self, limit: Instant) -> Result<()> {
        let left = limit.saturating_duration_since(Instant::now());
        if left.is_zero() {
            bail!("the machine did not answer in time");
        }
        self.stream.set_read_timeout(Some(left)).context("setting a time limit")?;
        let mut bytes = [0; 65536];
        match self.stream.read(&mut bytes) {
            Ok(0) => bail!("QEMU ended"),
            Ok(n) => self.received.extend_from_slice(&bytes[..n]),
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock) => {
                bail!("the machine did not answer in time");
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e).context("reading from the machine"),
        }
        Ok(())
    }
}
