//! The house rules that no compiler checks: dependencies point down, `unsafe` lives in one place.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The layer of every crate. A crate may depend on lower layers only, never on a neighbour.
const LAYERS: &[(&str, u8)] = &[
    ("quietcore-measure", 0),
    ("quietcore-sys", 1),
    ("quietcore-bpf", 1),
    ("quietcore-report", 1),
    ("quietcore-console", 2),
    ("quietcore-facts", 2),
    ("quietcore-host", 3),
    ("quietcore-spike", 3),
    ("quietcore-feed", 3),
    ("quietcore-feed-bench", 4),
    ("quietcore-cli", 5),
];

/// Tools of the workspace, which may use any crate and which none uses.
const ABOVE_ALL: &[&str] = &["xtask", "quietcore-fuzz", "quietcore-lab-tools"];

/// Crates that may hold `unsafe`, and why.
const MAY_HOLD_UNSAFE: &[(&str, &str)] = &[
    ("quietcore-bpf", "memory that programs in the kernel write while we read it"),
    (
        "quietcore-sys",
        "system calls that no safe library offers, and reading the time stamp counter",
    ),
];

pub fn main() -> ExitCode {
    match check() {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("layers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version=1"])
        .output()
        .context("cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata: no packages")?;
    let mut wrong = Vec::new();
    let mut edges = 0;
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        if ABOVE_ALL.contains(&name) {
            continue;
        }
        let dependencies = normal_dependencies(package);
        edges += dependencies.len();
        wrong.extend(upward(name, &dependencies));
        wrong.extend(unsafe_outside(name, manifest)?);
    }
    match wrong.is_empty() {
        true => Ok(format!("layers: {edges} edges between {} crates, all downward", LAYERS.len())),
        false => bail!("{}", wrong.join("\n")),
    }
}

/// The workspace's own crates that a crate is built with; what only its tests need may look up.
fn normal_dependencies(package: &Value) -> Vec<String> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    all.filter(|d| d["kind"].is_null())
        .filter_map(|d| d["name"].as_str())
        .filter(|name| name.starts_with("quietcore-"))
        .map(str::to_owned)
        .collect()
}

fn upward(name: &str, dependencies: &[String]) -> Vec<String> {
    let layers: BTreeMap<&str, u8> = LAYERS.iter().copied().collect();
    let Some(own) = layers.get(name) else {
        return vec![format!("{name} has no layer: add it to LAYERS in xtask/src/layers.rs")];
    };
    dependencies
        .iter()
        .filter_map(|dependency| match layers.get(dependency.as_str()) {
            Some(other) if other < own => None,
            Some(other) => Some(format!(
                "{name} (layer {own}) depends on {dependency} (layer {other}): only lower layers are allowed"
            )),
            None => Some(format!("{name} depends on {dependency}, which has no layer")),
        })
        .collect()
}

/// Every crate root forbids `unsafe`, but for those that may hold it.
fn unsafe_outside(name: &str, manifest: &Path) -> Result<Option<String>> {
    if MAY_HOLD_UNSAFE.iter().any(|(crate_name, _)| *crate_name == name) {
        return Ok(None);
    }
    let folder = manifest.parent().context("a manifest has a folder")?;
    let roots = ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file));
    for root in roots.iter().filter(|root| root.exists()) {
        let text = fs::read_to_string(root).with_context(|| root.display().to_string())?;
        if !text.contains("#![forbid(unsafe_code)]") {
            return Ok(Some(format!("{}: lacks #![forbid(unsafe_code)]", root.display())));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_that_does_not_point_down_is_named() {
        let on = |name: &str, dependency: &str| upward(name, &[dependency.to_owned()]);
        assert!(on("quietcore-host", "quietcore-sys").is_empty());
        assert!(on("quietcore-host", "quietcore-spike")[0].contains("only lower layers"));
        assert!(on("quietcore-sys", "quietcore-host")[0].contains("only lower layers"));
        assert!(on("quietcore-new", "quietcore-sys")[0].contains("has no layer"));
        assert!(on("quietcore-cli", "quietcore-new")[0].contains("has no layer"));
    }
}
