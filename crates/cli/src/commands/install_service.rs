//! `quietcore install-service`: the unit that tunes the host at every boot.

use std::io::{self, Write};
use std::path::absolute;

use anyhow::{Context, bail};
use clap::Args;
use quietcore_console::{Exit, NotPossible, print};
use quietcore_host::service::{Service, UNIT};
use quietcore_sys::lease::{Change, Lease};
use quietcore_sys::{Host, Trouble};

use super::tuning::{State, need_root};

/// The name of its lease.
const LEASE: &str = "service";

/// Install the service that tunes this host at every boot as it was applied last
///
/// Writes /etc/systemd/system/quietcore.service and enables it; `rollback service` takes both
/// back. The service waits for udev, the network and the daemons that set what it sets, applies
/// what is in force, verifies it, and fails where it does not hold. The knob at-boot does the same
/// as part of a profile. Needs root and systemd.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
    quietcore install-service
    quietcore install-service --print                   the unit, without installing it")]
pub struct InstallService {
    /// Print the unit's file and change nothing
    #[arg(long)]
    print: bool,

    #[command(flatten)]
    state: State,
}

impl InstallService {
    pub fn run(self) -> anyhow::Result<Exit> {
        let program = std::env::current_exe().context("the path of this program")?;
        let service = Service { program, state: absolute(&self.state.folder)? };
        let mut talk = io::stderr();
        match service.examine() {
            Ok(Some(warning)) => writeln!(talk, "warning: {warning}")?,
            Ok(None) => {}
            Err(why) if self.print => writeln!(talk, "warning: would not be installed: {why}")?,
            Err(why) => bail!(why),
        }
        if self.print {
            print(&service.text())?;
            return Ok(Exit::Clean);
        }
        need_root()?;
        let mut host = Host::live();
        let places = service.places();
        if places.iter().any(|(slot, _)| host.look(slot) == Err(Trouble::Missing)) {
            return Err(NotPossible::new("systemd does not run this host").into());
        }
        let changes = places.map(|(slot, want)| Change { slot, want, optional: false });
        let mut lease = Lease::take(&self.state.folder, LEASE, &host)?;
        let made = lease.change(&mut host, &changes);
        lease.end()?;
        match made?.is_empty() {
            true => writeln!(talk, "{UNIT} is installed already")?,
            false => {
                writeln!(talk, "{UNIT} is installed: it tunes this host from the next boot on")?
            }
        }
        Ok(Exit::Clean)
    }
}
