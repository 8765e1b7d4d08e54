//! The `quietcore` command. A library only so that its manual can be generated from it.
//!
//! A table of contents: every subcommand is one file of `commands/`.
#![forbid(unsafe_code)]

mod commands;

use clap::{Parser, Subcommand};
use quietcore_console::Exit;

use commands::{
    apply, audit, compare, completions, confirm, exec, explain, feed, install_service, jitter,
    offcpu, place, plan, power, profile, report, rollback, schema, selftest, spikes, status, tour,
    verify,
};

/// Find what stands in a Linux host's latency tail, and remove it.
///
/// Exit codes: 0 clean, 1 findings or a crossed threshold, 2 wrong usage or a failed operation,
/// 3 not possible on this host.
#[derive(Debug, Parser)]
#[command(name = "quietcore", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Tour(tour::Tour),
    Audit(audit::Audit),
    Plan(plan::Plan),
    Apply(apply::Apply),
    Verify(verify::Verify),
    Confirm(confirm::Confirm),
    Rollback(rollback::Rollback),
    Status(status::Status),
    InstallService(install_service::InstallService),
    Power(power::Power),
    Jitter(jitter::Jitter),
    Spikes(Box<spikes::Spikes>),
    Explain(explain::Explain),
    Offcpu(offcpu::OffCpu),
    Profile(profile::Profile),
    Selftest(selftest::Selftest),
    Feed(feed::Feed),
    Exec(exec::Exec),
    Place(place::Place),
    Compare(compare::Compare),
    Report(report::Report),
    Schema(schema::Schema),
    Completions(completions::Completions),
    #[command(hide = true)]
    Guardian(apply::Guardian),
    #[command(hide = true)]
    Inject(selftest::Inject),
}

impl Cli {
    /// Runs what was asked for.
    pub fn run(self) -> anyhow::Result<Exit> {
        match self.command {
            Command::Tour(command) => command.run(),
            Command::Audit(command) => command.run(),
            Command::Plan(command) => command.run(),
            Command::Apply(command) => command.run(),
            Command::Verify(command) => command.run(),
            Command::Confirm(command) => command.run(),
            Command::Rollback(command) => command.run(),
            Command::Status(command) => command.run(),
            Command::InstallService(command) => command.run(),
            Command::Power(command) => command.run(),
            Command::Jitter(command) => command.run(),
            Command::Spikes(command) => command.run(),
            Command::Explain(command) => command.run(),
            Command::Offcpu(command) => command.run(),
            Command::Profile(command) => command.run(),
            Command::Selftest(command) => command.run(),
            Command::Feed(command) => command.run(),
            Command::Exec(command) => command.run(),
            Command::Place(command) => command.run(),
            Command::Compare(command) => command.run(),
            Command::Report(command) => command.run(),
            Command::Schema(command) => command.run(),
            Command::Completions(command) => command.run(),
            Command::Guardian(command) => command.run(),
            Command::Inject(command) => command.run(),
        }
    }
}
