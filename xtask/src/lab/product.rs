//! The program under test: quietcore as one static file.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::host::Dirs;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds it and says where it is. Cargo decides whether there is anything to do.
pub fn build(dirs: &Dirs) -> Result<PathBuf> {
    eprintln!("lab: building quietcore, static");
    // A folder of its own, because other flags would make cargo build everything twice over.
    let target = dirs.lab.join("cargo");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(&dirs.root)
        .args(["build", "--quiet", "--release", "--package", "quietcore-cli"])
        .args(["--target", TARGET])
        .arg("--target-dir")
        .arg(&target)
        .env("RUSTFLAGS", "-Ctarget-feature=+crt-static")
        // Quicker to build and smaller to boot; what the code does is the same.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("quietcore cannot be built: cargo build ended with {status}");
    }
    Ok(target.join(TARGET).join("release/quietcore"))
}
