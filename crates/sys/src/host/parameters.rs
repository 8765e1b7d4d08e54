//! Which kernel parameters keep their value: a command line may hold passwords, addresses and the
//! names of hosts (`systemd.set_credential=`, `ip=`, `root=/dev/mapper/HOST--vg-root`).

/// Parameters whose value says nothing but how the kernel is to run; `-` as `_`, and a `*` at the
/// end stands for any ending.
const HARMLESS: &[&str] = &[
    "BOOT_IMAGE",
    "acpi_irq*",
    "amd_iommu",
    "amd_pstate",
    "audit",
    "clocksource",
    "console",
    "cpufreq.*",
    "cpuidle.*",
    "cpuidle_haltpoll.*",
    "debug_objects",
    "debug_pagealloc",
    "default_hugepagesz",
    "gather_data_sampling",
    "highres",
    "hpet",
    "hugepages",
    "hugepagesz",
    "hugetlb_cma",
    "idle",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.*",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "irqaffinity",
    "isolate*",
    "isolcpus",
    "kthread_cpus",
    "kvm.*",
    "kvm_amd.*",
    "kvm_intel.*",
    "l1tf",
    "loglevel",
    "maxcpus",
    "mce",
    "mds",
    "mitigations",
    "nmi_watchdog",
    "no_timer_check",
    "nohz*",
    "nosmt",
    "nosoftlockup",
    "nowatchdog",
    "nr_cpus",
    "numa*",
    "page_poison",
    "pci",
    "pcie_aspm*",
    "possible_cpus",
    "preempt",
    "processor.*",
    "psi",
    "pti",
    "rcu*",
    "retbleed",
    "skew_tick",
    "slab_debug",
    "slub_debug",
    "spec_*",
    "spectre_*",
    "srbds",
    "systemd.cpu_affinity",
    "systemd.unified_cgroup_hierarchy",
    "threadirqs",
    "transparent_hugepage",
    "tsc",
    "tsc_reliable",
    "tsx",
    "tsx_async_abort",
    "workqueue.*",
];

/// Whether the value of a kernel parameter is read and kept.
pub fn keeps_value(name: &str) -> bool {
    let name = name.replace('-', "_");
    HARMLESS.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *known,
    })
}

/// How a text quotes a value with white space in it.
#[derive(Clone, Copy)]
pub(super) enum Quoting {
    /// By double quotes, as the kernel.
    Kernel,
    /// By either quotes, as the shell and GRUB.
    Shell,
    /// By quotes within the quotes of an assignment: `X="a=\"b c\""`.
    Assignment,
    /// Not at all: the kernel's message of parameters that it does not know.
    Message,
}

/// Takes the values of all other parameters out of a line: `a=b` becomes `a`. What a shell would
/// work out keeps a `$`, to be seen as such.
pub(super) fn without_values(line: &str, quoting: Quoting) -> String {
    let mut out = String::with_capacity(line.len());
    let mut word = String::new();
    let (mut quote, mut before) = (None, ' ');
    let outer = line.chars().next();
    for c in line.chars() {
        let is_quote = match quoting {
            Quoting::Kernel => c == '"',
            Quoting::Shell => matches!(c, '"' | '\''),
            Quoting::Assignment => {
                matches!(c, '"' | '\'') && (outer != Some(c) || (c == '"' && before == '\\'))
            }
            Quoting::Message => false,
        };
        before = c;
        if is_quote && quote.is_none_or(|open| open == c) {
            quote = match quote {
                None => Some(c),
                Some(_) => None,
            };
        }
        if c.is_whitespace() && quote.is_none() {
            out.push_str(&without_value(&word));
            out.push(c);
            word.clear();
        } else {
            word.push(c);
        }
    }
    out.push_str(&without_value(&word));
    out
}

fn without_value(word: &str) -> String {
    let is_quote = |c: char| matches!(c, '"' | '\'' | '\\');
    let Some((name, value)) = word.split_once('=') else {
        return word.split_whitespace().next().unwrap_or_default().to_owned();
    };
    if keeps_value(name.trim_start_matches(is_quote)) && !value.contains(char::is_whitespace) {
        return word.to_owned();
    }
    let mut out = name.to_owned();
    if value.contains(['$', '`']) {
        out.push_str("=$");
    }
    // A quote that was opened before the value closes behind it.
    for quote in ['"', '\''] {
        if value.matches(quote).count() % 2 == 1 {
            out.push(quote);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_nobody_reads_go_and_names_stay() {
        let line = "BOOT_IMAGE=/vmlinuz root=/dev/mapper/host--vg-root ro isolcpus=domain,2-3 \
                    rd.luks.key=secret nohz-full=2-3 dyndbg=\"file secret.c +p\" \"pass=a b\" quiet";
        let clean = "BOOT_IMAGE=/vmlinuz root ro isolcpus=domain,2-3 rd.luks.key nohz-full=2-3 \
                     dyndbg \"pass\" quiet";
        assert_eq!(without_values(line, Quoting::Kernel), clean);
        assert_eq!(without_values("isolcpus=\"2 secret\"", Quoting::Kernel), "isolcpus");
    }

    #[test]
    fn assignments_stay_assignments() {
        for (line, clean) in [
            ("\"isolcpus=2 pass=secret\"", "\"isolcpus=2 pass\""),
            ("\"pass=secret\" # why", "\"pass\" # why"),
            ("'a=\"x y\" tsc=reliable'", "'a tsc=reliable'"),
            ("\"a=\\\"x y\\\" tsc=reliable\"", "\"a tsc=reliable\""),
            ("\"$GRUB_CMDLINE_LINUX a=$(cat /x)\"", "\"$GRUB_CMDLINE_LINUX a=$ /x)\""),
            ("quiet", "quiet"),
            ("", ""),
        ] {
            assert_eq!(without_values(line, Quoting::Assignment), clean);
        }
        assert_eq!(without_values("x a='s t' \"b=u v\" tsc=x", Quoting::Shell), "x a \"b\" tsc=x");
    }

    #[test]
    fn the_kernels_message_keeps_its_quotes() {
        let line = "Unknown kernel command line parameters \"splash pass=x\", will be passed";
        let clean = "Unknown kernel command line parameters \"splash pass\" will be passed";
        assert_eq!(without_values(line, Quoting::Message), clean);
    }

    #[test]
    fn names_are_taken_whole_or_by_their_beginning() {
        for kept in ["isolcpus", "rcu-nocbs", "intel_idle.max_cstate", "nohz_full", "pcie_aspm"] {
            assert!(keeps_value(kept), "{kept}");
        }
        for dropped in ["root", "ip", "systemd.set_credential", "auditx", "systemd.hostname", ""] {
            assert!(!keeps_value(dropped), "{dropped}");
        }
    }
}
