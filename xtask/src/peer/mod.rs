//! Other tools beside this one: `cargo xtask peer latency-audit`, `cargo xtask peer tuned`,
//! `cargo xtask peer stressors`.
//!
//! A comparison that only counts what the other tool lacks proves little, so every doubt is
//! decided in the other tool's favour: it is shown the bad host file by file, a complaint under any
//! name counts if the good host did not draw it, and a subject it does not have is counted apart
//! from one it has and passed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde_json::Value;

mod bad_host;
mod cost;
mod java;
mod latency_audit;
mod stressors;
mod tally;
mod tree;
mod tuned;

use bad_host::{BadHost, Snapshot};
use latency_audit::{Answers, LatencyAudit};
use tally::{Row, Tally};
use tree::Tree;

/// What `cargo xtask peer` is told.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    peer: Peer,
}

#[derive(clap::Subcommand)]
enum Peer {
    /// Shows every bad host of testdata/mutations to latency-audit (PyPI, MIT) and to quietcore
    ///
    /// Installs latency-audit into a virtual environment below the target folder if it is not
    /// there, and runs it, unchanged, where /proc and /sys are the bad host's (a mount namespace:
    /// root, or a kernel that lets users have one). Prints Markdown. The last part runs both tools
    /// on this machine in turn and compares their cost.
    LatencyAudit(Options),
    /// Has tuned (Debian's package) and quietcore tune the same places in turn, then kills both
    ///
    /// Unpacks tuned below the target folder and runs both in namespaces of their own, where the
    /// places are files: nothing of this machine is changed. Prints Markdown. Needs root.
    Tuned(tuned::Options),
    /// Has stress-ng and a JVM take time from a thread, and looks what that is named
    ///
    /// Each stressor's way to work is known, and so what quietcore should name the time that it
    /// costs others, or that it waits itself. Prints Markdown. Needs root, stress-ng (Debian's
    /// package) and a JVM; changes nothing outside of namespaces.
    Stressors(stressors::Options),
}

#[derive(clap::Args)]
struct Options {
    /// Only bad hosts whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// How often both tools run on this machine for the comparison of cost; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 10)]
    pairs: usize,
}

pub fn main(args: &Args) -> ExitCode {
    let done = match &args.peer {
        Peer::LatencyAudit(options) => compare(options),
        Peer::Tuned(options) => duel(options),
        Peer::Stressors(options) => stress(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peer: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn duel(options: &tuned::Options) -> Result<()> {
    let dirs = Dirs::find()?;
    let quietcore = build(&dirs)?;
    tuned::duel(options, &dirs.work, quietcore)
}

fn stress(options: &stressors::Options) -> Result<()> {
    let dirs = Dirs::find()?;
    let quietcore = match &options.quietcore {
        Some(quietcore) => quietcore.clone(),
        None => build(&dirs)?,
    };
    stressors::run(options, &dirs.work, &quietcore)
}

fn compare(options: &Options) -> Result<()> {
    let dirs = Dirs::find()?;
    let quietcore = build(&dirs)?;
    let peer = LatencyAudit::install(&dirs.work)?;
    let tree = Tree::new(dirs.work.join("tree"))?;
    let mut bench =
        Bench { tree, dirs, quietcore, peer, good: BTreeMap::new(), ids: BTreeSet::new() };
    good_hosts(&mut bench)?;
    let mut tally = Tally::default();
    for host in BadHost::all(&bench.dirs.testdata.join("mutations"))? {
        if host.name.contains(&options.only) {
            eprintln!("peer: {}", host.name);
            tally.add(bench.show(&host).with_context(|| host.name.clone())?);
        }
    }
    tally.print();
    for unknown in latency_audit::SUBJECTS.iter().flat_map(|subject| subject.ours) {
        if !bench.ids.contains(*unknown) {
            eprintln!("peer: quietcore has no finding {unknown}: the table of subjects is stale");
        }
    }
    cost::print(options.pairs, &bench.quietcore, &bench.peer.program, &bench.dirs.work)
}

/// What both tools say of the hosts that the bad ones are made from.
fn good_hosts(bench: &mut Bench) -> Result<()> {
    println!("## The hosts before anything was broken\n");
    println!("| host | quietcore | latency-audit | its complaints |");
    println!("| --- | --- | --- | --- |");
    let mut names = Vec::new();
    let hosts = bench.dirs.testdata.join("hosts");
    for entry in fs::read_dir(&hosts).with_context(|| hosts.display().to_string())? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    for name in names {
        let host = Snapshot::load(&hosts, &name)?;
        let ours = bench.ask_quietcore(&host, None, None)?;
        bench.ids.extend(ours.keys().cloned());
        let theirs = bench.ask_peer(&host, None)?;
        let complaints: Vec<String> =
            theirs.complaints().map(|(check, status)| format!("{check} {status}")).collect();
        println!(
            "| {name} | {} | {} | {} |",
            tally::counts(ours.values()),
            tally::counts(theirs.statuses()),
            complaints.join(", ")
        );
    }
    println!();
    Ok(())
}

/// Everything a host is shown to.
struct Bench {
    dirs: Dirs,
    tree: Tree,
    quietcore: PathBuf,
    peer: LatencyAudit,
    /// What the other tool says of the hosts before they were changed, by name and process.
    good: BTreeMap<(String, Option<u32>), Answers>,
    /// Findings that quietcore has.
    ids: BTreeSet<String>,
}

impl Bench {
    fn show(&mut self, host: &BadHost) -> Result<Row> {
        let base = Snapshot::load(&self.dirs.testdata.join("hosts"), &host.base)?;
        let key = (host.base.clone(), host.pid);
        if !self.good.contains_key(&key) {
            let answers = self.ask_peer(&base, host.pid)?;
            self.good.insert(key.clone(), answers);
        }
        let bad = host.applied(base)?;
        let ours = self.ask_quietcore(&bad, host.cpus.as_deref(), host.pid)?;
        self.ids.extend(ours.keys().cloned());
        let theirs = self.ask_peer(&bad, host.pid)?;
        Ok(Row::of(host, &ours, &self.good[&key], &theirs))
    }

    /// The status of every finding, by id.
    fn ask_quietcore(
        &self,
        host: &Snapshot,
        cpus: Option<&str>,
        pid: Option<u32>,
    ) -> Result<BTreeMap<String, String>> {
        let file = self.dirs.work.join("host.json");
        fs::write(&file, serde_json::to_string(host)?)
            .with_context(|| file.display().to_string())?;
        let mut command = Command::new(&self.quietcore);
        command.args(["audit", "--quiet", "--format", "json", "--root"]).arg(&file);
        if let Some(cpus) = cpus {
            command.args(["--cpus", cpus]);
        }
        if let Some(pid) = pid {
            command.args(["--pid", &pid.to_string()]);
        }
        let output = command.output().context("quietcore")?;
        // 1 is findings.
        if !matches!(output.status.code(), Some(0 | 1)) {
            bail!("quietcore: {}", String::from_utf8_lossy(&output.stderr));
        }
        let run: Value = serde_json::from_slice(&output.stdout).context("quietcore's JSON")?;
        let sections = run["sections"].as_array().context("quietcore's JSON: no sections")?;
        let findings = sections.iter().filter_map(|section| section["findings"].as_array());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(findings.flatten().map(|f| (text(&f["id"]), text(&f["status"]))).collect())
    }

    fn ask_peer(&mut self, host: &Snapshot, pid: Option<u32>) -> Result<Answers> {
        self.tree.show(&host.last_reading()).context("laying out the host's files")?;
        self.peer.ask(&self.tree.folder, pid)
    }
}

struct Dirs {
    root: PathBuf,
    testdata: PathBuf,
    target: PathBuf,
    /// Ours below the target folder.
    work: PathBuf,
}

impl Dirs {
    fn find() -> Result<Self> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let root = root.canonicalize().with_context(|| root.display().to_string())?;
        let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let target = root.join(target);
        let work = target.join("peer");
        fs::create_dir_all(&work).with_context(|| work.display().to_string())?;
        Ok(Self { testdata: root.join("testdata"), root, target, work })
    }
}

fn build(dirs: &Dirs) -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--package", "quietcore-cli"])
        .current_dir(&dirs.root)
        .status()
        .context("cargo")?;
    if !status.success() {
        bail!("quietcore cannot be built: {status}");
    }
    Ok(dirs.target.join("release/quietcore"))
}
