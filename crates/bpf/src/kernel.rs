//! What the running kernel offers, as its own type information says.

use std::io;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Enum, FuncProto, Ptr, Typedef, Var};
use libbpf_rs::{MapType, ReferencesType};

use crate::{BpfError, loader};

/// What the running kernel offers to BPF programs.
#[derive(Debug)]
pub struct Kernel {
    btf: Btf<'static>,
}

impl Kernel {
    /// Reads the kernel's BTF.
    ///
    /// # Errors
    /// [`BpfError::NoBtf`] where it has none.
    pub fn read() -> Result<Self, BpfError> {
        loader::listen();
        let btf = Btf::from_vmlinux().map_err(|_| BpfError::NoBtf)?;
        Ok(Self { btf })
    }

    /// How many arguments a tracepoint hands to a program; `None` where there is no such tracepoint.
    pub fn tracepoint(&self, name: &str) -> Option<usize> {
        let hook: Typedef<'_> = self.btf.type_by_name(&format!("btf_trace_{name}"))?;
        let pointer: Ptr<'_> = hook.referenced_type().try_into().ok()?;
        let function: FuncProto<'_> = pointer.referenced_type().try_into().ok()?;
        // The first is the tracepoint's own.
        Some(function.iter().count().saturating_sub(1))
    }

    /// Whether there is a helper of this name, as `task_pt_regs`.
    pub fn helper(&self, name: &str) -> bool {
        let wanted = format!("BPF_FUNC_{name}");
        let ids: Option<Enum<'_>> = self.btf.type_by_name("bpf_func_id");
        ids.is_some_and(|ids| {
            ids.iter().any(|id| id.name.is_some_and(|name| name.to_str() == Some(&wanted)))
        })
    }

    /// How far one variable lies from another on every CPU, of those that each CPU has for itself, in
    /// bytes; `None` where one of them is missing.
    pub fn distance(&self, from: &str, to: &str) -> Option<i64> {
        let all: DataSec<'_> = self.btf.type_by_name(".data..percpu")?;
        let at = |wanted: &str| {
            let is_it = |id| self.btf.type_by_id::<Var<'_>>(id).and_then(|var| var.name());
            let found = all.iter().find(|var| is_it(var.ty).is_some_and(|name| name == wanted));
            found.map(|var| i64::from(var.offset))
        };
        Some(at(to)? - at(from)?)
    }

    /// Whether a task can carry memory of ours (5.11).
    pub fn task_storage(&self) -> bool {
        MapType::TaskStorage.is_supported().unwrap_or(false)
    }
}

/// Whether the bpf() system call is there and allowed, before anything is loaded.
pub(crate) fn allowed() -> Result<(), BpfError> {
    match MapType::Array.is_supported() {
        Ok(true) => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOSYS) => Err(BpfError::NoBpf),
            error => Err(BpfError::Privilege(error.to_string())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_it_has() {
        let Ok(kernel) = Kernel::read() else { return };
        assert!(matches!(kernel.tracepoint("sched_switch"), Some(3 | 4)));
        assert_eq!(kernel.tracepoint("sched_waking"), Some(1));
        assert_eq!(kernel.tracepoint("no_such_tracepoint"), None);
        assert!(kernel.helper("map_lookup_elem"));
        assert!(!kernel.helper("no_such_helper"));
        assert_eq!(kernel.distance("runqueues", "runqueues"), Some(0));
        assert_eq!(kernel.distance("runqueues", "no_such_variable"), None);
    }
}
