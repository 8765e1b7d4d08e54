//! Where threads waited, as sections of a run.

use std::collections::BTreeMap;

use quietcore_bpf::{Bucket, Health, Losses, OffCpuCounts, State, Symbols, WaitKind, Waited};
use quietcore_measure::{Cell, Flame, Nanos, Section, Table, Validity, Verdict};

use crate::fold;

/// Names what can be named while the process lives; [`Symbols`] remembers it.
pub fn flame(waits: &[Waited], symbols: &mut Symbols) -> Flame {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for wait in waits {
        let mut frames = fold::frames(symbols, wait.tgid, &wait.user, &wait.kernel);
        if wait.waker != 0 {
            frames.push("--".to_owned());
            frames.extend(waker(wait, symbols));
        }
        let who = format!("{} ({})", wait.comm, wait.tid);
        *stacks.entry(fold::line(&who, &frames)).or_default() += wait.total.0;
    }
    Flame {
        name: "offcpu".to_owned(),
        title: "Where threads waited, by stack".to_owned(),
        unit: "ns".to_owned(),
        stacks,
    }
}

/// The waker upside down: what it did last is next to whom it woke. An interrupt that woke somebody
/// is the waker itself, and whom it hit has nothing to do with it.
fn waker(wait: &Waited, symbols: &mut Symbols) -> Vec<String> {
    // Its process is not kept; the number of a thread serves as well.
    let mut frames = fold::frames(symbols, wait.waker, &wait.waker_user, &wait.waker_kernel);
    frames.reverse();
    // The way into our own program.
    frames.retain(|name| !OURS.iter().any(|ours| name.starts_with(ours)));
    match frames.iter().position(|name| INTERRUPTS.iter().any(|entry| name.starts_with(entry))) {
        Some(entry) => frames.truncate(entry + 1),
        None => frames.push(format!("waker {}", wait.waker)),
    }
    frames
}

/// Functions of the kernel by which it calls a program like ours.
const OURS: [&str; 3] = ["bpf_prog_", "bpf_trace_run", "__traceiter_"];

/// Functions of the kernel by which an interrupt comes in.
const INTERRUPTS: [&str; 3] = ["asm_sysvec_", "asm_common_interrupt", "el1h_64_irq"];

/// Tables `offcpu_threads`, `offcpu_histogram` and `offcpu_programs` around the flame graph.
pub fn sections(
    measured: Nanos,
    waits: &[Waited],
    histogram: &[Bucket],
    counts: &OffCpuCounts,
    health: &[Health],
    symbols: &mut Symbols,
) -> Vec<Section> {
    vec![
        Section::Table(threads(measured, waits)),
        Section::Table(lengths(histogram)),
        Section::Flame(flame(waits, symbols)),
        Section::Table(table_of_counts(counts)),
        Section::Table(table_of_health("offcpu_programs", health)),
    ]
}

fn threads(measured: Nanos, waits: &[Waited]) -> Table {
    let columns = ["thread", "pid", "tid", "wait", "waits", "total_ms", "longest_us"];
    let title = format!("Who waited, and how, within {measured}");
    let mut table = Table::new("offcpu_threads", &title, &columns);
    let mut sums: BTreeMap<(u32, WaitKind), (&Waited, u64, Nanos, Nanos)> = BTreeMap::new();
    for wait in waits {
        let sum = sums.entry((wait.tid, wait.kind)).or_insert((wait, 0, Nanos(0), Nanos(0)));
        sum.1 += wait.count;
        sum.2 += wait.total;
        sum.3 = sum.3.max(wait.max);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (.., total, _))| std::cmp::Reverse(*total));
    for ((tid, kind), (wait, count, total, max)) in sums {
        table.rows.push(vec![
            wait.comm.to_string().into(),
            u64::from(wait.tgid).into(),
            u64::from(tid).into(),
            kind.name().into(),
            count.into(),
            (total.as_us() / 1e3).into(),
            max.as_us().into(),
        ]);
    }
    table
}

fn lengths(histogram: &[Bucket]) -> Table {
    let columns = ["from_us", "below_us", "waits", "total_ms"];
    let mut table = Table::new("offcpu_histogram", "How long waits were", &columns);
    for bucket in histogram {
        table.rows.push(vec![
            bucket.from_us.into(),
            (bucket.from_us * 2).max(1).into(),
            bucket.count.into(),
            (bucket.total.as_us() / 1e3).into(),
        ]);
    }
    table
}

fn table_of_counts(counts: &OffCpuCounts) -> Table {
    let title = "What was counted, and what was lost";
    let mut table = Table::new("offcpu_counts", title, &["what", "count"]);
    let losses = &counts.losses;
    let rows = [
        ("switches away from watched threads", counts.left),
        ("waits of the kinds that count", counts.came),
        ("waits that were long enough", counts.long),
        ("kernel stacks walked", counts.walked),
        ("stacks lost for want of room", losses.stacks),
        ("waits lost for want of room", losses.sums),
        ("stacks taken for another", losses.collisions),
        ("stacks cut at 127 frames", losses.cut),
    ];
    table.rows.extend(rows.map(|(what, count)| vec![what.into(), count.into()]));
    table
}

/// Which programs worked.
pub fn table_of_health(name: &str, health: &[Health]) -> Table {
    let mut table = Table::new(name, "BPF programs", &["program", "state", "why"]);
    for of in health {
        let (state, why) = match &of.state {
            State::Ok => ("ok", ""),
            State::Unsupported(why) => ("unsupported", why.as_str()),
            State::Broken(why) => ("broken", why.as_str()),
            State::NotApplicable(why) => ("not applicable", why.as_str()),
        };
        let why = if why.is_empty() { Cell::Empty } else { why.into() };
        table.rows.push(vec![of.program.into(), state.into(), why]);
    }
    table
}

/// Losses spoil a run.
pub fn note_losses(losses: &Losses, validity: &mut Validity) {
    validity.lost_events += losses.stacks + losses.sums + losses.collisions;
    for (lost, what) in [
        (losses.sums, "sums did not fit and are missing"),
        (losses.stacks, "stacks did not fit: their time is under [stack lost]"),
        (losses.collisions, "stacks were taken for another one"),
    ] {
        if lost > 0 {
            validity.note(Verdict::Incomplete, format!("{lost} {what}"));
        }
    }
}
