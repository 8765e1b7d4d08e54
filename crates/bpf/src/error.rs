use std::io;

use thiserror::Error;

/// What can go wrong with BPF.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The kernel has no type information of its own: built without `CONFIG_DEBUG_INFO_BTF`.
    #[error("this kernel has no BTF (/sys/kernel/btf/vmlinux is missing)")]
    NoBtf,
    /// A capability is missing.
    #[error("loading BPF programs needs CAP_BPF and CAP_PERFMON, or root: {0}")]
    Privilege(String),
    /// The kernel was built without the system call.
    #[error("this kernel offers no bpf() system call")]
    NoBpf,
    /// The program that everything rests on does not work here.
    #[error("the BPF program {program} cannot be used here: {why}")]
    Program {
        /// Its name.
        program: String,
        /// What the kernel or the loader said.
        why: String,
    },
    /// An object could not be opened, loaded or attached.
    #[error("{doing}: {error}")]
    Libbpf {
        /// What was tried.
        doing: &'static str,
        /// libbpf's error.
        error: libbpf_rs::Error,
    },
    /// The processor, or what the hypervisor shows of it, does not count this.
    #[error("no PMU here: this machine cannot sample {event}; cpu-clock works everywhere")]
    NoEvent {
        /// The event.
        event: &'static str,
    },
    /// A CPU's event could not be opened.
    #[error("sampling {event} on CPU {cpu}: {error}")]
    Event {
        /// The event.
        event: &'static str,
        /// The CPU.
        cpu: usize,
        /// The system's error.
        error: io::Error,
    },
    /// Memory that is shared with the programs could not be mapped.
    #[error("mapping {map}: {error}")]
    Map {
        /// The map.
        map: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl BpfError {
    /// Whether this host can never do it, as opposed to something that went wrong.
    pub fn not_possible_here(&self) -> bool {
        matches!(
            self,
            Self::NoBtf
                | Self::Privilege(_)
                | Self::NoBpf
                | Self::NoEvent { .. }
                | Self::Program { .. }
        )
    }
}
