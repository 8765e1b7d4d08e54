//! The program under test and the tools that judge it, each as one static file.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::host::Dirs;
use crate::dist;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds quietcore and says where it is.
pub fn build(dirs: &Dirs) -> Result<PathBuf> {
    Ok(release(dirs, "quietcore-cli")?.join("quietcore"))
}

/// Builds what guests are looked at and tormented with, and says where it is.
pub fn tools(dirs: &Dirs) -> Result<[PathBuf; 3]> {
    let folder = release(dirs, "quietcore-lab-tools")?;
    Ok(["actor", "killer", "picture"].map(|name| folder.join(name)))
}

/// The folder with a package's static programs. Cargo decides whether there is anything to do.
fn release(dirs: &Dirs, package: &str) -> Result<PathBuf> {
    eprintln!("lab: building {package}, static");
    // A folder of its own, because other flags would make cargo build everything twice over.
    let target = dirs.lab.join("cargo");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(&dirs.root)
        .args(["build", "--quiet", "--release", "--package", package])
        .args(["--target", TARGET])
        .arg("--target-dir")
        .arg(&target)
        .env("RUSTFLAGS", dist::static_flags())
        // Quicker to build and smaller to boot; what the code does is the same.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("{package} cannot be built: cargo build ended with {status}");
    }
    Ok(target.join(TARGET).join("release"))
}
