//! The disk every machine starts from: made once, kept, made anew when its recipe changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::vm::{Machine, Start};
use crate::dist;
use crate::lab::host::{self, Dirs, list};
use crate::lab::records;

/// Folders of images: this and a part of the recipe's checksum.
const NAME: &str = "machine-";

/// Run once in the machine itself: only there is the disk a whole disk.
const FINISH: &str = "grub-install /dev/vda && update-grub";

/// The disk of an ordinary Debian 12, never started from GRUB before.
pub fn obtain(dirs: &Dirs) -> Result<PathBuf> {
    let recipe = dirs.root.join("lab/machine");
    let home = dirs.lab.join(format!("{NAME}{}", key(&dirs.root)?));
    let disk = home.join("disk.raw");
    if !home.is_dir() {
        if !host::is_root() {
            bail!("the machine's disk is made as root, once: run the lab with sudo");
        }
        eprintln!("lab: making the machine's disk, once (a few minutes)");
        let begin = Instant::now();
        // Made aside and renamed, so that a run that is cut short leaves nothing half done.
        let stage = dirs.stage();
        host::fresh_dir(&stage)?;
        let made = make(dirs, &recipe, &stage);
        let moved = made.and_then(|()| fs::rename(&stage, &home).context("moving the disk"));
        if moved.is_err() {
            fs::remove_dir_all(&stage).context("removing a disk that is not whole")?;
        }
        // Another lab may have been quicker.
        if !home.is_dir() {
            moved?;
        }
        forget_others(dirs, &home)?;
        eprintln!("lab: that took {} s", begin.elapsed().as_secs());
    }
    Ok(disk)
}

fn make(dirs: &Dirs, recipe: &Path, stage: &Path) -> Result<()> {
    // In namespaces of its own, whose mounts and processes end with it, and it ends with us.
    let mut build = Command::new("setpriv");
    build.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]);
    build.args(["--mount-proc", "sh"]).arg(recipe.join("build"));
    build.arg(stage).arg(dirs.lab.join("packages")).args(dist::mirror());
    host::output(&mut build)?;
    let start = Start::Kernel { kernel: stage.join("vmlinuz"), initrd: stage.join("initrd") };
    let mut machine = Machine::on(stage.join("disk.raw"), "raw", stage.join("first-boot"))?;
    machine.boot_from(&start)?;
    let answer = machine.run("finish", FINISH)?;
    ensure!(answer.code == 0, "the disk cannot be finished: {}", answer.ending());
    machine.power_off()?;
    fs::remove_dir_all(stage.join("first-boot")).context("removing the first boot's files")?;
    for file in ["vmlinuz", "initrd"] {
        fs::remove_file(stage.join(file)).with_context(|| format!("removing {file}"))?;
    }
    Ok(())
}

/// What the disk is made of, in sixteen digits.
fn key(root: &Path) -> Result<String> {
    let mut recipe = FINISH.as_bytes().to_vec();
    let mut waiting = vec![root.join("lab/machine"), root.join("lab/guest/record")];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(list(&path)?);
            continue;
        }
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let content = fs::read(&path).with_context(|| format!("reading {name}"))?;
        recipe.extend_from_slice(format!("\n{name} {}\n", content.len()).as_bytes());
        recipe.extend_from_slice(&content);
    }
    let sum = records::sha256(&recipe)?;
    Ok(sum.chars().take(16).collect())
}

/// Images of earlier recipes are of no more use.
fn forget_others(dirs: &Dirs, home: &Path) -> Result<()> {
    for path in list(&dirs.lab)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(NAME) && path != home {
            fs::remove_dir_all(&path).with_context(|| format!("removing {name}"))?;
        }
    }
    Ok(())
}
