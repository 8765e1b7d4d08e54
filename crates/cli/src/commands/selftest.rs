//! `quietcore selftest`: does this host's classifier name what is brought about here?

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;
use quietcore_bpf::BpfError;
use quietcore_console::{
    Exit, NotPossible, Output, Progress, Stopwatch, cpus, duration, interrupted,
};
use quietcore_facts::Facts;
use quietcore_measure::{
    Cell, CpuSet, Kind, KindCount, Nanos, Section, Spike, Spikes, Table, Verdict,
};
use quietcore_spike::selftest::{ALL, ClassResult, Injector, SelftestError, Stage, conduct};
use quietcore_spike::surroundings::{Counters, Surroundings};
use quietcore_sys::Host;
use quietcore_sys::sched::Usage;

/// Least share of injected causes that must be named rightly, per class.
const RECALL: f64 = 0.95;
/// Largest share that may be named wrongly, per class.
const WRONG: f64 = 0.01;
/// Least share of the felt time that must be explained, per class.
const EXPLAINED: f64 = 0.90;

/// Inject known causes of latency and see whether each is named rightly on this host
///
/// Each cause is brought about by a process of its own under a random name, which notes by the
/// clock alone when it did what and what its victim felt. A matrix shows what was injected
/// against what it was named. Exits with 1 if a class has less than 95 % named rightly, more than
/// 1 % named wrongly or less than 90 % of its time explained. Needs root: BPF, real-time classes,
/// a control group and namespaces, all of which are gone when it ends. Disturbs one CPU.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore selftest                            every cause that this host can have
    quietcore selftest --only ipi,tlb,futex       three of them
    quietcore selftest --cpu 3 --duration 10s     longer, on CPU 3")]
pub struct Selftest {
    /// Only these causes, by name
    #[arg(long, value_name = "CLASS,..", value_delimiter = ',', value_parser = named)]
    only: Vec<&'static Injector>,

    /// Run each so many times
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1000))]
    times: u16,

    /// How long each cause is injected
    #[arg(long, value_name = "DURATION", default_value = "2500ms", value_parser = duration)]
    duration: Nanos,

    /// The CPU to disturb [default: the last one]
    #[arg(long, value_name = "CPU", value_parser = cpus)]
    cpu: Option<CpuSet>,

    #[command(flatten)]
    output: Output,
}

/// One injector, started by `selftest` under another name.
#[derive(Args, Debug)]
pub struct Inject {
    #[arg(value_parser = named)]
    injector: &'static Injector,
    cpu: usize,
    #[arg(value_parser = duration)]
    duration: Nanos,
}

fn named(name: &str) -> Result<&'static Injector, String> {
    Injector::named(name).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|injector| injector.name).collect();
        format!("no such cause; there are {}", names.join(", "))
    })
}

impl Inject {
    pub fn run(self) -> anyhow::Result<Exit> {
        let name = env::args().next().unwrap_or_default();
        // A kernel without this file shows the program's name; nothing depends on it.
        let _ = fs::write("/proc/self/comm", name);
        let (of, stop) = (self.injector, interrupted());
        Stage::play(self.cpu, of.threshold, self.duration, stop, of.run)?;
        Ok(Exit::Clean)
    }
}

impl Selftest {
    pub fn run(self) -> anyhow::Result<Exit> {
        let watch = Stopwatch::start();
        let sink = self.output.open()?;
        let facts = Facts::of(Host::live());
        let cpu = self.victim_cpu(&facts)?;
        let only: Vec<_> = match self.only.is_empty() {
            true => ALL.iter().collect(),
            false => self.only.clone(),
        };
        let stop = interrupted();
        let total = Nanos(self.duration.0 * only.len() as u64 * u64::from(self.times));
        let bar = Progress::time(&self.output, "injecting", total);
        let before = Counters::read(facts.host(), std::iter::empty());
        let mut results: Vec<ClassResult> = Vec::new();
        for (done, injector) in (0..self.times).flat_map(|_| &only).enumerate() {
            if stop.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
            bar.set(self.duration.0 * done as u64);
            let command = self.injector(injector, cpu);
            let result = conduct(injector, command, self.duration, facts.host(), stop);
            let result = result.map_err(not_possible)?;
            match results.iter_mut().find(|of| of.name == result.name) {
                Some(of) => of.add(result),
                None => results.push(result),
            }
        }
        drop(bar);
        let mut run = watch.stop(facts.summary());
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            run.validity.note(Verdict::Incomplete, "stopped before its time");
        }
        // What the hypervisor took is named so, whatever was injected meanwhile.
        let after = Counters::read(facts.host(), std::iter::empty());
        let cpus: Vec<_> = facts.cpus().online.iter().map(|cpu| (cpu, Usage::default())).collect();
        let around = Surroundings::between(&before, &after, &cpus);
        around.judge(&mut run.validity);
        let mut failures: Vec<String> = results.iter().filter_map(failure).collect();
        let around = around.cpus.iter().find(|around| around.cpu == cpu);
        let accounted = around.and_then(|around| around.steal.value().copied());
        failures.extend(accounted.and_then(|accounted| too_much_steal(&results, accounted)));
        run.sections = vec![Section::Table(matrix(&results)), Section::Table(classes(&results))];
        let wrong = wrong(&results);
        if !wrong.spikes.is_empty() {
            run.sections.push(Section::Spikes(wrong));
        }
        for failure in &failures {
            run.validity.note(Verdict::Valid, failure);
        }
        sink.write(&run)?;
        Ok(Exit::findings(!failures.is_empty()))
    }

    fn victim_cpu(&self, facts: &Facts) -> anyhow::Result<usize> {
        let online = &facts.cpus().online;
        let asked = self.cpu.as_ref().unwrap_or(online);
        if self.cpu.is_some() && asked.len() != 1 {
            bail!("--cpu {asked}: name one CPU");
        }
        let cpu = asked.highest().context("no CPU is online")?;
        if !online.contains(cpu) {
            bail!("--cpu {cpu}: that CPU is not online ({online} are)");
        }
        Ok(cpu)
    }

    /// This program again, under a name that tells nothing.
    fn injector(&self, injector: &Injector, cpu: usize) -> Command {
        // The very program that runs, even if its file has been replaced since.
        let mut command = Command::new("/proc/self/exe");
        command.arg0(format!("p{:x}", quietcore_spike::selftest::random() >> 20));
        command.args(["inject", injector.name, &cpu.to_string()]);
        command.arg(format!("{}ns", self.duration.0));
        command
    }
}

/// A privilege or a kernel that is missing is not an error of the command line.
fn not_possible(error: SelftestError) -> anyhow::Error {
    match &error {
        SelftestError::Bpf(bpf) if BpfError::not_possible_here(bpf) => {
            NotPossible::new(bpf.to_string()).into()
        }
        _ => error.into(),
    }
}

/// What is wrong with a class, if anything.
fn failure(of: &ClassResult) -> Option<String> {
    let (name, felt) = (of.name, of.felt);
    let mut what = Vec::new();
    if of.not_here.is_none() && felt == 0 {
        what.push("nothing was felt".to_owned());
    }
    if of.recall().is_some_and(|recall| recall < RECALL) {
        what.push(format!("{} of {felt} named rightly", of.right));
    }
    if of.wrong() as f64 > felt as f64 * WRONG {
        what.push(format!("{} of {felt} named wrongly", of.wrong()));
    }
    if let Some(share) = of.explained().filter(|&share| share < EXPLAINED) {
        what.push(format!("{:.1} % of the time explained", share * 100.0));
    }
    if of.do_not_add_up > 0 {
        what.push(format!("{} spikes do not add up", of.do_not_add_up));
    }
    (!what.is_empty()).then(|| format!("{name}: {}", what.join(", ")))
}

/// Time that is said to be the hypervisor's, where the kernel accounts for less of it. That counts in
/// units of 10 ms.
fn too_much_steal(results: &[ClassResult], accounted: Nanos) -> Option<String> {
    let named = results.iter().fold(Nanos(0), |sum, of| sum + of.stolen_ns);
    let most = accounted.0 + accounted.0 / 10 + 20_000_000;
    (named.0 > most).then(|| format!("steal: {named} named, the kernel accounts for {accounted}"))
}

/// What was injected, against what it was named.
fn matrix(results: &[ClassResult]) -> Table {
    let kinds: BTreeSet<Kind> = results.iter().flat_map(|of| of.named.keys().copied()).collect();
    let columns: Vec<&str> =
        std::iter::once("injected").chain(kinds.iter().map(|kind| kind.name())).collect();
    let mut table = Table::new("selftest_matrix", "Injected, and what it was named", &columns);
    for of in results.iter().filter(|of| of.not_here.is_none()) {
        let count = |kind| of.named.get(kind).map_or(Cell::Empty, |&count| count.into());
        let row = std::iter::once(of.name.into()).chain(kinds.iter().map(count));
        table.rows.push(row.collect());
    }
    table
}

/// Spikes that were named wrongly.
fn wrong(results: &[ClassResult]) -> Spikes {
    let spikes: Vec<_> = results.iter().flat_map(|of| of.wrong_examples.clone()).collect();
    let kinds: BTreeSet<Kind> = spikes.iter().map(Spike::kind).collect();
    let of_kind = |kind| {
        let named = spikes.iter().filter(move |spike| spike.kind() == kind);
        let lengths = named.map(|spike| spike.len_ns);
        KindCount {
            kind,
            spikes: lengths.clone().count() as u64,
            total_ns: lengths.clone().fold(Nanos(0), |sum, len| sum + len),
            max_ns: lengths.max().unwrap_or_default(),
        }
    };
    Spikes {
        name: "selftest_wrong".into(),
        title: format!(
            "Spikes that were named wrongly, at most {} of each cause",
            ClassResult::EXAMPLES
        ),
        threshold_ns: Nanos::from_us(1),
        kinds: kinds.into_iter().map(of_kind).collect(),
        spikes,
        omitted: 0,
    }
}

/// Class by class.
fn classes(results: &[ClassResult]) -> Table {
    let columns = [
        "injected",
        "felt",
        "unfelt",
        "taken",
        "right_pct",
        "wrong_pct",
        "explained_pct",
        "adds_up",
    ];
    let mut table = Table::new("selftest", "Class by class", &columns);
    for of in results {
        let pct = |share: Option<f64>| match (&of.not_here, share) {
            (Some(why), _) => Cell::Unsupported { unsupported: why.clone() },
            (None, Some(share)) => (share * 100.0).into(),
            (None, None) => Cell::Empty,
        };
        let wrong = (of.felt > 0).then(|| of.wrong() as f64 / of.felt as f64);
        table.rows.push(vec![
            of.name.into(),
            of.felt.into(),
            of.unfelt.into(),
            of.taken.into(),
            pct(of.recall()),
            pct(wrong),
            pct(of.explained()),
            (of.do_not_add_up == 0).into(),
        ]);
    }
    table
}
