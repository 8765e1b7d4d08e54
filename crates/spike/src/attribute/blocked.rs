//! What a thread waited for, from where in the kernel it did.

use quietcore_bpf::{Wait, What};
use quietcore_measure::Kind;

use super::scene::{Scene, named};
use crate::kallsyms::Kallsyms;
use crate::syscalls;

/// What a rule looks for among the functions of a stack.
enum On {
    /// A function whose name begins so.
    One(&'static [&'static str]),
    /// The innermost: the kernel leaves out how its locks wait, for they are part of its scheduler.
    First(&'static [&'static str]),
    /// One of the first, and one of the others that called it.
    Both(&'static [&'static str], &'static [&'static str]),
}
use On::{Both, First, One};

const SEMAPHORES: &[&str] =
    &["rwsem_down_", "down_read", "down_write", "__down_read", "__down_write"];
const ADDRESS_SPACE: &[&str] = &[
    "lock_mm_and_find_vma",
    "mmap_read_lock",
    "mmap_write_lock",
    "do_user_addr_fault",
    "exc_page_fault",
    "do_mem_abort",
    "vm_mmap_pgoff",
    "__vm_munmap",
    "do_mprotect",
    "do_madvise",
    "madvise_lock",
    "__do_sys_brk",
    "__x64_sys_brk",
    "__x64_sys_mremap",
    "__do_sys_mremap",
    "dup_mmap",
    "task_numa_work",
];

/// The first that applies decides; the label is empty where the function says it best.
const RULES: &[(On, Kind, &str)] = &[
    (One(&["try_to_compact_pages", "compact_zone"]), Kind::Reclaim, "compaction"),
    (
        One(&["try_to_free_pages", "do_try_to_free_pages", "throttle_direct_reclaim"]),
        Kind::Reclaim,
        "direct reclaim",
    ),
    (
        One(&["try_to_free_mem_cgroup_pages", "mem_cgroup_handle_over_high"]),
        Kind::Reclaim,
        "the memory limit of its control group",
    ),
    (First(ADDRESS_SPACE), Kind::MmapLock, ""),
    (Both(SEMAPHORES, ADDRESS_SPACE), Kind::MmapLock, ""),
    (One(&["vma_start_write", "__vma_start_write", "vma_start_read"]), Kind::MmapLock, ""),
    (
        One(&["exc_page_fault", "asm_exc_page_fault", "do_user_addr_fault", "do_mem_abort"]),
        Kind::PageFault,
        "",
    ),
    (One(&["futex_", "__futex_", "do_futex"]), Kind::Lock, "futex"),
    (
        One(&["do_fsync", "__x64_sys_fsync", "__x64_sys_fdatasync", "vfs_fsync", "jbd2_"]),
        Kind::Io,
        "fsync",
    ),
    (
        One(&[
            "io_schedule",
            "folio_wait_",
            "bit_wait_io",
            "wait_on_page",
            "blk_",
            "submit_bio_wait",
            "wait_for_completion_io",
            "balance_dirty_pages",
        ]),
        Kind::Io,
        "",
    ),
    (One(&["do_nanosleep", "hrtimer_nanosleep"]), Kind::Sleep, "nanosleep"),
    (One(&["ep_poll", "do_epoll_wait"]), Kind::Sleep, "epoll_wait"),
    (One(&["do_sys_poll", "do_poll", "poll_schedule"]), Kind::Sleep, "poll"),
    (One(&["do_select", "core_sys_select"]), Kind::Sleep, "select"),
    (One(&["inet_csk_accept", "unix_accept"]), Kind::Sleep, "accept"),
    (
        One(&[
            "sk_wait_data",
            "__skb_wait_for_more_packets",
            "unix_stream_data_wait",
            "unix_stream_read",
            "tcp_recvmsg",
        ]),
        Kind::Sleep,
        "recv",
    ),
    (One(&["pipe_read", "anon_pipe_read", "eventfd_read", "timerfd_read"]), Kind::Sleep, "read"),
    (One(&["n_tty_read"]), Kind::Sleep, "read"),
    (One(&["do_wait", "kernel_wait"]), Kind::Sleep, "wait"),
    (One(&["do_sigtimedwait", "sigsuspend", "__do_sys_pause"]), Kind::Sleep, "a signal"),
    (One(&["io_cqring_wait", "read_events"]), Kind::Sleep, "completions"),
    (One(&["do_msgrcv", "wq_sleep"]), Kind::Sleep, "messages"),
    (One(&["kvm_vcpu_block", "kvm_vcpu_halt"]), Kind::Sleep, "a halted virtual CPU"),
    (
        One(&[
            "__mutex_lock",
            "mutex_lock",
            "rt_mutex_",
            "rwsem_down_",
            "percpu_rwsem_wait",
            "__down",
        ]),
        Kind::Lock,
        "",
    ),
];

/// Functions that every stack begins with, which say nothing.
const SCHEDULER: &[&str] = &[
    "schedule",
    "__schedule",
    "io_schedule",
    "preempt_schedule",
    "wait_for_completion",
    "__wait_for_common",
    "wait_woken",
    "prepare_to_wait",
    "__mutex_lock",
    "mutex_lock",
    "rwsem_down",
    "down_",
    "__down",
    "bit_wait",
    "__wait_on_bit",
    "out_of_line_wait",
    "folio_wait_bit",
];

/// What a wait was for.
pub(super) struct Reason {
    pub kind: Kind,
    pub by: String,
    pub evidence: Vec<String>,
}

/// A bit of [`Wait::state`] (`include/linux/sched.h`).
const TASK_INTERRUPTIBLE: u32 = 1;

/// What a thread asked to sleep in, by its kernel stack: a read may wait for a device, for a lock or
/// for another program to say something, and its number does not tell. Of a lock within the read the
/// stack does not tell either, but for that a thread waits uninterruptibly.
pub fn sleeps_in(wait: &Wait, kernel: &Kallsyms) -> Option<String> {
    let flags = &wait.flags;
    let is_known = flags.preempted || flags.voluntary || flags.stolen || flags.no_wake;
    if is_known || wait.state & TASK_INTERRUPTIBLE == 0 {
        return None;
    }
    let functions: Vec<_> = wait.kernel.iter().filter_map(|&ip| kernel.name(ip)).collect();
    by_stack(&functions).and_then(|(kind, by)| (kind == Kind::Sleep).then_some(by))
}

/// What a wait was for, as far as it was recorded.
pub(super) fn reason(scene: &Scene<'_>, wait: &Wait) -> Reason {
    let functions: Vec<_> = wait.kernel.iter().filter_map(|&ip| scene.kernel.name(ip)).collect();
    let mut evidence = Vec::new();
    if !wait.kernel.is_empty() {
        evidence.push(format!("kernel stack: {}", scene.stack(&wait.kernel)));
    }
    if let Some(number) = wait.syscall {
        evidence.push(format!("in system call {number} ({})", syscalls::name(number)));
    }
    if wait.flags.io {
        evidence.push("it waited for a device (in_iowait)".to_owned());
    }
    let (kind, by) = by_entry(scene, wait.out_ts, wait.in_ts)
        .or_else(|| by_stack(&functions))
        .or_else(|| by_release(scene, wait, &functions))
        .or_else(|| wait.syscall.and_then(by_syscall))
        .unwrap_or_else(|| {
            let kind = if wait.flags.io { Kind::Io } else { Kind::Blocked };
            let by = telling(&functions).map(str::to_owned);
            (kind, by.or_else(|| wait.syscall.map(syscalls::name)).unwrap_or_default())
        });
    match kind {
        Kind::Lock | Kind::MmapLock => holder(scene, wait, kind, by, evidence),
        _ => Reason { kind, by, evidence },
    }
}

/// From the kernel's own marks of where the thread was; `None` where there are none.
pub(super) fn by_entry(scene: &Scene<'_>, out_ts: u64, in_ts: u64) -> Option<(Kind, String)> {
    scene.own().iter().find_map(|event| {
        let (tid, since, kind, by) = match event.what {
            What::Reclaim { tid, since } => (tid, since, Kind::Reclaim, "direct reclaim"),
            What::Compaction { tid, since } => (tid, since, Kind::Reclaim, "compaction"),
            What::MmapLock { tid, since } => (tid, since, Kind::MmapLock, ""),
            _ => return None,
        };
        let around = since <= out_ts && in_ts <= event.ts;
        (around && tid == scene.tid()).then(|| (kind, by.to_owned()))
    })
}

fn by_stack(functions: &[&str]) -> Option<(Kind, String)> {
    let begins = |names: &[&str], function: &str| names.iter().any(|n| function.starts_with(n));
    RULES.iter().find_map(|(on, kind, label)| {
        let at = match on {
            One(names) => functions.iter().position(|function| begins(names, function))?,
            First(names) => functions.first().filter(|first| begins(names, first)).map(|_| 0)?,
            Both(names, callers) => {
                let at = functions.iter().position(|function| begins(names, function))?;
                let mut outer = functions[at..].iter();
                outer.any(|function| begins(callers, function)).then_some(at)?
            }
        };
        let by = match (label, kind) {
            (&"", Kind::MmapLock | Kind::PageFault) => String::new(),
            (&"", _) => telling(&functions[at..]).unwrap_or(functions[at]).to_owned(),
            (label, _) => (*label).to_owned(),
        };
        Some((*kind, by))
    })
}

pub(super) fn by_syscall(number: u32) -> Option<(Kind, String)> {
    syscalls::sleeps_for(number).map(|(kind, name)| (kind, name.to_owned()))
}

/// Of a lock of the kernel's own: whoever ended the wait was about to release it.
fn by_release(scene: &Scene<'_>, wait: &Wait, functions: &[&str]) -> Option<(Kind, String)> {
    // The last is what a reader of a per-CPU semaphore leaves with.
    const RELEASES: [&str; 6] =
        ["rwsem_wake", "__mutex_unlock", "up_read", "up_write", "percpu_up", "rcuwait_wake_up"];
    let mut waker = wait.waker_kernel.iter().filter_map(|&ip| scene.kernel.name(ip));
    let released = waker.any(|function| RELEASES.iter().any(|name| function.starts_with(name)));
    released.then(|| (Kind::Lock, telling(functions).unwrap_or_default().to_owned()))
}

/// The innermost function that is not merely how one waits.
fn telling<'a>(functions: &[&'a str]) -> Option<&'a str> {
    let says = |f: &&&str| !SCHEDULER.iter().any(|name| f.starts_with(name));
    functions.iter().find(says).copied()
}

/// Without what looked: the program and the tracepoint on top.
fn waking<'a>(scene: &Scene<'_>, frames: &'a [u64]) -> &'a [u64] {
    let probe = |&ip: &u64| {
        scene.kernel.name(ip).is_some_and(|function| function.starts_with("__traceiter_"))
    };
    let at = frames.iter().position(probe).map_or(0, |at| at + 1);
    &frames[at..]
}

/// Of a lock: whoever ended the wait held it, unless an interrupt did, which holds none.
fn holder(
    scene: &Scene<'_>,
    wait: &Wait,
    kind: Kind,
    by: String,
    mut evidence: Vec<String>,
) -> Reason {
    if wait.flags.in_irq || wait.flags.in_softirq {
        evidence.push("an interrupt ended it: no holder, its time was up".to_owned());
        let timed_out = by == "futex" || by == "futex_wait" || by == "futex_waitv";
        return match timed_out {
            true => Reason { kind: Kind::Sleep, by: format!("{by}, timed out"), evidence },
            false => Reason { kind, by, evidence },
        };
    }
    let Some(waker) = wait.waker.filter(|waker| waker.tid != 0 && waker.tid != wait.tid) else {
        return Reason { kind, by, evidence };
    };
    if !by.is_empty() {
        evidence.push(by);
    }
    if !wait.waker_kernel.is_empty() {
        evidence.push(format!(
            "the waker's kernel stack: {}",
            scene.stack(waking(scene, &wait.waker_kernel))
        ));
    }
    if !wait.waker_user.is_empty() {
        let frames: Vec<_> = wait.waker_user.iter().map(|ip| format!("{ip:#x}")).collect();
        evidence.push(format!("the waker's user stack: {}", frames.join(" < ")));
    }
    Reason { kind, by: named(&waker.comm, waker.tid), evidence }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_says_what_was_waited_for() {
        let cases: &[(&[&str], Kind, &str)] = &[
            (&["futex_do_wait", "__futex_wait", "futex_wait", "do_futex"], Kind::Lock, "futex"),
            (&["do_nanosleep", "hrtimer_nanosleep", "common_nsleep"], Kind::Sleep, "nanosleep"),
            (&["ep_poll", "do_epoll_wait", "__x64_sys_epoll_wait"], Kind::Sleep, "epoll_wait"),
            (&["rwsem_down_read_slowpath", "down_read", "do_user_addr_fault"], Kind::MmapLock, ""),
            (
                &["rwsem_down_write_slowpath", "down_write_killable", "vm_mmap_pgoff"],
                Kind::MmapLock,
                "",
            ),
            (
                &["rwsem_down_write_slowpath", "down_write", "ext4_buffered_write_iter"],
                Kind::Lock,
                "ext4_buffered_write_iter",
            ),
            (
                &["schedule_timeout", "reclaim_throttle", "shrink_node", "do_try_to_free_pages"],
                Kind::Reclaim,
                "direct reclaim",
            ),
            (
                &["io_schedule", "folio_wait_bit_common", "filemap_fault", "exc_page_fault"],
                Kind::PageFault,
                "",
            ),
            (&["jbd2_log_wait_commit", "ext4_sync_file", "do_fsync"], Kind::Io, "fsync"),
            (&["io_schedule", "folio_wait_bit_common", "filemap_read"], Kind::Io, "filemap_read"),
            (&["anon_pipe_read", "vfs_read", "ksys_read"], Kind::Sleep, "read"),
            (&["__mutex_lock.constprop.0", "proc_write"], Kind::Lock, "proc_write"),
            (&["vm_mmap_pgoff", "do_syscall_64"], Kind::MmapLock, ""),
            (&["__vm_munmap", "__x64_sys_munmap", "do_syscall_64"], Kind::MmapLock, ""),
            (&["lock_mm_and_find_vma", "do_user_addr_fault"], Kind::MmapLock, ""),
        ];
        for (functions, kind, by) in cases {
            assert_eq!(by_stack(functions), Some((*kind, (*by).to_owned())), "{functions:?}");
        }
        assert_eq!(by_stack(&["schedule", "something_new"]), None);
        assert_eq!(telling(&["schedule", "something_new"]), Some("something_new"));
    }
}
