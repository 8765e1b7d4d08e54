//! latency-audit: how it is installed, run on a host that is not this one, and read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The version that the line numbers below are of.
const VERSION: &str = "0.1.4";

/// A check of theirs.
pub struct Subject {
    /// Its name; per network card it is followed by the card's.
    pub check: &'static str,
    /// Our findings about the same thing; empty where we have none.
    pub ours: &'static [&'static str],
    /// On what it passes, and the line that says so.
    pub passes_if: &'static str,
}

const fn subject(
    check: &'static str,
    ours: &'static [&'static str],
    passes_if: &'static str,
) -> Subject {
    Subject { check, ours, passes_if }
}

/// All of their checks. A finding stands beside a check only if the check claims to judge that
/// very thing, not merely something near it.
pub const SUBJECTS: &[Subject] = &[
    subject("swappiness", &["mem.swap", "mem.swapping"], "vm.swappiness is 0 (kernel.py:57)"),
    subject(
        "transparent_hugepages",
        &["mem.thp"],
        "`[never]` is in the common switch (kernel.py:91)",
    ),
    subject("sched_min_granularity_ns", &[], "at most 1 ms (kernel.py:138)"),
    subject("cpu_governor", &["freq.governor"], "all governors are `performance` (cpu.py:73)"),
    subject(
        "cstates",
        &["cstate.boot-tokens", "cstate.driver", "cstate.entered", "cstate.exit-latency"],
        "the boot line holds `processor.max_cstate=0` or `=1` (cpu.py:103, 113)",
    ),
    subject(
        "isolcpus",
        &["isolation.cpus-exist", "isolation.isolcpus"],
        "the boot line holds `isolcpus=`, whatever follows (cpu.py:179)",
    ),
    subject(
        "numa_topology",
        &["numa.latency-cpus-span", "numa.remote-memory"],
        "there is one node (cpu.py:227)",
    ),
    subject("nic_offloads", &["net.gro", "net.lro"], "GRO, LRO and TSO are off (network.py:114)"),
    subject("ring_buffer", &["net.rings"], "the ring has 90 % of its maximum (network.py:201)"),
    subject(
        "irq_affinity",
        &[
            "irq.arriving",
            "irq.default-affinity",
            "irq.effective-affinity",
            "irq.irqaffinity-token",
            "irq.irqbalance",
            "irq.nic-queues",
        ],
        "no process is called irqbalance: \"manual affinity assumed\" (network.py:282)",
    ),
    subject("udp_buffer_drops", &["net.udp-drops"], "RcvbufErrors is 0 (network.py:342)"),
    subject(
        "nic_hardware_drops",
        &["net.drops"],
        "rx_missed_errors and rx_over_errors are 0 (network.py:399)",
    ),
    subject(
        "tsc_reliable",
        &["clock.tsc-stable"],
        "the CPU has the flags constant_tsc and nonstop_tsc (clock.py:65)",
    ),
    subject("clocksource", &["clock.source"], "the current clocksource is tsc (clock.py:121)"),
    subject("pcie_link", &["net.pcie-link"], "speed and width are the maximum (hardware.py:88)"),
    subject("memory_channels", &[], "EDAC knows a memory controller (hardware.py:151)"),
    subject(
        "context_switches",
        &["proc.involuntary", "proc.involuntary-now"],
        "the main thread was never switched out (process.py:92)",
    ),
    subject("page_faults", &["proc.major-faults"], "there was no major fault (process.py:174)"),
];

/// What is wrong with a host and not what the check on that subject claims to judge: to pass it is
/// no mistake there. Host, finding, why.
pub const NOT_CLAIMED: &[(&str, &str, &str)] = &[
    ("frames-nobody-speaks", "net.drops", "the card itself lost nothing"),
    ("idle-word-misspelt", "cstate.boot-tokens", "the other words still limit the idle states"),
    ("irq-moved-but-not-yet-arrived", "irq.effective-affinity", NOT_NETWORK),
    ("irqbalance-stopped-not-disabled", "irq.irqbalance", "it is not running now"),
    ("isolcpus-lets-an-nvme-queue-in", "irq.effective-affinity", NOT_NETWORK),
    ("nvme-queue-and-no-debugfs", "irq.effective-affinity", NOT_NETWORK),
    ("nvme-queue-of-isolated-cpus-only", "irq.effective-affinity", NOT_NETWORK),
    ("nvme-queue-without-managed-irq", "irq.effective-affinity", NOT_NETWORK),
];

const NOT_NETWORK: &str = "no network card's interrupt, and the check is of those";

/// The check on the subject of a finding of ours, where it claims to judge what is wrong here.
pub fn on(host: &str, finding: &str) -> Option<&'static Subject> {
    let claimed = !NOT_CLAIMED.iter().any(|(h, f, _)| (*h, *f) == (host, finding));
    SUBJECTS.iter().find(|subject| claimed && subject.ours.contains(&finding))
}

/// An installed latency-audit.
pub struct LatencyAudit {
    /// Its program.
    pub program: PathBuf,
    /// Whether a mount namespace needs a user namespace around it.
    unprivileged: bool,
}

impl LatencyAudit {
    /// Installs it below `work` unless it is there.
    pub fn install(work: &Path) -> Result<Self> {
        let environment = work.join(format!("latency-audit-{VERSION}"));
        let program = environment.join("bin/latency-audit");
        if !program.exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
            run(Command::new(environment.join("bin/pip"))
                .args(["install", "--quiet", "--disable-pip-version-check"])
                .arg(format!("latency-audit=={VERSION}")))?;
        }
        for unprivileged in [false, true] {
            let peer = Self { program: program.clone(), unprivileged };
            if peer.namespace().arg("true").output().is_ok_and(|output| output.status.success()) {
                return Ok(peer);
            }
        }
        bail!("no mount namespace here: unshare --mount needs root or user namespaces")
    }

    /// What it says of the host in `tree`, and of one of its processes.
    pub fn ask(&self, tree: &Path, pid: Option<u32>) -> Result<Answers> {
        let mut command = self.namespace();
        command.args(["/bin/sh", "-c", BECOME, "sh"]).arg(tree).arg(&self.program).arg("--json");
        if let Some(pid) = pid {
            command.args(["--pid", &pid.to_string()]);
        }
        let output = command.output().context("unshare")?;
        if !output.status.success() {
            bail!("latency-audit: {}", String::from_utf8_lossy(&output.stderr));
        }
        let report: Value = serde_json::from_slice(&output.stdout).context("its JSON")?;
        Answers::of(&report)
    }

    fn namespace(&self) -> Command {
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if self.unprivileged {
            command.arg("--map-root-user");
        }
        command.arg("--");
        command
    }
}

/// Puts the host's files in the place of this machine's, and its programs in the place of all
/// others.
const BECOME: &str = r#"
set -e
tree=$1
shift
mount --bind "$tree/sys" /sys
mount --bind "$tree/proc" /proc
PATH="$tree/bin"
exec "$@"
"#;

/// What it says of a host: the worst status of each check.
pub struct Answers(BTreeMap<&'static str, String>);

impl Answers {
    fn of(report: &Value) -> Result<Self> {
        let mut worst: BTreeMap<&'static str, String> = BTreeMap::new();
        for result in report["checks"].as_array().context("its JSON has no checks")? {
            let (name, status) = (result["name"].as_str(), result["status"].as_str());
            let (name, status) = name.zip(status).context("a check without name or status")?;
            let subject = SUBJECTS.iter().find(|subject| name.starts_with(subject.check));
            let check = subject.with_context(|| format!("it has an unknown check, {name}"))?.check;
            let kept = worst.entry(check).or_insert_with(|| status.to_owned());
            if severity(status) > severity(kept) {
                *kept = status.to_owned();
            }
        }
        Ok(Self(worst))
    }

    /// The status of a check; a check that died and left nothing skipped the host.
    pub fn status(&self, check: &str) -> &str {
        self.0.get(check).map_or("skip", String::as_str)
    }

    /// The statuses of all checks.
    pub fn statuses(&self) -> impl Iterator<Item = &str> {
        SUBJECTS.iter().map(|subject| self.status(subject.check))
    }

    /// Checks that warn or fail.
    pub fn complaints(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = self.0.iter().map(|(check, status)| (*check, status.as_str()));
        all.filter(|(_, status)| complains(status))
    }

    /// Checks that complain louder here than there.
    pub fn worse_than(&self, other: &Self) -> Vec<&'static str> {
        let louder =
            |check: &str, status: &str| severity(status) > severity(other.status(check)).max(1);
        self.complaints().filter(|(check, status)| louder(check, status)).map(|(c, _)| c).collect()
    }
}

/// Whether a status is a complaint.
pub fn complains(status: &str) -> bool {
    matches!(status, "warn" | "fail")
}

fn severity(status: &str) -> u8 {
    match status {
        "fail" => 3,
        "warn" => 2,
        "pass" => 1,
        _ => 0,
    }
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{:?}", command.get_program()))?;
    match status.success() {
        true => Ok(()),
        false => bail!("{command:?}: {status}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::super::bad_host::BadHost;
    use super::*;

    #[test]
    fn the_worst_card_speaks_for_a_check_and_a_dead_check_skipped() {
        let report = |status: &str| {
            json!({"checks": [
                {"name": "ring_buffer (eth0)", "status": "pass"},
                {"name": "ring_buffer (eth1)", "status": status},
                {"name": "numa_topology", "status": "warn"},
            ]})
        };
        let good = Answers::of(&report("pass")).unwrap();
        let bad = Answers::of(&report("fail")).unwrap();
        assert_eq!(bad.status("ring_buffer"), "fail");
        assert_eq!(bad.status("clocksource"), "skip");
        assert_eq!(bad.worse_than(&good), ["ring_buffer"], "an old complaint is not louder");
        assert!(Answers::of(&json!({"checks": [{"name": "new", "status": "pass"}]})).is_err());
    }

    #[test]
    fn what_is_not_claimed_is_wrong_with_a_host_that_there_is() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/mutations"));
        let hosts = BadHost::all(folder).unwrap();
        for (name, finding, _) in NOT_CLAIMED {
            let host = hosts.iter().find(|host| host.name == *name).expect(name);
            assert!(host.wrongs().any(|(id, _)| id == *finding), "{name}: {finding}");
        }
    }

    #[test]
    fn no_finding_stands_beside_two_checks() {
        let ours: Vec<_> = SUBJECTS.iter().flat_map(|subject| subject.ours).collect();
        assert_eq!(ours.iter().collect::<BTreeSet<_>>().len(), ours.len());
    }
}
