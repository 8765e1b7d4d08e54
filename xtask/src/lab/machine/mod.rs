//! The whole-machine lab: an ordinary Debian on a disk, driven over several boots.
//!
//! What the quick lab's guests lack is here: a boot loader, systemd, the daemons that undo what an
//! administrator did by hand, a disk on which settings survive, and power cuts. The machine is
//! Debian's own but for what stands in `lab/machine/root`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};

use super::host::{self, Dirs};
use super::tally::Tally;
use super::{chosen_by_name, exit_code, guest, product};

mod channel;
mod image;
mod picture;
mod scenarios;
mod tuned;
mod vm;

use scenarios::{ALL, Scenario};
use vm::Machine;

/// What `cargo xtask lab machine` is told.
#[derive(clap::Args)]
pub struct Options {
    /// Only this scenario; may be given more than once (names: --list)
    #[arg(long, value_name = "SCENARIO")]
    only: Vec<String>,
    /// Print the scenarios and what each is for, boot nothing
    #[arg(long)]
    list: bool,
    /// Keep the disks and consoles of scenarios that passed, too, and say where they are (those of
    /// failed ones stay until the next run)
    #[arg(long)]
    keep: bool,
    /// Print what each script in the machine wrote, for writing a scenario
    #[arg(long)]
    show_steps: bool,
    /// Test this statically linked x86-64 quietcore instead of building one
    #[arg(long, value_name = "FILE")]
    quietcore: Option<PathBuf>,
}

pub fn main(options: &Options) -> ExitCode {
    if options.list {
        for s in ALL {
            println!("{:<12} {}", s.name, s.about);
        }
        return ExitCode::SUCCESS;
    }
    let chosen = match chosen_by_name(ALL, |s| s.name, &options.only) {
        Ok(chosen) => chosen,
        Err(e) => {
            eprintln!("lab: {e:#}");
            return ExitCode::from(2);
        }
    };
    let mut tally = Tally::default();
    let outcome = run(options, &chosen, &mut tally);
    exit_code(&outcome, &tally)
}

fn run(options: &Options, chosen: &[&'static Scenario], tally: &mut Tally) -> Result<()> {
    let lab = Lab::prepare(options)?;
    let mut left: Option<(&str, Machine)> = None;
    for s in chosen {
        tally.begin(s.name);
        let machine = match left.take() {
            Some((before, machine)) if s.after == Some(before) => Some(machine),
            other => {
                other.map_or(Ok(()), |(_, machine)| lab.tidy(machine, true))?;
                None
            }
        };
        left = lab.play(s, machine, tally)?.map(|machine| (s.name, machine));
    }
    left.map_or(Ok(()), |(_, machine)| lab.tidy(machine, true))
}

/// What the lab stands on, as `host` calls it.
const PROGRAMS: &[&str] =
    &["qemu", "qemu-img", "debootstrap", "iasl", "mke2fs", "setpriv", "sha256sum"];

/// All that the machines of one run share.
struct Lab<'a> {
    options: &'a Options,
    dirs: Dirs,
    image: PathBuf,
    /// quietcore and what judges it, as tar file.
    tools: PathBuf,
}

impl<'a> Lab<'a> {
    fn prepare(options: &'a Options) -> Result<Self> {
        let dirs = Dirs::find()?;
        dirs.forget_earlier_runs()?;
        host::install_missing(PROGRAMS)?;
        let quietcore = match &options.quietcore {
            Some(file) => file.clone(),
            None => product::build(&dirs)?,
        };
        let [_, killer, picture] = product::tools(&dirs)?;
        let image = image::obtain(&dirs)?;
        let programs = [("quietcore", quietcore), ("picture", picture), ("killer", killer)];
        let tools = pack(&programs, &dirs.run("tools"))?;
        Ok(Self { options, dirs, image, tools })
    }

    fn machine(&self, s: &Scenario) -> Result<Machine> {
        let dir = self.dirs.run(s.name);
        let mut machine = Machine::fresh(&self.image, dir)?
            .with_tools(self.tools.clone())
            .showing(self.options.show_steps);
        if let Some(source) = s.acpi {
            let source = self.dirs.root.join("lab/acpi").join(source);
            let table = guest::acpi_table(&source, machine.dir())?;
            machine = machine.with_acpi(table);
        }
        Ok(machine)
    }

    /// Plays a scenario, on `machine` if there is one, and gives back a machine that passed.
    fn play(
        &self,
        s: &Scenario,
        machine: Option<Machine>,
        tally: &mut Tally,
    ) -> Result<Option<Machine>> {
        let begin = Instant::now();
        let before = tally.troubles();
        let (mut machine, booted) = match machine {
            Some(machine) => (machine, Ok(())),
            None => {
                let mut machine = self.machine(s)?;
                let booted = machine.boot();
                (machine, booted)
            }
        };
        if let Err(e) = booted.and_then(|()| (s.play)(&mut machine, tally)) {
            if machine.came_up() {
                // So the lab works; what was done in the machine hung it or kept it from booting.
                tally.check(false, "the machine lives to the end", || format!("{e:#}"));
            } else {
                tally.broken_lab(&format!("{e:#}"));
            }
            let tail = guest::console_tail(machine.dir());
            eprintln!("lab: last console lines of {}:\n{tail}", s.name);
        }
        eprintln!("lab: {} took {} s", s.name, begin.elapsed().as_secs());
        if tally.troubles() > before {
            self.tidy(machine, false)?;
            return Ok(None);
        }
        Ok(Some(machine))
    }

    /// Switches a machine off and throws its files away, unless somebody will want to look at them.
    fn tidy(&self, machine: Machine, clean: bool) -> Result<()> {
        let dir = machine.dir().to_path_buf();
        drop(machine);
        if clean && !self.options.keep {
            return fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()));
        }
        eprintln!("lab: the machine's disk and console are in {}", dir.display());
        Ok(())
    }
}

/// Programs, under these names, as a tar file in a new folder.
fn pack(programs: &[(&str, PathBuf)], folder: &Path) -> Result<PathBuf> {
    host::fresh_dir(folder)?;
    let tar = folder.join("tools.tar");
    let mut pack = Command::new("tar");
    pack.arg("--create").arg("--file").arg(&tar).arg("--directory").arg(folder);
    for (name, program) in programs {
        let copied = fs::copy(program, folder.join(name));
        copied.with_context(|| format!("copying {}", program.display()))?;
        pack.arg(name);
    }
    host::output(&mut pack)?;
    Ok(tar)
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        // Litter if it stays, which the next run removes.
        let _ = fs::remove_dir_all(self.dirs.run("tools"));
        if let Some(all) = self.dirs.run("tools").parent() {
            // Fails while a scenario's files are in it.
            let _ = fs::remove_dir(all);
        }
    }
}
