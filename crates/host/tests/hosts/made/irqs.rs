//! Interrupts: an NVMe disk, a network card with four queues, and what the architecture counts.

use quietcore_measure::CpuSet;
use quietcore_sys::host::Snapshot;
use serde_json::json;

use super::{LAPTOP_CPUS, SERVER_CPUS, file};

/// Number, handlers, CPUs.
type Line = (u32, &'static str, &'static str, &'static str);

const SERVER: &[Line] = &[
    (8, "IR-IO-APIC   8-edge      rtc0", "0-1,20-41,60-79", "0"),
    (9, "IR-IO-APIC   9-fasteoi   acpi", "0-1,20-41,60-79", "0"),
    (120, "IR-PCI-MSI 524288-edge      nvme0q0", "0-1,40-41", "1"),
    (121, "IR-PCI-MSI 524289-edge      nvme0q1", "0-1,40-41", "40"),
    (130, "IR-PCI-MSI 12582912-edge      eth0-0", "0-1,40-41", "0"),
    (131, "IR-PCI-MSI 12582913-edge      eth0-1", "0-1,40-41", "1"),
    (132, "IR-PCI-MSI 12582914-edge      eth0-2", "0-1,40-41", "40"),
    (133, "IR-PCI-MSI 12582915-edge      eth0-3", "0-1,40-41", "41"),
];

const LAPTOP: &[Line] = &[
    (9, "IR-IO-APIC   9-fasteoi   acpi", "0-7", "1"),
    (120, "IR-PCI-MSI 524288-edge      nvme0q0", "0-7", "2"),
    (121, "IR-PCI-MSI 524289-edge      nvme0q1", "3", "3"),
    (130, "IR-PCI-MSI 12582912-edge      iwlwifi", "0-7", "5"),
    (131, "IR-PCI-MSI 520192-edge      enp0s31f6", "0-7", "6"),
];

pub fn server(host: &mut Snapshot) {
    let keep = CpuSet::parse_list("0-1,20-41,60-79").unwrap();
    file(host, "/proc/irq/default_smp_affinity", keep.to_mask(SERVER_CPUS) + "\n");
    table(host, SERVER, SERVER_CPUS);
}

pub fn laptop(host: &mut Snapshot) {
    file(host, "/proc/irq/default_smp_affinity", "ff\n");
    table(host, LAPTOP, LAPTOP_CPUS);
}

fn table(host: &mut Snapshot, lines: &[Line], cpus: usize) {
    let mut text = String::from("    ");
    for cpu in 0..cpus {
        text.push_str(&format!("       CPU{cpu}"));
    }
    text.push('\n');
    let mut row = |label: &str, count: &dyn Fn(usize) -> u64, words: &str| {
        text.push_str(&format!("{label:>4}:"));
        for cpu in 0..cpus {
            text.push_str(&format!(" {:>10}", count(cpu)));
        }
        text.push_str(&format!("  {words}\n"));
    };
    for (number, words, affinity, effective) in lines {
        let target = CpuSet::parse_list(effective).unwrap();
        row(&number.to_string(), &|cpu| if target.contains(cpu) { 1200 } else { 0 }, words);
        file(host, &format!("/proc/irq/{number}/smp_affinity_list"), format!("{affinity}\n"));
        file(
            host,
            &format!("/proc/irq/{number}/effective_affinity_list"),
            format!("{effective}\n"),
        );
        if words.contains("IO-APIC") {
            let spurious = "count 0\nunhandled 0\nlast_unhandled 0 ms\n";
            file(host, &format!("/proc/irq/{number}/spurious"), spurious);
        }
        let debug = format!(
            "handler:  handle_edge_irq\ndstate:   0x05401200\n{}",
            if words.contains("nvme0q1") { "            IRQD_AFFINITY_MANAGED\n" } else { "" }
        );
        file(host, &format!("/sys/kernel/debug/irq/irqs/{number}"), debug);
    }
    for (label, words) in [
        ("NMI", "Non-maskable interrupts"),
        ("LOC", "Local timer interrupts"),
        ("SPU", "Spurious interrupts"),
        ("RES", "Rescheduling interrupts"),
        ("CAL", "Function call interrupts"),
        ("TLB", "TLB shootdowns"),
        ("TRM", "Thermal event interrupts"),
        ("MCE", "Machine check exceptions"),
    ] {
        row(label, &|_| if label == "LOC" { 90_000 } else { 0 }, words);
    }
    text.push_str(" ERR:          0\n MIS:          0\n");
    file(host, "/proc/interrupts", text);
    // An hour of uptime; the well-tuned server's comes with its probe.
    host.set("clock boottime", json!(3_600_000_000_000_u64));
    host.set("clock monotonic", json!(3_600_000_000_000_u64));
    file(host, "/sys/firmware/acpi/interrupts/sci", "     120\n");
}
