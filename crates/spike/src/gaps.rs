//! What the gaps of a spinning CPU were made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use quietcore_bpf::{Set, Settings, Watch};
use quietcore_measure::{
    Cell, CpuSet, Gap, Kind, KindCount, Nanos, Section, Segment, Spike, Spikes, Table, Thread,
};

use crate::attribute::{Gaps, Window};
use crate::jitter::{CpuJitter, Jitter};
use crate::tape::Tape;

/// Enough for what other CPUs record between two looks.
const SLOTS: u32 = 1 << 16;

/// Shorter gaps may end before anything is recorded: a probe takes a good part of that itself.
const EVIDENCE_FROM: Nanos = Nanos::from_us(1);

/// A hypervisor that runs something else switches to it and back: that takes longer.
const SHORTEST_STEAL: Nanos = Nanos::from_us(2);

/// Firmware that takes all CPUs to itself has them for longer: tens of microseconds were measured by
/// Delgado and Karavanic, "Performance Implications of System Management Mode" (IISWC 2013).
const SHORTEST_SMI: Nanos = Nanos::from_us(5);

/// Spikes that a run keeps one by one.
const KEPT: usize = 1_000;

/// The recorder for the gaps of these CPUs: all its sets, and nobody's waits.
pub fn recorder() -> Settings {
    Settings {
        sets: Set::ALL.to_vec(),
        slots: SLOTS,
        ..Settings::new(Watch::Tasks(Vec::new()), Nanos::from_secs(3_600))
    }
}

/// Gaps joined to evidence.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The gaps by kind, and the longest with their segments.
    pub spikes: Spikes,
    cpus: CpuSet,
    longer: Coverage,
    shorter: Coverage,
}

/// How much is explained.
#[derive(Clone, Copy, Debug, Default)]
struct Coverage {
    gaps: u64,
    explained: u64,
    ns: u64,
    explained_ns: u64,
}

impl Coverage {
    fn add(&mut self, spike: &Spike) {
        let dark: u64 = spike
            .segments
            .iter()
            .filter(|segment| segment.kind == Kind::Unexplained)
            .map(|segment| segment.len_ns.0)
            .sum();
        self.gaps += 1;
        self.explained += u64::from(spike.kind() != Kind::Unexplained);
        self.ns += spike.len_ns.0;
        self.explained_ns += spike.len_ns.0 - dark;
    }

    fn row(&self, cpus: &CpuSet, name: &str) -> Vec<Cell> {
        let pct = |part: u64, all: u64| match all {
            0 => Cell::Empty,
            _ => (part as f64 / all as f64 * 100.0).into(),
        };
        vec![
            cpus.to_string().into(),
            name.into(),
            self.gaps.into(),
            pct(self.explained, self.gaps),
            (self.ns as f64 / 1e3).into(),
            pct(self.explained_ns, self.ns),
        ]
    }
}

impl Explained {
    /// Joins every kept gap of a measurement to what the recorder saw meanwhile.
    pub fn of(jitter: &Jitter, tape: &Tape) -> Self {
        let mut all = Self {
            spikes: Spikes {
                name: "jitter_explained".into(),
                title: "What the gaps were made of".into(),
                ..Spikes::default()
            },
            cpus: jitter.cpus.iter().map(|cpu| cpu.cpu).collect(),
            longer: Coverage::default(),
            shorter: Coverage::default(),
        };
        let mut kinds = BTreeMap::new();
        let mut spikes = Vec::new();
        for cpu in &jitter.cpus {
            all.spikes.threshold_ns = all.spikes.threshold_ns.max(cpu.threshold);
            all.spikes.omitted += cpu.omitted;
            let thread = Thread {
                tid: cpu.tid,
                pid: std::process::id(),
                comm: format!("spike-{}", cpu.cpu),
            };
            let gaps = known(cpu, jitter.start_ns);
            let explain = |gap: &Gap| {
                tape.explain(&Window {
                    thread: thread.clone(),
                    start_ns: gap.start_ns,
                    end_ns: gap.start_ns + gap.len_ns.0,
                    cpu: u32::try_from(cpu.cpu).unwrap_or(u32::MAX),
                    spins: true,
                    gaps: gaps.clone(),
                })
            };
            let mut explained: Vec<_> = cpu.gaps.iter().map(explain).collect();
            let around = jitter.surroundings.cpus.iter().find(|around| around.cpu == cpu.cpu);
            let smis = around.and_then(|around| around.smi.value().copied());
            if cpu.omitted == 0 {
                firmware(&mut explained, smis.unwrap_or(0));
            }
            for spike in &explained {
                count(&mut kinds, spike);
                let is_short = spike.len_ns < EVIDENCE_FROM;
                let of = if is_short { &mut all.shorter } else { &mut all.longer };
                of.add(spike);
            }
            spikes.append(&mut explained);
        }
        all.spikes.kinds = kinds.into_values().collect();
        all.spikes.kinds.sort_by_key(|of: &KindCount| std::cmp::Reverse(of.total_ns));
        spikes.sort_by_key(|spike| std::cmp::Reverse(spike.len_ns));
        all.spikes.omitted += spikes.len().saturating_sub(KEPT) as u64;
        spikes.truncate(KEPT);
        spikes.sort_by_key(|spike| spike.start_ns);
        all.spikes.spikes = spikes;
        all
    }

    /// The median gap of those with evidence; `None` without any.
    pub fn typical(jitter: &Jitter) -> Option<Nanos> {
        let gaps = jitter.cpus.iter().flat_map(|cpu| &cpu.gaps).map(|gap| gap.len_ns);
        let mut lengths: Vec<_> = gaps.filter(|&len| len >= EVIDENCE_FROM).collect();
        lengths.sort_unstable();
        lengths.get(lengths.len() / 2).copied()
    }

    /// Table `jitter_coverage` and spikes `jitter_explained`.
    pub fn sections(self) -> Vec<Section> {
        let columns = ["cpus", "gaps_of", "gaps", "explained_pct", "time_us", "explained_time_pct"];
        let title = "How much of the gaps is explained";
        let mut table = Table::new("jitter_coverage", title, &columns);
        table.rows.push(self.longer.row(&self.cpus, "1 µs and more"));
        table.rows.push(self.shorter.row(&self.cpus, "less: may be beyond evidence"));
        vec![Section::Table(table), Section::Spikes(self.spikes)]
    }
}

/// All the gaps of a CPU in which a hypervisor may have run something else, if they were kept.
fn known(cpu: &CpuJitter, start_ns: u64) -> Option<Arc<Gaps>> {
    let begin = start_ns + cpu.late.0;
    let when = |gap: &Gap| (gap.start_ns, gap.start_ns + gap.len_ns.0);
    let all = || Gaps::new(begin, begin + cpu.elapsed.0, cpu.gaps.iter().map(when).collect());
    (cpu.omitted == 0 && cpu.threshold <= SHORTEST_STEAL).then(|| Arc::new(all()))
}

/// Calls silent gaps of one CPU the firmware's if it counted exactly as many system management
/// interrupts. Where it counted more, some of those fell into other gaps, and others may be somebody else's.
fn firmware(gaps: &mut [Spike], smis: u64) {
    let segments = gaps.iter_mut().flat_map(|gap| &mut gap.segments);
    let is_silent = |segment: &&mut Segment| {
        segment.kind == Kind::HostOrFirmware && segment.len_ns >= SHORTEST_SMI
    };
    let silent: Vec<_> = segments.filter(is_silent).collect();
    if smis == 0 || silent.is_empty() {
        return;
    }
    let (all, known) = (silent.len(), silent.len() as u64 == smis);
    for segment in silent {
        let which = if known { "" } else { ", which of them is not known" };
        segment.evidence.push(format!(
            "MSR_SMI_COUNT rose by {smis}, and {all} silent gaps are {SHORTEST_SMI} and longer{which}"
        ));
        if known {
            segment.kind = Kind::Smi;
        }
    }
}

fn count(kinds: &mut BTreeMap<Kind, KindCount>, spike: &Spike) {
    let none = |kind| KindCount { kind, spikes: 0, total_ns: Nanos(0), max_ns: Nanos(0) };
    for segment in &spike.segments {
        kinds.entry(segment.kind).or_insert_with(|| none(segment.kind)).total_ns += segment.len_ns;
    }
    let kind = spike.kind();
    let named = kinds.entry(kind).or_insert_with(|| none(kind));
    named.spikes += 1;
    named.max_ns = named.max_ns.max(spike.len_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(kind: Kind, len: u64) -> Spike {
        let (at_ns, len_ns) = (Nanos(0), Nanos(len));
        let segment = Segment { at_ns, len_ns, kind, by: String::new(), evidence: Vec::new() };
        Spike { len_ns, segments: vec![segment], ..Spike::default() }
    }

    #[test]
    fn silent_gaps_are_the_firmware_s_if_it_took_the_cpu_as_often() {
        let named = |smis| {
            let mut gaps = [
                gap(Kind::HostOrFirmware, 50_000),
                gap(Tick, 9_000),
                gap(Kind::HostOrFirmware, 5_000),
                gap(Kind::HostOrFirmware, 400),
            ];
            firmware(&mut gaps, smis);
            let evidence = gaps[0].segments[0].evidence.concat();
            (gaps.map(|gap| gap.kind()), evidence)
        };
        use Kind::{HostOrFirmware as Silent, Smi, Tick};
        assert_eq!(named(0), ([Silent, Tick, Silent, Silent], String::new()));
        let (kinds, evidence) = named(1);
        assert_eq!(kinds, [Silent, Tick, Silent, Silent]);
        assert!(evidence.contains("rose by 1") && evidence.contains("not known"), "{evidence}");
        let (kinds, evidence) = named(2);
        assert_eq!(kinds, [Smi, Tick, Smi, Silent]);
        assert!(evidence.contains("rose by 2") && !evidence.contains("not known"), "{evidence}");
        assert_eq!(named(3).0, [Silent, Tick, Silent, Silent]);
    }
}
