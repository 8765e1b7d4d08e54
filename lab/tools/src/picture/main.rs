//! A picture of what tuning may touch on a host, and the comparison of two.
//!
//! It proves that a host is as it was. It shares no code with quietcore, so that what quietcore
//! overlooks is not overlooked here, too. A picture is text, one line per thing, sorted:
//! class, name, value and a note that is not compared, separated by tabs.
//!
//! The classes, and what of the host is in them:
//! - `sysctl irq system workqueue mm net module kernel device cgroup`: every file that can be read
//!   and written below the folders listed in `knobs.rs`, but for those listed there as changing by
//!   themselves; of cgroups also which there are;
//! - `etc boot run`: every file, folder and link of /etc, of /boot and of systemd's, udev's and
//!   sysctl's folders in /run: kind, mode, owner, content (`files.rs`). Not /boot's `grubenv`, which
//!   grub itself writes;
//! - `boot-once`: the entry that grub is told to boot next time only;
//! - `unit-file unit`: the state of every unit file, and every service that is not inactive;
//! - `nic`: coalescing, rings, channels, features, pause frames of every network card (`nics.rs`);
//! - `task`: CPUs, memory nodes, policy, priorities and cgroup of every thread, those of the kernel
//!   among them (`tasks.rs`). Threads come and go: only those in both pictures are compared.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

mod compare;
mod files;
mod knobs;
mod nics;
mod tasks;
mod text;
mod units;

use text::{Class, Picture};

const EXIT_CODES: &str = "\
Exit codes of compare:
  0   identical
  1   there are differences
  2   nothing is proved: a class of the first picture is not in the second, or both are empty;
      also wrong usage and files that cannot be read

take ends with 0 or 2.";

#[derive(Parser)]
#[command(about = "A picture of what tuning may touch on a host", after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Writes a picture of this host to a file
    Take {
        file: PathBuf,
        /// Take the host whose files are below this folder; units and network cards are left out
        #[arg(long, value_name = "DIR", default_value = "/")]
        root: PathBuf,
    },
    /// Prints every difference between two pictures, and how much was compared
    Compare {
        first: PathBuf,
        /// Without it the first is compared with this host as it is
        second: Option<PathBuf>,
        /// The host was booted between them: no thread can be in both
        #[arg(long)]
        rebooted: bool,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().job) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("picture: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(job: Job) -> Result<ExitCode> {
    match job {
        Job::Take { file, root } => {
            let text = take(&root).to_string();
            fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        Job::Compare { first, second, rebooted } => {
            let mut first = read(&first)?;
            let mut second = second.map_or_else(|| Ok(take(Path::new("/"))), |file| read(&file))?;
            if rebooted {
                settle(&mut first, &mut second);
            }
            let verdict = compare::compare(&first, &second);
            print!("{verdict}");
            Ok(ExitCode::from(verdict.exit_code()))
        }
    }
}

/// What a reboot changes by itself: no thread outlives it, udev loads what modules it likes, and
/// irqbalance places every IRQ anew.
fn settle(first: &mut Picture, second: &mut Picture) {
    let balanced = [&*first, &*second].into_iter().all(|picture| {
        let service = picture.entry("unit", "irqbalance.service");
        service.is_some_and(|service| service.value.starts_with("active"))
    });
    for picture in [&mut *first, &mut *second] {
        let none = Class::Absent("no thread outlives a reboot".into());
        picture.classes.insert(compare::FLEETING.into(), none);
        if let Some(Class::Taken(irqs)) = picture.classes.get_mut("irq").filter(|_| balanced) {
            irqs.retain(|key, _| !key.ends_with("/smp_affinity"));
        }
    }
    let modules = [first, second].map(|picture| picture.classes.get_mut("module"));
    if let [Some(Class::Taken(a)), Some(Class::Taken(b))] = modules {
        a.retain(|key, _| b.contains_key(key));
        b.retain(|key, _| a.contains_key(key));
    }
}

fn read(file: &Path) -> Result<Picture> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    text.parse().with_context(|| format!("reading {}", file.display()))
}

fn take(root: &Path) -> Picture {
    let mut picture = Picture::default();
    for (class, entries) in knobs::take(root) {
        picture.classes.insert(class.into(), entries);
    }
    for (class, folders) in files::CLASSES {
        picture.classes.insert((*class).into(), files::take(root, folders));
    }
    picture.classes.insert("boot-once".into(), files::boot_once(root));
    picture.classes.insert("task".into(), tasks::take(root));
    let live = |take: fn() -> Class| match root == Path::new("/") {
        true => take(),
        false => Class::Absent("it is not this host's".into()),
    };
    picture.classes.insert("unit-file".into(), live(units::files));
    picture.classes.insert("unit".into(), live(units::services));
    picture.classes.insert("nic".into(), live(nics::take));
    picture
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(irqbalance: &str, irq: &str) -> Picture {
        let text = format!(
            "#irq\ttaken\t2\nirq\t/proc/irq/9/smp_affinity\t{irq}\t\n\
             irq\t/proc/irq/default_smp_affinity\tf\t\n\
             #unit\ttaken\t1\nunit\tirqbalance.service\t{irqbalance} enabled\t\n"
        );
        text.parse().unwrap()
    }

    #[test]
    fn across_a_reboot_irqs_are_compared_unless_irqbalance_places_them() {
        for (first, second, irqs) in [
            ("active", "active", "irq: 1 compared, 0 differ"),
            ("active", "failed", "irq: 2 compared, 1 differ"),
            ("failed", "active", "irq: 2 compared, 1 differ"),
        ] {
            let (mut a, mut b) = (picture(first, "2"), picture(second, "f"));
            settle(&mut a, &mut b);
            let verdict = compare::compare(&a, &b).to_string();
            assert!(verdict.contains(irqs), "{verdict}");
        }
    }
}
