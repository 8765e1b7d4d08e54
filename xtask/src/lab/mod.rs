//! The quick lab: scenarios, each a Linux guest with a boot line, a machine and expectations; and,
//! in `machine`, whole machines.
//!
//! A guest under emulation proves what quietcore sees and does, never how fast anything is: no
//! scenario asserts a duration.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

mod evidence;
mod guest;
mod host;
mod initramfs;
mod kernel;
mod machine;
mod product;
mod records;
mod scenario;
mod scenarios;
mod tally;

use evidence::Evidence;
use guest::Outcome;
use host::Dirs;
use kernel::{Kernel, Series, Wanted};
use scenario::Scenario;
use tally::Tally;

/// EX_UNAVAILABLE: the lab itself is broken, which says nothing about quietcore.
const LAB_BROKEN: u8 = 69;

const EXIT_CODES: &str = "\
Exit codes:
  0   every assertion held
  1   an assertion failed: look at quietcore
  2   wrong usage
  69  the lab is broken (a program is missing, a guest did not come up, the guest is not
      the machine that the scenario needs): look at this host

What is fetched and built stays in target/lab; delete target/lab/kernel for a newer kernel.";

#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    #[command(subcommand)]
    job: Job,
}

#[derive(clap::Subcommand)]
enum Job {
    /// Boots every scenario and checks what quietcore says and does in it
    ///
    /// Each scenario boots Debian's kernel under QEMU without KVM, with an initramfs that holds a
    /// static quietcore and busybox. Needs apt (missing programs are installed with it), about
    /// 0.5 GB below target/lab, and no network except for the first run's downloads.
    #[command(after_help = EXIT_CODES)]
    Quick(Options),
    /// Boots the scenarios that take an hour or more, in the same way
    #[command(after_help = EXIT_CODES)]
    Long(Options),
    /// Boots every scenario and stores what quietcore recorded of it in testdata/hosts
    ///
    /// Runs the same guests as `quick` and writes each one's `quietcore audit --record` to
    /// `testdata/hosts/<scenario>/host.json`, for tests that audit a machine without booting it.
    /// A recording is only replaced if its scenario passed.
    #[command(after_help = EXIT_CODES)]
    Record(Options),
    /// Takes a whole Debian through several boots, power cuts among them
    ///
    /// Each scenario has a Debian 12 disk with GRUB, systemd, irqbalance and tuned, booted under
    /// QEMU without KVM. The disk is made once, as root, with debootstrap, and kept in target/lab
    /// (1 GB, and 0.3 GB of packages).
    #[command(after_help = EXIT_CODES)]
    Machine(machine::Options),
}

#[derive(clap::Args)]
struct Options {
    /// Only this scenario; may be given more than once (names: --list)
    #[arg(long, value_name = "SCENARIO")]
    only: Vec<String>,
    /// Print the scenarios and what each is for, boot nothing
    #[arg(long)]
    list: bool,
    /// Keep the guests' kernel logs of scenarios that passed, too, and say where they are (those of
    /// failed ones stay until the next run)
    #[arg(long)]
    keep_console: bool,
    /// Print what each step in the guest wrote, for writing a scenario
    #[arg(long)]
    show_steps: bool,
    /// Run this shell script in each guest after its steps and print what it wrote; for finding
    /// out what a kernel says before writing it into a scenario
    #[arg(long, value_name = "FILE")]
    r#try: Option<PathBuf>,
    /// Boot the kernel of this package instead, as linux-image-6.12.117+deb12-amd64; apt must offer
    /// it, and the modules that a scenario needs must be in it
    #[arg(long, value_name = "PACKAGE")]
    kernel: Option<String>,
    /// Test this statically linked x86-64 quietcore instead of building one
    #[arg(long, value_name = "FILE")]
    quietcore: Option<PathBuf>,
}

pub fn main(args: &Args) -> ExitCode {
    let (options, record, all) = match &args.job {
        Job::Quick(options) => (options, false, scenario::ALL),
        Job::Long(options) => (options, false, scenario::LONG),
        Job::Record(options) => (options, true, scenario::ALL),
        Job::Machine(options) => return machine::main(options),
    };
    if options.list {
        for s in all {
            println!("{:<10} {}", s.name, s.about);
        }
        return ExitCode::SUCCESS;
    }
    let mut chosen = match chosen_by_name(all, |s| s.name, &options.only) {
        Ok(chosen) => chosen,
        Err(e) => {
            eprintln!("lab: {e:#}");
            return ExitCode::from(2);
        }
    };
    chosen.retain(|s| !record || s.recording.is_some());
    let mut tally = Tally::default();
    let outcome = run(options, record, &chosen, &mut tally);
    exit_code(&outcome, &tally)
}

/// Says how it went, on both streams and by the code.
fn exit_code(outcome: &Result<()>, tally: &Tally) -> ExitCode {
    if let Err(e) = outcome {
        eprintln!("lab: broken: {e:#}");
    }
    println!("{tally}");
    // A failure that was seen stays a failure, even if another guest could not be booted.
    if tally.failed() > 0 {
        ExitCode::from(1)
    } else if outcome.is_err() || tally.broken() > 0 {
        ExitCode::from(LAB_BROKEN)
    } else {
        ExitCode::SUCCESS
    }
}

/// Those of `all` that are named, or all of them.
fn chosen_by_name<S>(
    all: &[&'static S],
    name: fn(&S) -> &str,
    only: &[String],
) -> Result<Vec<&'static S>> {
    if only.is_empty() {
        return Ok(all.to_vec());
    }
    let mut chosen = Vec::new();
    for wanted in only {
        match all.iter().find(|s| name(s) == wanted) {
            Some(s) => chosen.push(*s),
            None => bail!("no scenario is called {wanted:?}; --list prints them"),
        }
    }
    Ok(chosen)
}

fn run(
    options: &Options,
    record: bool,
    chosen: &[&'static Scenario],
    tally: &mut Tally,
) -> Result<()> {
    let lab = Lab::prepare(options, chosen)?;
    for s in chosen {
        tally.begin(s.name);
        // One guest that cannot be booted does not keep the others from being tested.
        match lab.boot(s) {
            Ok(outcome) => {
                let before = tally.troubles();
                let evidence = lab.judge(s, outcome, tally);
                let clean = tally.troubles() == before;
                if clean && record {
                    lab.store_recording(s, &evidence)?;
                }
                lab.tidy(s, clean)?;
            }
            Err(e) => tally.broken_lab(&format!("{e:#}")),
        }
    }
    Ok(())
}

/// All that the guests of one run share.
struct Lab<'a> {
    options: &'a Options,
    dirs: Dirs,
    /// By what the scenarios ask for.
    kernels: BTreeMap<Option<Series>, Kernel>,
    quietcore: PathBuf,
    /// What looks at the guest from inside, beside quietcore.
    tools: [PathBuf; 3],
    /// The script of `--try`.
    trial: Option<String>,
}

impl<'a> Lab<'a> {
    fn prepare(options: &'a Options, chosen: &[&'static Scenario]) -> Result<Self> {
        let dirs = Dirs::find()?;
        dirs.forget_earlier_runs()?;
        let mut programs = vec!["qemu", "busybox", "dpkg-deb", "setpriv", "sha256sum"];
        if chosen.iter().any(|s| s.acpi.is_some()) {
            programs.push("iasl");
        }
        host::install_missing(&programs)?;
        let mut kernels = BTreeMap::new();
        for series in chosen.iter().map(|s| s.kernel) {
            if let Entry::Vacant(place) = kernels.entry(series) {
                let wanted = match (&options.kernel, series) {
                    (Some(package), _) => Wanted::Package(package),
                    (None, Some(series)) => Wanted::Series(series),
                    (None, None) => Wanted::Usual,
                };
                let kernel = place.insert(kernel::obtain(&dirs, wanted)?);
                eprintln!("lab: the guests run {}", kernel.release);
            }
        }
        let quietcore = match &options.quietcore {
            Some(file) => file.clone(),
            None => product::build(&dirs)?,
        };
        let tools = product::tools(&dirs)?;
        let read = |file: &PathBuf| {
            fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
        };
        let trial = options.r#try.as_ref().map(read).transpose()?;
        Ok(Self { options, dirs, kernels, quietcore, tools, trial })
    }

    fn kernel(&self, s: &Scenario) -> Result<&Kernel> {
        self.kernels.get(&s.kernel).context("every scenario's kernel was fetched")
    }

    fn boot(&self, s: &Scenario) -> Result<Outcome> {
        let begin = Instant::now();
        let dir = self.dirs.run(s.name);
        host::fresh_dir(&dir)?;
        let kernel = self.kernel(s)?;
        let steps = scenario::steps(s, self.trial.as_deref());
        let initrd = dir.join("initramfs.cpio");
        let image = initramfs::build(s, &steps, kernel, &self.quietcore, &self.tools)?;
        fs::write(&initrd, image).with_context(|| format!("writing {}", initrd.display()))?;
        let outcome = guest::run(s, &steps, &self.dirs, kernel, &initrd, &dir)?;
        let (all, boot) = (begin.elapsed().as_secs(), outcome.boot.as_secs());
        eprintln!("lab: {} took {all} s, of which boot {boot} s", s.name);
        Ok(outcome)
    }

    fn judge(&self, s: &Scenario, outcome: Outcome, tally: &mut Tally) -> Evidence {
        let Outcome { records, finished, ended, .. } = outcome;
        let evidence = Evidence::new(records);
        if self.options.show_steps {
            eprint!("{}", evidence.transcript());
        } else if self.trial.is_some() {
            eprint!("{}{}", evidence.out(scenario::TRIAL), evidence.err(scenario::TRIAL));
        }
        if finished {
            scenario::judge(s, &evidence, &self.quietcore, tally);
        } else {
            // It came up, so the lab works; what ran in it brought the machine down or hung it.
            tally.check(false, "the guest ran all its steps", || {
                format!("{ended}; the last step that answered is {}", evidence.last_step())
            });
            let tail = guest::console_tail(&self.dirs.run(s.name));
            eprintln!("lab: last console lines of {}:\n{tail}", s.name);
        }
        evidence
    }

    fn store_recording(&self, s: &Scenario, evidence: &Evidence) -> Result<()> {
        let Some(recording) = s.recording else { return Ok(()) };
        let recording = evidence.file(recording).unwrap_or_default();
        let mut recording: Value = serde_json::from_slice(recording)
            .with_context(|| format!("the recording of {} is no JSON", s.name))?;
        recording["name"] = s.name.into();
        recording["about"] = format!(
            "Recorded in a guest under emulation (`cargo xtask lab record`), {}: {}. \
             What it says is function, never magnitude.",
            self.kernel(s)?.release,
            s.about
        )
        .into();
        let folder = self.dirs.root.join("testdata/hosts").join(s.name);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let file = folder.join(scenario::RECORDING);
        let text = serde_json::to_string_pretty(&recording).context("writing JSON")? + "\n";
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        eprintln!("lab: wrote testdata/hosts/{}/{}", s.name, scenario::RECORDING);
        Ok(())
    }

    /// Throws the guest's files away, unless somebody will want to look at them.
    fn tidy(&self, s: &Scenario, clean: bool) -> Result<()> {
        let dir = self.dirs.run(s.name);
        if clean && !self.options.keep_console {
            fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))?;
            if let Some(all) = dir.parent() {
                // Fails while another scenario's files are in it.
                let _ = fs::remove_dir(all);
            }
            return Ok(());
        }
        eprintln!("lab: the guest's kernel log is {}", dir.join("console.log").display());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_chosen_by_name_and_a_wrong_name_is_refused() {
        let choose = |only: &[String]| chosen_by_name(scenario::ALL, |s| s.name, only);
        assert_eq!(choose(&[]).unwrap().len(), scenario::ALL.len());
        assert_eq!(choose(&["typo".into()]).unwrap()[0].name, "typo");
        assert!(choose(&["tpyo".into()]).is_err());
    }
}
