//! What idle states, clocks and sensors say at one moment: two such readings give residency, busy
//! time and frequency.

use std::collections::BTreeMap;

use quietcore_measure::{CpuSet, Nanos, Reading};
use quietcore_sys::Host;
use quietcore_sys::host::{HostError, reading};

use crate::idle::{self, StateUse};
use crate::{CpuTimes, Facts, thermal};

/// One reading of every CPU asked for.
///
/// It is not free: kernels before 5.18 interrupt a CPU that is not nohz_full for its frequency,
/// all kernels interrupt a core for its temperature and for a register.
#[derive(Clone, Debug, Default)]
pub struct PowerReading {
    /// When, as time since boot; 0 where unknown.
    pub at: Nanos,
    /// The CPUs that were online.
    pub cpus: BTreeMap<usize, CpuPower>,
}

/// What one CPU said.
#[derive(Clone, Debug)]
pub struct CpuPower {
    /// Use of its idle states since boot; empty where it has none.
    pub idle: Vec<StateUse>,
    /// Its time by kind since boot.
    pub times: Option<CpuTimes>,
    /// The frequency that the driver reports, in kHz.
    pub khz: Reading<i64>,
    /// APERF and MPERF, the cycles it ran and would have run at its rated frequency.
    pub cycles: Option<(u64, u64)>,
    /// Temperature of its core, else of its package, in °C.
    pub celsius: Reading<f64>,
    /// Times it was slowed down for heat since boot, its core or its package.
    pub throttles: Reading<u64>,
}

impl PowerReading {
    /// Reads these CPUs now.
    pub fn take(facts: &Facts, cpus: &CpuSet) -> Self {
        let host = facts.host();
        let at = host.monotonic().unwrap_or_default();
        let times = CpuTimes::parse(&host.read("/proc/stat").unwrap_or_default());
        let mut uses = idle::uses(host, cpus);
        let throttles: BTreeMap<usize, u64> = thermal::throttles(host, cpus).into_iter().collect();
        let no_count = match facts.cpus().is_guest() {
            true => "a guest does not see when its CPUs are slowed down for heat",
            false => "no thermal_throttle counters: the CPU or the kernel does not keep them",
        };
        let cpu = |cpu: usize| CpuPower {
            idle: uses.remove(&cpu).unwrap_or_default(),
            times: times.iter().find(|t| t.cpu == cpu).copied(),
            khz: frequency(facts, cpu),
            cycles: cycles(host, cpu),
            celsius: celsius(facts, cpu),
            throttles: match throttles.get(&cpu) {
                Some(count) => Reading::Measured(*count),
                None => Reading::Unsupported(no_count.to_owned()),
            },
        };
        let mut cpu = cpu;
        Self { at, cpus: cpus.iter().map(|number| (number, cpu(number))).collect() }
    }
}

fn frequency(facts: &Facts, cpu: usize) -> Reading<i64> {
    if facts.frequency().of(cpu).is_none() {
        return Reading::Unsupported(match facts.cpus().is_guest() {
            true => "no frequency driver: the hypervisor sets the frequency".to_owned(),
            false => "no frequency driver: the firmware sets the frequency".to_owned(),
        });
    }
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
    // Without the path: a hundred CPUs would give a hundred reasons.
    reading(facts.host().number(&path).map_err(|error| HostError {
        what: "cpufreq/scaling_cur_freq".to_owned(),
        trouble: error.trouble,
    }))
}

fn cycles(host: &Host, cpu: usize) -> Option<(u64, u64)> {
    Some((host.msr(cpu, 0xe8).ok()?, host.msr(cpu, 0xe7).ok()?))
}

fn celsius(facts: &Facts, cpu: usize) -> Reading<f64> {
    let host = facts.host();
    let core = host.number(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/core_id")).ok();
    let package = facts.cpus().topology.get(&cpu).and_then(|place| place.package);
    match facts.thermal().sensor_of(package, core) {
        Some(sensor) => sensor.ask(host),
        None => Reading::Unsupported(match facts.cpus().is_guest() {
            true => "a guest has no temperature sensors".to_owned(),
            false => "no temperature sensor of the CPU (modprobe coretemp or k10temp)".to_owned(),
        }),
    }
}
