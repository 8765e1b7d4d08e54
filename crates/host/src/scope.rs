//! What an audit is about: which CPUs are meant for latency, and which process.

use quietcore_facts::Facts;
use quietcore_measure::CpuSet;

/// What an audit is about.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The CPUs that are meant for latency; empty if there are none.
    pub cpus: CpuSet,
    /// Who says so.
    pub intent: Intent,
    /// The process to examine besides the host.
    pub pid: Option<u32>,
}

/// Who says that there are CPUs meant for latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// The user, by `--cpus`.
    Asked,
    /// The boot line, the kernel's list of isolated CPUs, or a cpuset partition that isolates.
    Boot,
    /// Nobody: an ordinary host. What only matters for isolated CPUs does not apply.
    None,
}

impl Scope {
    /// The scope of an audit; `cpus` as the user gave them.
    pub fn of(facts: &Facts, cpus: Option<CpuSet>, pid: Option<u32>) -> Self {
        if let Some(cpus) = cpus {
            return Self { cpus, intent: Intent::Asked, pid };
        }
        let has = facts.cpus();
        let isolated = [&has.isolated, &has.nohz_full].into_iter().filter_map(|r| r.value());
        let cpus = isolated.fold(facts.boot().intended(), |all, set| all.or(set));
        let cpus = cpus.or(&facts.cgroups().isolated()).and(&has.online);
        // Where isolcpus= and nohz_full= name nothing that is there, rcu_nocbs= beside them tells
        // which CPUs were meant. Without them it is no intent: it saves power, too.
        let offloaded =
            facts.boot().rcu_nocbs.as_ref().and_then(|request| request.cpus.as_ref().ok());
        let cpus = match (cpus.is_empty() && facts.boot().has_intent(), offloaded) {
            (true, Some(offloaded)) => offloaded.and(&has.online),
            _ => cpus,
        };
        let intent = match cpus.is_empty() && !facts.boot().has_intent() {
            true => Intent::None,
            false => Intent::Boot,
        };
        Self { cpus, intent, pid }
    }

    /// Whether any CPU is meant for latency, or was meant to be (a boot line that isolates only
    /// CPUs that do not exist is an intent, too).
    pub fn is_declared(&self) -> bool {
        self.intent != Intent::None
    }

    /// The CPUs to judge: those for latency, or all where none is named.
    pub fn judged(&self, facts: &Facts) -> CpuSet {
        match self.cpus.is_empty() {
            true => facts.cpus().online.clone(),
            false => self.cpus.clone(),
        }
    }

    /// The CPUs for everything else.
    pub fn housekeeping(&self, facts: &Facts) -> CpuSet {
        facts.cpus().online.minus(&self.cpus)
    }
}
