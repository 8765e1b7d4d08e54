//! `quietcore offcpu`: where threads wait.

use clap::{Args, ValueEnum};
use quietcore_bpf::{OffCpu as Programs, OffCpuSettings, Symbols, WaitKind};
use quietcore_console::{Exit, Output, Stopwatch, duration};
use quietcore_facts::Facts;
use quietcore_measure::{Nanos, Section, Validity};
use quietcore_spike::offcpu::{flame, note_losses, sections};
use quietcore_sys::Host;

use super::stacks::{Files, Target, not_possible};

/// Show where threads wait, and for how long
///
/// Every wait from leaving a CPU until running again is summed in the kernel by thread, kind and
/// stack. Needs CAP_BPF, CAP_PERFMON and CAP_SYSLOG (or root), and a kernel with BTF. Nothing is
/// walked for a wait shorter than --min, so a higher one makes it cheaper: the page of this command
/// has the figures. User stacks are walked by frame pointers. Waits that have not ended when the
/// measurement does are not in it. Writes nothing but its result. Ctrl-C ends it early.
#[derive(Args, Debug)]
#[command(
    name = "offcpu",
    after_help = "\
EXAMPLES:
    quietcore offcpu --pid 812 --duration 30s             where its threads wait
    quietcore offcpu --tid 815 --min 100us --wakers       its long waits, and who ended them
    quietcore offcpu --pid 812 --state preempted          only when it was pushed aside
    quietcore offcpu --pid 812 --svg waits.svg            as a flame graph"
)]
pub struct OffCpu {
    #[command(flatten)]
    target: Target,

    /// How long to measure
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    duration: Nanos,

    /// Leave out shorter waits
    #[arg(long, value_name = "DURATION", default_value = "1us", value_parser = duration)]
    min: Nanos,

    /// Only these kinds of waits
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "preempted,blocked,uninterruptible"
    )]
    state: Vec<State>,

    /// Which stacks to take
    #[arg(long, value_name = "STACKS", default_value = "both")]
    split: Split,

    /// Also take the stacks of those who end waits
    #[arg(long)]
    wakers: bool,

    #[command(flatten)]
    files: Files,

    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    /// It could have run on
    Preempted,
    /// It waits for something and takes signals
    Blocked,
    /// It waits for something, as a disk, and takes no signals
    Uninterruptible,
    /// Stopped, traced, or a kernel thread without work
    Other,
}

impl From<State> for WaitKind {
    fn from(state: State) -> Self {
        match state {
            State::Preempted => Self::Preempted,
            State::Blocked => Self::Blocked,
            State::Uninterruptible => Self::Uninterruptible,
            State::Other => Self::Other,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Split {
    /// The program's own
    User,
    /// The kernel's on its behalf
    Kernel,
    /// The kernel's on top of the program's
    Both,
}

impl OffCpu {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let settings = self.settings()?;
        let sink = self.output.open()?;
        let files = self.files.open()?;
        let facts = Facts::of(Host::live());
        let mut validity = Validity::default();
        let sections = self.measure(&settings, &mut validity)?;
        let mut run = watch.stop(facts.summary());
        run.validity = validity;
        run.sections = sections;
        // Both are tried: one full disk must not cost the other result.
        let shown = sink.write(&run);
        files.write(&run)?;
        shown?;
        Ok(Exit::Clean)
    }

    fn settings(&self) -> anyhow::Result<OffCpuSettings> {
        Ok(OffCpuSettings {
            watch: self.target.watch()?,
            min: self.min,
            kinds: self.state.iter().map(|&state| state.into()).collect(),
            kernel: self.split != Split::User,
            user: self.split != Split::Kernel,
            wakers: self.wakers,
        })
    }

    fn measure(
        &self,
        settings: &OffCpuSettings,
        validity: &mut Validity,
    ) -> anyhow::Result<Vec<Section>> {
        let mut programs = Programs::start(settings).map_err(not_possible)?;
        let (mut symbols, begin) = (Symbols::new(), Stopwatch::start());
        self.output.say(format_args!("attached in {}", programs.attached_in()));
        self.target.wait(self.duration, &self.output, validity, || {
            flame(&programs.waits()?, &mut symbols);
            Ok(())
        })?;
        programs.stop();
        let measured = begin.elapsed();
        let (waits, counts) = (programs.waits()?, programs.counts()?);
        note_losses(&counts.losses, validity);
        let histogram = programs.histogram()?;
        Ok(sections(measured, &waits, &histogram, &counts, programs.health(), &mut symbols))
    }
}
