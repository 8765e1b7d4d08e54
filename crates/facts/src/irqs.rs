//! Interrupts: what they are, where they may arrive, where they do.

use std::collections::BTreeMap;

use quietcore_measure::{CpuSet, Reading};
use quietcore_sys::host::reading;

use crate::Facts;

/// The interrupts of a host.
#[derive(Clone, Debug)]
pub struct Irqs {
    /// Device interrupts that have a handler.
    pub lines: Vec<Irq>,
    /// Where new interrupts start (`/proc/irq/default_smp_affinity`).
    pub default_affinity: Reading<CpuSet>,
    /// Counts per CPU since boot.
    pub counts: Interrupts,
}

/// A device interrupt.
#[derive(Clone, Debug)]
pub struct Irq {
    /// Number.
    pub number: u32,
    /// Handlers, as `eth0-rx-3`.
    pub actions: String,
    /// CPUs it may be sent to.
    pub affinity: Reading<CpuSet>,
    /// CPUs it is sent to.
    pub effective: Reading<CpuSet>,
    /// Whether the kernel alone decides where it goes, as for the queues of NVMe disks. Only
    /// debugfs says so.
    pub managed: Reading<bool>,
}

/// `/proc/interrupts`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// The CPU of each column.
    pub cpus: Vec<usize>,
    /// Rows by label (`24`, `LOC`).
    pub rows: BTreeMap<String, Row>,
}

/// One row of `/proc/interrupts`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// One count per column; `ERR` and `MIS` have only one in all.
    pub counts: Vec<u64>,
    /// Chip, hardware number and handlers, or the words for an architecture's own interrupt.
    pub text: String,
}

impl Irqs {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        let counts = Interrupts::read(facts);
        let set =
            |number: u32, name: &str| reading(host.cpu_list(&format!("/proc/irq/{number}/{name}")));
        let numbers =
            counts.rows.iter().filter_map(|(label, row)| Some((label.parse::<u32>().ok()?, row)));
        let mut lines: Vec<Irq> = numbers
            .map(|(number, row)| Irq {
                number,
                actions: row.actions().to_owned(),
                affinity: set(number, "smp_affinity_list"),
                effective: set(number, "effective_affinity_list"),
                managed: reading(host.read(&format!("/sys/kernel/debug/irq/irqs/{number}")))
                    .map(|text| text.contains("IRQD_AFFINITY_MANAGED")),
            })
            .collect();
        lines.sort_by_key(|irq| irq.number);
        Self {
            lines,
            default_affinity: reading(host.cpu_mask("/proc/irq/default_smp_affinity")),
            counts,
        }
    }
}

impl Irqs {
    /// Whether `/proc/interrupts` was read: its first line names CPUs on every host.
    pub fn known(&self) -> bool {
        !self.counts.cpus.is_empty()
    }
}

impl Irq {
    /// `24 (eth0-rx-3)`, as reports name it.
    pub fn label(&self) -> String {
        match self.actions.is_empty() {
            true => self.number.to_string(),
            false => format!("{} ({})", self.number, self.actions),
        }
    }

    /// CPUs it may fire on: the effective ones where the kernel tells, else the permitted ones.
    pub fn targets(&self) -> Option<&CpuSet> {
        self.effective.value().filter(|set| !set.is_empty()).or(self.affinity.value())
    }
}

impl Interrupts {
    pub(crate) fn read(facts: &Facts) -> Self {
        Self::parse(&facts.host().read("/proc/interrupts").unwrap_or_default())
    }

    /// Reads the table; rows that make no sense are left out.
    pub fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let header = lines.next().unwrap_or_default();
        let cpus: Vec<usize> = header
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
            .collect();
        let row = |line: &str| {
            let (label, rest) = line.split_once(':')?;
            let mut rest = rest.trim_start();
            let mut counts = Vec::with_capacity(cpus.len());
            while counts.len() < cpus.len() {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let Ok(count) = rest[..end].parse() else { break };
                counts.push(count);
                rest = rest[end..].trim_start();
            }
            let text = rest.trim_end().to_owned();
            (!counts.is_empty()).then(|| (label.trim().to_owned(), Row { counts, text }))
        };
        let rows = lines.filter_map(row).collect();
        Self { cpus, rows }
    }

    /// How often the interrupt with this label hit a CPU; `None` if there is no such count.
    pub fn count(&self, label: &str, cpu: usize) -> Option<u64> {
        let column = self.cpus.iter().position(|&c| c == cpu)?;
        self.rows.get(label)?.counts.get(column).copied()
    }

    /// What was added since an earlier reading, by label, on one CPU; zeros are left out.
    pub fn since(&self, earlier: &Self, cpu: usize) -> BTreeMap<String, u64> {
        let added = |label: &String| {
            let before = earlier.count(label, cpu).unwrap_or_default();
            let delta = self.count(label, cpu)?.saturating_sub(before);
            (delta > 0).then(|| (label.clone(), delta))
        };
        self.rows.keys().filter_map(added).collect()
    }
}

impl Row {
    /// The handlers of a device interrupt: what stands behind the chip and the hardware number
    /// (`PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0`).
    pub fn actions(&self) -> &str {
        let text = self.text.as_str();
        let is_trigger = |word: &str| word.ends_with("-edge") || word.ends_with("-fasteoi");
        let end = text.split_whitespace().find(|word| is_trigger(word));
        match end.and_then(|word| text.find(word).map(|at| at + word.len())) {
            Some(end) => text[end..].trim_start(),
            None => {
                let mut words = text.splitn(3, char::is_whitespace).skip(2);
                words.next().unwrap_or_default().trim_start()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "           CPU0       CPU2       \n\
         24:          1          5  IO-APIC   5-edge      ACPI:Ged\n\
         36:          0      30973 PCI-MSIX-0000:00:02.0   1-edge      eth0-rx-3, eth0-tx-3\n\
        LOC:       5901       8613   Local timer interrupts\n\
        ERR:          0\n\
        bad line\n";

    #[test]
    fn columns_belong_to_the_cpus_of_the_header() {
        let table = Interrupts::parse(TABLE);
        assert_eq!(table.cpus, [0, 2]);
        assert_eq!(table.count("LOC", 2), Some(8613));
        assert_eq!(table.count("LOC", 1), None);
        assert_eq!(table.count("ERR", 2), None);
        assert_eq!(table.rows["36"].actions(), "eth0-rx-3, eth0-tx-3");
        assert_eq!(table.rows["24"].actions(), "ACPI:Ged");
        assert_eq!(table.rows["LOC"].text, "Local timer interrupts");
    }

    #[test]
    fn differences_leave_out_what_did_not_move() {
        let before = Interrupts::parse(TABLE);
        let after = Interrupts::parse(&TABLE.replace("8613", "8620"));
        assert_eq!(after.since(&before, 2), BTreeMap::from([("LOC".to_owned(), 7)]));
        assert!(after.since(&before, 0).is_empty());
    }

    #[test]
    fn garbage_gives_an_empty_table() {
        for text in ["", "\n\n", "CPUx\n1: 2\n", ":::", "   CPU0\n1:\n2: x\n"] {
            assert!(Interrupts::parse(text).rows.is_empty(), "{text}");
        }
    }
}
