//! `quietcore profile`: where threads run.

use anyhow::{Context, anyhow};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use quietcore_bpf::{Profile as Program, ProfileSettings, SampleEvent, Symbols};
use quietcore_console::{Exit, Output, Stopwatch, check_online, cpus, duration};
use quietcore_facts::Facts;
use quietcore_measure::{CpuSet, Nanos, Section, Validity, Verdict};
use quietcore_spike::offcpu::note_losses;
use quietcore_spike::profile::{flame, sections};
use quietcore_sys::Host;

use super::stacks::{Files, Target, not_possible};

/// What one sample is taken to cost with both stacks, in microseconds: two stack walks took about 3
/// in a virtual machine, the interrupt comes on top.
const SAMPLE_US: f64 = 5.0;
/// More samples per second and CPU than this are warned of.
const FREQUENT: u64 = 999;

/// Show where threads run, by sampling
///
/// A timer of each CPU takes the stacks of whoever runs there, and the kernel sums them. Needs
/// CAP_BPF, CAP_PERFMON and CAP_SYSLOG (or root), and a kernel with BTF. Every sample interrupts its
/// CPU for a few microseconds: keep it off CPUs that must not be disturbed by --cpu. User stacks
/// are walked by frame pointers; code made at run time is named by /tmp/perf-PID.map. The events but
/// cpu-clock need a performance monitoring unit, which most virtual machines lack. Writes nothing
/// but its result. Ctrl-C ends it early.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore profile --pid 812 --duration 30s            where its threads run
    quietcore profile --pid 812 --svg cpu.svg             as a flame graph
    quietcore profile --all --cpu 0-3 --pprof cpu.pb.gz   whatever runs on four CPUs, for pprof
    quietcore profile --pid 812 --event cache-misses      where it misses the cache")]
pub struct Profile {
    #[command(flatten)]
    target: Target,

    /// How long to sample
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    duration: Nanos,

    /// Sample on these CPUs only [default: all that are online]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpu: Option<CpuSet>,

    /// Samples per second and CPU
    ///
    /// An odd number does not run in step with the program's own timers.
    #[arg(
        long,
        value_name = "HZ",
        default_value = "99",
        value_parser = clap::value_parser!(u64).range(1..=100_000),
    )]
    frequency: u64,

    /// What makes a sample
    #[arg(
        long,
        value_name = "EVENT",
        default_value = "cpu-clock",
        value_parser = PossibleValuesParser::new(SampleEvent::ALL.map(SampleEvent::name)).map(event),
    )]
    event: SampleEvent,

    #[command(flatten)]
    files: Files,

    #[command(flatten)]
    output: Output,
}

fn event(name: String) -> SampleEvent {
    let all = SampleEvent::ALL.into_iter();
    all.clone().find(|event| event.name() == name).unwrap_or(SampleEvent::CpuClock)
}

impl Profile {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let facts = Facts::of(Host::live());
        let settings = self.settings(&facts)?;
        let sink = self.output.open()?;
        let files = self.files.open()?;
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

    fn settings(&self, facts: &Facts) -> anyhow::Result<ProfileSettings> {
        let online = &facts.cpus().online;
        let cpus = self.cpu.clone().unwrap_or_else(|| online.clone());
        check_online(&cpus, online).map_err(|why| anyhow!(why)).context("--cpu")?;
        Ok(ProfileSettings {
            watch: self.target.watch()?,
            cpus,
            frequency: self.frequency,
            event: self.event,
            kernel: true,
            user: true,
        })
    }

    fn measure(
        &self,
        settings: &ProfileSettings,
        validity: &mut Validity,
    ) -> anyhow::Result<Vec<Section>> {
        if self.frequency > FREQUENT {
            let cost = self.frequency as f64 * SAMPLE_US;
            let warning = format!(
                "{} samples per second may take some {cost:.0} µs of every second of each CPU",
                self.frequency
            );
            self.output.say(format_args!("warning: {warning}"));
            validity.note(Verdict::Disturbed, warning);
        }
        let mut program = Program::start(settings).map_err(not_possible)?;
        self.output.say(format_args!("attached to CPUs {}", settings.cpus));
        let (mut symbols, begin) = (Symbols::new(), Stopwatch::start());
        self.target.wait(self.duration, &self.output, validity, || {
            flame(&program.samples()?, &mut symbols);
            Ok(())
        })?;
        program.stop();
        let measured = begin.elapsed();
        let (samples, counts) = (program.samples()?, program.counts()?);
        note_losses(&counts.losses, validity);
        Ok(sections(measured, &samples, &counts, &mut symbols))
    }
}
