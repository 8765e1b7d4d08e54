//! `quietcore exec`: start a program where and how a latency-critical one should run.

use std::ffi::{CString, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use quietcore_console::{Exit, NotPossible, check_online, cpus};
use quietcore_facts::Facts;
use quietcore_host::{Audit, Scope, Waivers, audit};
use quietcore_measure::{CpuSet, Status};
use quietcore_sys::Host;
use quietcore_sys::memory::{self, Limit, MemoryError};
use quietcore_sys::sched::{self, Class, SchedError};

/// Start a program on some CPUs, in a class, with locked memory: taskset, chrt, numactl in one
///
/// Becomes the program: process id, exit code and signals are the program's own. Placement, class
/// and NUMA node are inherited by what the program starts; the memory lock is not.
#[derive(Args, Debug)]
#[command(after_help = "\
PRIVILEGES:
    --fifo needs CAP_SYS_NICE or RLIMIT_RTPRIO; --mlock needs CAP_IPC_LOCK or a sufficient hard
    limit of RLIMIT_MEMLOCK, and that this process may be traced

NOTES:
    Memory locks end when a process executes a program, so --mlock makes the program itself lock
    its memory, all of it and whatever it maps later, before its first instruction. A helper
    process does that by ptrace and is gone when the program begins. If the memory cannot be
    locked, the program is not started.

EXAMPLES:
    quietcore exec --cpus 2-3 -- ./engine
    quietcore exec --cpus 2 --fifo 80 --mlock --numa 0 -- ./engine --config prod.toml")]
pub struct Exec {
    /// The CPUs it may run on
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpus: CpuSet,

    /// Run in SCHED_FIFO with this priority
    #[arg(long, value_name = "1-99", value_parser = clap::value_parser!(u8).range(1..=99))]
    fifo: Option<u8>,

    /// Lock its memory, present and future, before its first instruction
    #[arg(long)]
    mlock: bool,

    /// Take its memory from these NUMA nodes only
    #[arg(long, value_name = "LIST", value_parser = nodes)]
    numa: Option<CpuSet>,

    /// Say nothing on stderr but errors
    #[arg(short, long)]
    quiet: bool,

    /// The program and its arguments
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

impl Exec {
    /// Replaces this process; returns only if that fails.
    pub fn run(self) -> anyhow::Result<Exit> {
        let facts = Facts::of(Host::live());
        check_online(&self.cpus, &facts.cpus().online).map_err(|why| anyhow!(why))?;
        self.warn(&self.warnings(&facts));
        if let Some(nodes) = &self.numa {
            memory::bind_to_nodes(nodes)?;
        }
        if self.mlock {
            self.allow_locking()?;
        }
        sched::place(sched::CALLER, &self.cpus).map_err(not_possible)?;
        // Last, lest the rest of this program run ahead of everything else.
        if let Some(priority) = self.fifo {
            sched::set_class(sched::CALLER, Class::Fifo { priority }).map_err(not_possible)?;
        }
        match self.mlock {
            true => self.become_locked(),
            false => self.become_program(),
        }
    }

    /// What stands against running such a program on these CPUs.
    fn warnings(&self, facts: &Facts) -> Vec<String> {
        if self.quiet {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        if self.fifo.is_some() && facts.cpus().online.is_subset(&self.cpus) {
            warnings.push(format!(
                "SCHED_FIFO on CPUs {} leaves no CPU for anything else: a program that spins \
                 there locks everybody out",
                self.cpus
            ));
        }
        warnings.extend(audited(facts, &self.cpus));
        warnings
    }

    fn warn(&self, warnings: &[String]) {
        if self.quiet {
            return;
        }
        for warning in warnings {
            eprintln!("quietcore: warning: {warning}");
        }
    }

    /// The limit counts for the program's own system call; with CAP_IPC_LOCK none does.
    fn allow_locking(&self) -> anyhow::Result<()> {
        match memory::raise_lock_limit() {
            Ok(limit) => {
                if limit.soft != Limit::Unlimited && !may_lock_anything() {
                    self.warn(&[format!(
                        "RLIMIT_MEMLOCK is {}: all memory the program ever maps must fit",
                        limit.soft
                    )]);
                }
                Ok(())
            }
            Err(error @ MemoryError::RaiseLimit { .. }) => {
                Err(NotPossible::new(error.to_string()).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn become_program(self) -> anyhow::Result<Exit> {
        let [program, arguments @ ..] = self.command.as_slice() else { bail!("no program") };
        let error = Command::new(program).args(arguments).exec();
        Err(anyhow!(error).context(format!("cannot execute {}", program.to_string_lossy())))
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn become_locked(self) -> anyhow::Result<Exit> {
        let words: Vec<CString> = self
            .command
            .into_iter()
            .map(|word| CString::new(word.into_vec()))
            .collect::<Result<_, _>>()
            .context("an argument contains a NUL byte")?;
        let program = words.first().context("no program")?;
        match memory::exec_locked(program, &words) {
            error @ memory::LockedExecError::Trace(_) => {
                Err(NotPossible::new(error.to_string()).into())
            }
            error => Err(error.into()),
        }
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn become_locked(self) -> anyhow::Result<Exit> {
        Err(NotPossible::new("--mlock is there on x86-64 and arm64 only").into())
    }
}

/// The costliest failures of an audit that takes these CPUs as meant for latency.
fn audited(facts: &Facts, cpus: &CpuSet) -> Vec<String> {
    const SHOWN: usize = 3;
    let scope = Scope::of(facts, Some(cpus.clone()), None);
    let findings = audit(facts, &Audit { scope, waivers: Waivers::default(), today: 0 });
    let failed = findings.findings.iter().filter(|f| f.status == Status::Fail);
    let mut lines: Vec<String> =
        failed.take(SHOWN).map(|f| format!("{} ({})", f.title, f.id)).collect();
    let rest = findings.count(Status::Fail).saturating_sub(SHOWN);
    if rest > 0 {
        lines.push(format!("{rest} more: quietcore audit --cpus {cpus}"));
    }
    lines
}

/// Whether this process has CAP_IPC_LOCK, which sets it above RLIMIT_MEMLOCK.
fn may_lock_anything() -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let status = Host::live().read("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> CAP_IPC_LOCK & 1 == 1)
}

/// Parses `--numa`: the list format of the kernel, as for CPUs.
fn nodes(text: &str) -> Result<CpuSet, String> {
    match CpuSet::parse_list(text) {
        Ok(nodes) if nodes.is_empty() => Err("the list names no node: write 0 or 0,1".to_owned()),
        Ok(nodes) => Ok(nodes),
        Err(error) => Err(error.to_string()),
    }
}

/// A privilege that is missing is not an error of the command line.
fn not_possible(error: SchedError) -> anyhow::Error {
    match &error {
        SchedError::SetClass { error: os, .. } | SchedError::Place { error: os, .. }
            if os.kind() == ErrorKind::PermissionDenied =>
        {
            NotPossible::new(error.to_string()).into()
        }
        _ => error.into(),
    }
}
