//! When page faults end. No tracepoint tells, but the kernel counts each fault when it has dealt with
//! it, and a program can run at every such count.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::perf_event_attr;
use libbpf_rs::{Link, ProgramMut};

/// `PERF_COUNT_SW_PAGE_FAULTS_MIN` and `_MAJ`: without and with waiting for a device.
const COUNTS: [u64; 2] = [5, 6];

/// The program, at every fault of every CPU that is online.
#[derive(Debug)]
pub(crate) struct FaultEnds(#[expect(dead_code, reason = "held")] Vec<Link>);

impl FaultEnds {
    pub fn attach(program: &ProgramMut<'_>, cpus: u32) -> Result<Self, String> {
        let mut held = Vec::new();
        for (cpu, count) in (0..cpus).flat_map(|cpu| COUNTS.map(|count| (cpu, count))) {
            let event = match every(count, cpu) {
                // It is offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                event => event.map_err(|error| format!("counting faults of CPU {cpu}: {error}"))?,
            };
            let link = program.attach_perf_event(event.as_raw_fd());
            held.push(link.map_err(|error| error.to_string())?);
            // Now it is the link's to close.
            let _ = event.into_raw_fd();
        }
        Ok(Self(held))
    }
}

/// An event for every single count of a software counter on a CPU.
fn every(count: u64, cpu: u32) -> io::Result<OwnedFd> {
    const SOFTWARE: u32 = 1;
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let mut attr = perf_event_attr {
        type_: SOFTWARE,
        config: count,
        size: u32::try_from(size_of::<perf_event_attr>()).unwrap_or_default(),
        ..perf_event_attr::default()
    };
    attr.__bindgen_anon_1.sample_period = 1;
    // SAFETY: the attribute is valid for the call, its size is in it, and the kernel only reads it.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, cpu, -1, CLOSE_ON_EXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap_or(-1)) })
}
