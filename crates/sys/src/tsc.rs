//! A clock for hot loops: the processor's own counter where it can be trusted.
//!
//! Reading the counter takes some twenty cycles and no system call, but its ticks mean time only
//! if it runs at one rate in every power state (invariance), if the CPUs' counters agree, and if
//! the kernel has not caught it lying. [`Clock::start`] checks all three, measures the rate with
//! an error bound, and falls back to `clock_gettime` with the reason. Nothing here believes a
//! frequency from a data sheet.
//!
//! Three ways to read, for three needs:
//! * [`ticks`] in a loop: not ordered with the instructions around it, which may slide past it by
//!   some nanoseconds. The differences between successive reads do not drift by that.
//! * [`ticks_ordered`] at the edges of what is timed: all earlier loads are done, nothing later
//!   has begun.
//! * [`Clock::ticks`] where speed does not matter and the fallback must work.

mod offset;
mod rate;

use std::fmt;

use quietcore_measure::{CpuSet, Reading};

pub use offset::{Offset, OffsetBounds};
pub use rate::{Anchor, Calibration, Rate, Timebase};

use crate::clock::KernelClock;

/// Above this proven disagreement between two CPUs' counters the counter is not used. A constant
/// offset spoils no length measured on one CPU, but it misplaces the start on the time line.
pub const LARGEST_OFFSET_NS: u64 = 1_000;

/// Reads the counter, not ordered with the surrounding instructions. 0 where the architecture has
/// none that user space may read.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has rdtsc. Linux lets user space execute it unless a process
    // gave that up by prctl(PR_SET_TSC), which then means SIGSEGV and no unsound value.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: Linux lets user space read the virtual counter; the register has no side effect.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
        count
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

/// Reads the counter after all earlier loads and before anything later.
#[inline(always)]
pub fn ticks_ordered() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: lfence and rdtsc are in every x86-64 processor; neither touches memory.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        let ticks = core::arch::x86_64::_rdtsc();
        core::arch::x86_64::_mm_lfence();
        ticks
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: as in `ticks`; isb only orders.
        unsafe {
            core::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) count, options(nostack))
        };
        count
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

/// Where time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The counter that [`ticks`] reads: rdtsc, or cntvct_el0 on arm64.
    Counter,
    /// `clock_gettime(CLOCK_MONOTONIC)`; a tick is a nanosecond.
    Kernel,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Counter if cfg!(target_arch = "aarch64") => "cntvct_el0",
            Self::Counter => "tsc",
            Self::Kernel => "clock_gettime",
        })
    }
}

/// A clock that has been looked at: what it is, why, and how far it can be wrong.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    why: String,
    calibration: Calibration,
    offsets: Vec<Offset>,
}

impl Clock {
    /// Looks at the counter and calibrates it for use on `cpus`. Takes some 50 ms, plus about
    /// 1 ms per CPU that this process may run on.
    pub fn start(cpus: &CpuSet) -> Self {
        let calibration = Calibration::measure(ticks_ordered);
        let offsets = offset::check(cpus);
        let judged = invariance()
            .and_then(|proof| kernel_agrees(&KernelView::read()).map(|view| [proof, view]))
            .and_then(|[proof, view]| {
                offsets_agree(&offsets, calibration.rate).map(|bound| [proof, view, bound])
            });
        match judged {
            Ok(reasons) => {
                Self { source: Source::Counter, why: reasons.join("; "), calibration, offsets }
            }
            Err(why) => Self { offsets, ..Self::kernel(why) },
        }
    }

    /// The fallback: the kernel's clock, for the reason given.
    pub fn kernel(why: String) -> Self {
        Self { source: Source::Kernel, why, calibration: Calibration::exact(), offsets: Vec::new() }
    }

    /// Where time comes from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Why this source was taken.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The rate and how far it can be wrong.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// Ticks to nanoseconds and back.
    pub fn rate(&self) -> Rate {
        self.calibration.rate
    }

    /// How far each CPU's counter is from the reference CPU's.
    pub fn offsets(&self) -> &[Offset] {
        &self.offsets
    }

    /// Now, in ticks of this clock's source.
    pub fn ticks(&self) -> u64 {
        match self.source {
            Source::Counter => ticks_ordered(),
            Source::Kernel => KernelClock::Monotonic.now(),
        }
    }

    /// A pair of tick and CLOCK_MONOTONIC, read as close together as this machine allows.
    pub fn anchor(&self) -> Anchor {
        match self.source {
            Source::Counter => Anchor::take(KernelClock::Monotonic, ticks_ordered),
            Source::Kernel => Anchor::exact(KernelClock::Monotonic.now()),
        }
    }
}

/// One line for people: source, rate, error bounds, reason.
impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &self.calibration;
        match self.source {
            Source::Kernel => write!(f, "{} (1 ns ticks): {}", self.source, self.why),
            Source::Counter => write!(
                f,
                "{} at {:.6} MHz ± {:.2} ppm, anchored to CLOCK_MONOTONIC within {} ns: {}",
                self.source,
                c.rate.hz() / 1e6,
                c.error_ppm,
                c.error_ns,
                self.why
            ),
        }
    }
}

/// Whether the architecture promises one rate in all power states.
#[cfg(target_arch = "x86_64")]
fn invariance() -> Result<String, String> {
    const EXTENDED: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    let edx = match cpuid(EXTENDED).0 >= POWER {
        true => cpuid(POWER).1,
        false => 0,
    };
    match edx & INVARIANT_TSC {
        0 => Err("CPUID does not promise an invariant TSC (leaf 0x80000007, EDX bit 8)".to_owned()),
        _ => Ok("invariant by CPUID".to_owned()),
    }
}

/// EAX and EDX of a leaf.
#[cfg(target_arch = "x86_64")]
fn cpuid(leaf: u32) -> (u32, u32) {
    #[allow(
        unused_unsafe,
        reason = "a safe function in newer toolchains, unsafe in the oldest supported"
    )]
    // SAFETY: every x86-64 processor has cpuid, and it reads nothing but the processor.
    let answer = unsafe { core::arch::x86_64::__cpuid(leaf) };
    (answer.eax, answer.edx)
}

#[cfg(target_arch = "aarch64")]
fn invariance() -> Result<String, String> {
    Ok("the architecture promises one rate".to_owned())
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn invariance() -> Result<String, String> {
    Err("this architecture has no counter that quietcore reads".to_owned())
}

/// What the kernel makes of the counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct KernelView {
    current: Option<String>,
    available: Option<String>,
}

impl KernelView {
    fn read() -> Self {
        let read = |name: &str| {
            let path = format!("/sys/devices/system/clocksource/clocksource0/{name}");
            std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
        };
        Self { current: read("current_clocksource"), available: read("available_clocksource") }
    }
}

/// The kernel's watchdog takes a counter that drifts off the list of clock sources.
fn kernel_agrees(view: &KernelView) -> Result<String, String> {
    let name = if cfg!(target_arch = "aarch64") { "arch_sys_counter" } else { "tsc" };
    match (&view.current, &view.available) {
        (Some(current), _) if current == name => {
            Ok(format!("the kernel keeps time by it (clocksource {current})"))
        }
        (current, Some(available)) if available.split_whitespace().any(|word| word == name) => {
            Ok(format!(
                "the kernel accepts it (clocksource {} in use)",
                current.as_deref().unwrap_or("unknown")
            ))
        }
        (_, Some(available)) => Err(format!(
            "the kernel has struck {name} off its clock sources ({available} are left)"
        )),
        (_, None) => Err("the kernel's clock sources cannot be read from /sys".to_owned()),
    }
}

/// Whether no CPU's counter is provably away from the reference's.
fn offsets_agree(offsets: &[Offset], rate: Rate) -> Result<String, String> {
    let mut widest = 0;
    let mut unchecked = 0;
    for offset in offsets {
        let bounds = match &offset.bounds {
            Reading::Measured(bounds) => bounds,
            Reading::Unsupported(_) | Reading::Failed(_) => {
                unchecked += 1;
                continue;
            }
        };
        let proven = rate.ns(bounds.proven());
        if proven > LARGEST_OFFSET_NS {
            return Err(format!(
                "the counter of CPU {} is at least {proven} ns away from that of CPU {}",
                offset.cpu, offset.reference
            ));
        }
        widest = widest.max(rate.ns(bounds.widest()));
    }
    Ok(match (offsets.len(), unchecked) {
        (0, _) => "one CPU only, nothing to agree with".to_owned(),
        (all, 0) => format!("the counters of {} CPUs agree within {widest} ns", all + 1),
        (all, unchecked) => format!(
            "the counters of {} CPUs agree within {widest} ns, {unchecked} could not be checked",
            all - unchecked + 1
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(current: &str, available: &str) -> KernelView {
        KernelView { current: Some(current.to_owned()), available: Some(available.to_owned()) }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_counter_the_kernel_rejected_is_not_used() {
        assert!(kernel_agrees(&view("tsc", "tsc kvm-clock")).is_ok());
        assert!(kernel_agrees(&view("kvm-clock", "kvm-clock tsc acpi_pm")).is_ok());
        let why = kernel_agrees(&view("hpet", "hpet acpi_pm")).unwrap_err();
        assert!(why.contains("hpet acpi_pm"), "{why}");
        assert!(kernel_agrees(&KernelView::default()).is_err());
    }

    fn measured(cpu: usize, low: i64, high: i64) -> Offset {
        let bounds = Reading::Measured(OffsetBounds { low, high });
        Offset { cpu, reference: 0, bounds }
    }

    #[test]
    fn a_counter_that_is_provably_off_is_not_used() {
        let rate = Rate::from_hz(1e9);
        let why = offsets_agree(&[measured(1, -60, 70)], rate).unwrap();
        assert!(why.contains("within 70 ns"), "{why}");
        // Provably off by 200 ns, which only misplaces a start by that much.
        assert!(offsets_agree(&[measured(1, 200, 300)], rate).is_ok());
        let why = offsets_agree(&[measured(1, -60, 70), measured(2, 5_000, 5_100)], rate);
        assert!(why.unwrap_err().contains("CPU 2 is at least 5000 ns"));
        let why = offsets_agree(&[measured(3, -9_100, -9_000)], rate).unwrap_err();
        assert!(why.contains("9000 ns"), "{why}");
    }

    #[test]
    fn a_cpu_that_could_not_be_checked_is_said_so() {
        let offset =
            Offset { cpu: 2, reference: 0, bounds: Reading::Failed("no answer".to_owned()) };
        let why = offsets_agree(&[measured(1, -5, 5), offset], Rate::from_hz(1e9)).unwrap();
        assert!(why.contains("1 could not be checked"), "{why}");
    }

    #[test]
    fn the_clock_says_what_it_is_and_its_time_lies_between_two_reads_of_the_kernel_s() {
        let cpus = crate::sched::affinity(crate::sched::CALLER).unwrap();
        let clock = Clock::start(&cpus);
        assert!(!clock.why().is_empty());
        let base = Timebase::new(vec![clock.anchor()], clock.rate());
        let before = KernelClock::Monotonic.now();
        let own = base.monotonic_ns(clock.ticks());
        let after = KernelClock::Monotonic.now();
        let slack = clock.calibration().error_ns + 1_000;
        assert!(own + slack >= before && own <= after + slack, "{before} {own} {after}: {clock}");
    }
}
