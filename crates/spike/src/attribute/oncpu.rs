//! What went on while the thread had a CPU: interrupts, faults and system calls, innermost first.

use std::collections::BTreeSet;

use quietcore_bpf::{Event, Set, Vector, What};
use quietcore_measure::{Kind, Nanos};

use super::paint::{Piece, paint};
use super::scene::{Scene, named};
use super::{clock, still, stolen};
use crate::syscalls;

/// How long before an interrupt its sender may have asked for it.
const SENT_BEFORE: u64 = 1_000_000;

/// Why the tick is needed, by the bits of `TICK_DEP_MASK_*`.
const TICK_NEEDS: [&str; 6] =
    ["a POSIX CPU timer", "perf events", "more than one task", "an unstable clock", "RCU", "RCU"];

/// All of `[start, end)`, in which the thread had this CPU. `own` is what [`own`] says.
pub(super) fn explain(
    scene: &Scene<'_>,
    own: &[Piece],
    start: u64,
    end: u64,
    cpu: u32,
) -> Vec<Piece> {
    let mut layers = interrupts(scene, cpu, start, end);
    let overlaps = |piece: &&Piece| piece.start < end && start < piece.end;
    layers.extend(own.iter().filter(overlaps).cloned());
    let pieces = stolen::cut(scene, paint(vec![base(scene, start, end, cpu)], layers), cpu);
    clock::cut(scene, pieces, cpu)
}

/// What is left where no event says more.
fn base(scene: &Scene<'_>, start: u64, end: u64, cpu: u32) -> Piece {
    if !scene.window.spins {
        let base = |kind| Piece::new(start, end, kind, "");
        return match &scene.seen.incomplete {
            Some(why) => base(Kind::Unexplained).with(why.clone()),
            None if scene.has(Set::Syscall) => base(Kind::User),
            None => base(Kind::User)
                .with("system calls were not recorded: part of it may be the kernel's"),
        };
    }
    let inside = scene.between(cpu, start.saturating_add(1), end.saturating_sub(1));
    let switched = inside.iter().any(|event| matches!(event.what, What::Switch { .. }));
    let missing = [Set::Irq, Set::Fault].iter().find(|set| !scene.has(**set));
    let piece = |kind, why: String| Piece::new(start, end, kind, "").with(why);
    match (missing, &scene.seen.incomplete) {
        _ if switched => {
            piece(Kind::Unexplained, format!("CPU {cpu} switched tasks, unlike this one"))
        }
        (Some(set), _) => {
            piece(Kind::Unexplained, format!("the set `{}` was not recorded", set.name()))
        }
        (_, Some(why)) => piece(Kind::Unexplained, why.clone()),
        (None, None) => piece(
            Kind::HostOrFirmware,
            format!("CPU {cpu} ran this thread: no switch, no interrupt, no page fault"),
        ),
    }
}

/// Every interrupt of a CPU that overlaps with `[start, end)`.
pub(super) fn interrupts(scene: &Scene<'_>, cpu: u32, start: u64, end: u64) -> Vec<Piece> {
    let found = scene.overlapping(cpu, start, end).filter_map(|event| interrupt(scene, event));
    found.flat_map(|piece| still::split(scene, piece)).filter(|piece| piece.start < end).collect()
}

fn interrupt(scene: &Scene<'_>, event: &Event) -> Option<Piece> {
    let end = event.ts;
    let piece = |since: u64, kind, by: String, what: &str| {
        let since = since.min(end);
        let line = format!(
            "{what} CPU {} at {}, {}",
            event.cpu,
            scene.at(since),
            Nanos(end.saturating_sub(since))
        );
        Piece::new(since, end, kind, by).with(line)
    };
    Some(match event.what {
        What::Irq { line, since, name } => {
            piece(since, Kind::HardIrq, format!("{name} (IRQ {line})"), "irq_handler")
        }
        What::Softirq { vector, since } => {
            let softirq = piece(since, Kind::Softirq, softirq(vector), "softirq");
            with_functions(scene, event, since, softirq)
        }
        What::Nmi { ns } => piece(end.saturating_sub(ns), Kind::Nmi, String::new(), "nmi_handler"),
        What::Vector { vector: Vector::LocalTimer, since } => local_timer(scene, event, since),
        What::Vector { vector, since } => match vector {
            Vector::CallFunction | Vector::CallFunctionSingle | Vector::Reschedule => {
                ipi(scene, event, vector, since)
            }
            _ => piece(since, Kind::HardIrq, other(vector).to_owned(), other(vector)),
        },
        _ => return None,
    })
}

/// A softirq's name by its number.
fn softirq(vector: u32) -> String {
    const NAMES: [&str; 10] = [
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
        "RCU",
    ];
    NAMES.get(vector as usize).map_or_else(|| format!("softirq {vector}"), |&name| name.to_owned())
}

fn other(vector: Vector) -> &'static str {
    match vector {
        Vector::LocalTimer => "local_timer",
        Vector::Reschedule => "reschedule",
        Vector::CallFunction => "call_function",
        Vector::CallFunctionSingle => "call_function_single",
        Vector::IrqWork => "irq_work",
        Vector::Thermal => "thermal_apic",
        Vector::Platform => "x86_platform_ipi",
        Vector::Spurious => "spurious_apic",
        Vector::Error => "error_apic",
    }
}

/// The timers that expired within.
fn with_functions(scene: &Scene<'_>, event: &Event, since: u64, mut piece: Piece) -> Piece {
    for inner in scene.between(event.cpu, since, event.ts) {
        let (what, function) = match inner.what {
            What::Timer { function } => ("timer", function),
            What::HrTimer { function, .. } => ("hrtimer", function),
            _ => continue,
        };
        let line = format!("{what} {} at {}", scene.function(function), scene.at(inner.ts));
        piece.evidence.push(line);
    }
    piece
}

fn is_tick(function: &str) -> bool {
    function.starts_with("tick_nohz") || function.starts_with("tick_sched")
}

/// The tick, if that is what expired in the timer's interrupt.
fn local_timer(scene: &Scene<'_>, event: &Event, since: u64) -> Piece {
    let since = since.min(event.ts);
    let inside = scene.between(event.cpu, since, event.ts).iter();
    let functions: BTreeSet<_> = inside
        .clone()
        .filter_map(|inner| match inner.what {
            What::HrTimer { function, .. } => Some(scene.function(function)),
            _ => None,
        })
        .collect();
    let (ticks, others): (Vec<_>, Vec<_>) =
        functions.into_iter().partition(|function| is_tick(function));
    let length = Nanos(event.ts - since);
    let mut line = format!("local_timer CPU {} at {}, {length}", event.cpu, scene.at(since));
    for function in ticks.iter().chain(&others) {
        line += &format!(", hrtimer {function}");
    }
    let (kind, by) = match ticks.is_empty() {
        true => (Kind::Timer, others.join(", ")),
        false => (Kind::Tick, String::new()),
    };
    let due = inside.filter_map(|inner| match inner.what {
        What::HrTimer { due, .. } => due,
        _ => None,
    });
    let piece = Piece { due: due.min(), ..Piece::new(since, event.ts, kind, by).with(line) };
    match kind {
        Kind::Tick => with_need(scene, event, piece),
        _ => piece,
    }
}

/// Why the tick is on, where the kernel said so of late.
fn with_need(scene: &Scene<'_>, event: &Event, piece: Piece) -> Piece {
    let decided =
        scene.before(event.cpu, event.ts).iter().rev().find_map(|earlier| match earlier.what {
            What::TickStop { stopped, dependency } => Some((earlier.ts, stopped, dependency)),
            _ => None,
        });
    let Some((ts, false, dependency)) = decided else { return piece };
    let needs = TICK_NEEDS.iter().enumerate().filter(|(bit, _)| dependency >> bit & 1 == 1);
    let needs: Vec<_> = needs.map(|(_, need)| *need).collect();
    piece.with(format!("tick_stop at {}: needed by {}", scene.at(ts), needs.join(", ")))
}

/// What another CPU asked for, and who, where that was recorded.
fn ipi(scene: &Scene<'_>, event: &Event, vector: Vector, since: u64) -> Piece {
    let since = since.min(event.ts);
    let flush =
        scene.between(event.cpu, since, event.ts).iter().find_map(|inner| match inner.what {
            What::TlbFlush { reason: 1, pages } => Some(pages),
            _ => None,
        });
    let length = Nanos(event.ts - since);
    let line = format!("{} CPU {} at {}, {length}", other(vector), event.cpu, scene.at(since));
    let kind = if flush.is_some() { Kind::TlbShootdown } else { Kind::Ipi };
    let request = request(scene, event.cpu, since);
    let by = match (&request, vector) {
        (Some(request), _) => request.by.clone(),
        (None, Vector::Reschedule) => "reschedule".to_owned(),
        (None, _) if kind == Kind::Ipi => "function call".to_owned(),
        (None, _) => String::new(),
    };
    let mut piece = Piece::new(since, event.ts, kind, by).with(line);
    if let Some(request) = request {
        piece.due = Some(request.at);
        piece.evidence.push(request.line);
    }
    match flush {
        Some(u64::MAX) => piece.with("tlb_flush: another CPU asked, all pages"),
        Some(pages) => piece.with(format!("tlb_flush: another CPU asked, {pages} pages")),
        None => piece,
    }
}

/// What made a CPU send an interrupt.
struct Request {
    at: u64,
    by: String,
    line: String,
}

/// What the interrupt that began on `cpu` at `since` was sent for: the first that was asked of this
/// CPU since its last such interrupt. Of what was asked of several CPUs it is not known which, so
/// that counts only where nothing else does, and then the last.
fn request(scene: &Scene<'_>, cpu: u32, since: u64) -> Option<Request> {
    let last = scene.before(cpu, since).iter().rev().find_map(|event| match event.what {
        What::Vector {
            vector: Vector::CallFunction | Vector::CallFunctionSingle | Vector::Reschedule,
            since: began,
        } if began < since => Some(began),
        _ => None,
    });
    let from = since.saturating_sub(SENT_BEFORE).max(last.unwrap_or_default());
    let sent = scene.sent(from, since).iter().filter(|event| event.cpu != cpu);
    let of = |wanted: Option<u32>| {
        sent.clone().filter_map(move |event| match event.what {
            What::IpiSent { to, by, function, comm } if to == wanted => {
                Some((event, by, function, comm))
            }
            _ => None,
        })
    };
    let (event, by, function, comm) = of(Some(cpu)).next().or_else(|| of(None).next_back())?;
    let by = named(&comm, by);
    let function = if function == 0 { String::new() } else { scene.function(function) };
    let line = format!("ipi_send CPU {} at {}: {by} {function}", event.cpu, scene.at(event.ts));
    Some(Request { at: event.ts, by, line: line.trim_end().to_owned() })
}

/// The thread's own stays in the kernel within the window, on whatever CPU.
pub(super) fn own(scene: &Scene<'_>) -> Vec<Piece> {
    let mut layers: Vec<_> = scene.own().iter().filter_map(|event| entry(scene, event)).collect();
    layers.extend(faults(scene));
    layers
}

/// A stay in the kernel on the thread's own behalf, if any of it is within the window.
fn entry(scene: &Scene<'_>, event: &Event) -> Option<Piece> {
    let (tid, since) = match event.what {
        What::Syscall { tid, since, .. }
        | What::Reclaim { tid, since }
        | What::Compaction { tid, since }
        | What::MmapLock { tid, since } => (tid, since.min(event.ts)),
        _ => return None,
    };
    if tid != scene.tid() || !scene.is_within(since, event.ts) {
        return None;
    }
    let (kind, by, what) = match event.what {
        What::Syscall { number, .. } => (Kind::Kernel, syscalls::name(number), "sys_exit"),
        What::Reclaim { .. } => {
            (Kind::Reclaim, "direct reclaim".to_owned(), "mm_vmscan_direct_reclaim")
        }
        What::Compaction { .. } => (Kind::Reclaim, "compaction".to_owned(), "mm_compaction"),
        _ => (Kind::MmapLock, String::new(), "mmap_lock"),
    };
    let length = Nanos(event.ts - since);
    let line = format!("{what} CPU {} from {}, {length}", event.cpu, scene.at(since));
    Some(Piece::new(since, event.ts, kind, by).with(line))
}

/// Page faults within the window. Where the end was not seen, a thread that only looks at the clock
/// has seen it when it looked again.
fn faults(scene: &Scene<'_>) -> Vec<Piece> {
    let mut faults: Vec<(&Event, u64, Option<u64>)> = Vec::new();
    for event in scene.own() {
        match (event.what, faults.last_mut()) {
            (What::Fault { address, .. }, _) => faults.push((event, address, None)),
            (What::FaultEnd { .. }, Some((.., end @ None))) => *end = Some(event.ts),
            _ => {}
        }
    }
    let looks = if scene.window.spins { scene.window.end_ns } else { 0 };
    let piece = |(fault, address, dealt_with): (&Event, u64, Option<u64>)| {
        let end = dealt_with.unwrap_or(looks).max(fault.ts);
        if !scene.is_within(fault.ts, end) {
            return None;
        }
        let at = scene.at(fault.ts);
        let line = format!("page_fault_user CPU {} at {at}: {address:#x}", fault.cpu);
        let piece = Piece::new(fault.ts, end, Kind::PageFault, "").with(line);
        Some(match dealt_with {
            Some(ts) => piece.with(format!("dealt with at {}", scene.at(ts))),
            None => piece,
        })
    };
    faults.into_iter().filter_map(piece).collect()
}
