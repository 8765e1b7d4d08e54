//! What a function's probes cost on this host, measured on functions of our own.
//!
//! It hangs on the function's first instruction: one that the kernel knows how to emulate costs a
//! trap, any other a single step besides, which is many times as much. So the probe is measured on a
//! function that begins as the target does.

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use quietcore_measure::Nanos;

use crate::function::first_bytes;
use crate::{BpfError, FunctionProbe, Target};

/// How a function begins, as far as a probe's cost hangs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// `push`, `nop`, a jump or a call: the kernel emulates it.
    Emulated,
    /// `endbr64`, which some kernels emulate.
    Endbr,
    /// Anything else: the kernel steps over a copy of it.
    Stepped,
}

impl Beginning {
    /// Of these bytes of x86-64 code.
    fn of(code: &[u8]) -> Self {
        match code {
            [0xf3, 0x0f, 0x1e, 0xfa, ..] => Self::Endbr,
            [0x50..=0x57 | 0x90 | 0xe8 | 0xe9 | 0xeb | 0x70..=0x7f, ..]
            | [0x41, 0x50..=0x57, ..]
            | [0x0f, 0x80..=0x8f, ..] => Self::Emulated,
            _ => Self::Stepped,
        }
    }

    /// For people.
    pub fn about(self) -> &'static str {
        match self {
            Self::Emulated => "its first instruction is one that the kernel emulates",
            Self::Endbr => "it begins with endbr64",
            Self::Stepped => "its first instruction has to be single-stepped",
        }
    }
}

/// What the probes of one function cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeCost {
    /// Added to every call.
    pub per_call: Nanos,
    /// The part of it that lies within the span: what a function that does nothing seems to take.
    pub inside: Nanos,
    /// What it hangs on.
    pub beginning: Beginning,
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".p2align 4",
    "quietcore_probed_push: push rbp",
    "pop rbp",
    "ret",
    ".p2align 4",
    "quietcore_probed_endbr: endbr64",
    "ret",
    ".p2align 4",
    "quietcore_probed_step: lea rax, [rsp - 8]",
    "ret",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    safe fn quietcore_probed_push();
    safe fn quietcore_probed_endbr();
    safe fn quietcore_probed_step();
}

#[cfg(target_arch = "x86_64")]
fn twin(beginning: Beginning) -> extern "C" fn() {
    match beginning {
        Beginning::Emulated => quietcore_probed_push,
        Beginning::Endbr => quietcore_probed_endbr,
        Beginning::Stepped => quietcore_probed_step,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn twin(_: Beginning) -> extern "C" fn() {
    #[inline(never)]
    extern "C" fn probed() {
        black_box(());
    }
    probed
}

/// Each of the alternating rounds takes this long.
const ROUND: Duration = Duration::from_millis(20);
const ROUNDS: usize = 5;
const BATCH: u32 = 64;

/// Measures what probing the target will cost, on a function of this process that begins alike.
///
/// # Errors
/// [`BpfError`] where probes cannot be attached.
pub fn probe_cost(target: &Target) -> Result<ProbeCost, BpfError> {
    let map = |error| BpfError::Map { map: "the function's file", error };
    let beginning = Beginning::of(&first_bytes(&target.path, target.offset).map_err(map)?);
    let call = twin(beginning);
    let own = own(call).map_err(map)?;
    let (mut bare, mut probed, mut inside) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.extend(batches(call));
        let mut probe = FunctionProbe::start(&own, 0, None)?;
        // Nothing needs to be sent; the histogram holds them all.
        probe.keep_over(u64::MAX);
        probed.extend(batches(call));
        inside.extend(probe.histogram().value_at(0.5));
    }
    let per_call = (median(&mut probed) - median(&mut bare)).max(0.0);
    inside.sort_unstable();
    let inside = inside.get(inside.len() / 2).copied().unwrap_or_default();
    Ok(ProbeCost { per_call: Nanos(per_call.round() as u64), inside: Nanos(inside), beginning })
}

/// Nanoseconds per call, of every batch.
fn batches(call: extern "C" fn()) -> Vec<f64> {
    let (begin, mut all) = (Instant::now(), Vec::new());
    while begin.elapsed() < ROUND {
        let start = Instant::now();
        for _ in 0..BATCH {
            black_box(call)();
        }
        all.push(start.elapsed().as_nanos() as f64 / f64::from(BATCH));
    }
    all
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// A function of this process as a target: where its code lies in its file.
fn own(function: extern "C" fn()) -> std::io::Result<Target> {
    let address = function as *const () as usize as u64;
    let maps = fs::read_to_string("/proc/self/maps")?;
    let found = maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (hex(start)?, hex(end)?, hex(words.nth(1)?)?);
        (start..end).contains(&address).then(|| address - start + offset)
    });
    let offset = found.ok_or_else(|| std::io::Error::other("our own code is not mapped"))?;
    Ok(Target { pid: std::process::id(), path: PathBuf::from(OWN), offset })
}

const OWN: &str = "/proc/self/exe";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_beginning_is_told_by_its_bytes() {
        assert_eq!(Beginning::of(&[0x55, 0x48, 0x89, 0xe5]), Beginning::Emulated);
        assert_eq!(Beginning::of(&[0x41, 0x57]), Beginning::Emulated);
        assert_eq!(Beginning::of(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55]), Beginning::Endbr);
        assert_eq!(Beginning::of(&[0x48, 0x83, 0xec, 0x08]), Beginning::Stepped);
        assert_eq!(Beginning::of(&[]), Beginning::Stepped);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn each_twin_begins_as_it_stands_for_and_is_found_in_our_own_file() {
        for beginning in [Beginning::Emulated, Beginning::Endbr, Beginning::Stepped] {
            let own = own(twin(beginning)).unwrap();
            let code = first_bytes(Path::new(OWN), own.offset).unwrap();
            assert_eq!(Beginning::of(&code), beginning);
        }
    }

    #[test]
    #[ignore = "needs root: cargo test -p quietcore-bpf -- --ignored root_"]
    fn root_every_call_is_counted_and_those_over_the_threshold_are_sent() {
        // One that no other test calls at the same time.
        let call = twin(Beginning::Endbr);
        let mut probe = FunctionProbe::start(&own(call).unwrap(), 10, None).unwrap();
        probe.keep_over(u64::MAX);
        (0..1000).for_each(|_| black_box(call)());
        assert_eq!(probe.histogram().count(), 1000);
        let spans = probe.spans().unwrap();
        assert!((1..1000).contains(&spans.len()), "{}", spans.len());
        assert!(spans.iter().all(|span| span.sampled && span.len_ns() > 0));
        probe.keep_over(0);
        (0..1000).for_each(|_| black_box(call)());
        assert_eq!(probe.spans().unwrap().len(), 1000);
        assert_eq!(probe.counts().unwrap().dropped, 0);
    }

    #[test]
    #[ignore = "needs root: cargo test -p quietcore-bpf -- --ignored root_"]
    fn root_probes_cost_something_and_part_of_it_lies_within() {
        let target = own(twin(Beginning::Emulated)).unwrap();
        let cost = probe_cost(&target).unwrap();
        assert!(cost.per_call.0 > 0 && cost.inside.0 > 0, "{cost:?}");
        println!("{cost:?} {:?}", probe_cost(&own(twin(Beginning::Stepped)).unwrap()));
    }
}
