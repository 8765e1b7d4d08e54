//! The boot line: tried once, kept when confirmed, never by editing a user's file.
//!
//! A new line is first offered as an entry of its own that the boot loader takes once
//! ([`Stage::Trial`]). A host that does not come back boots its old line the next time. Confirmed
//! after a boot that verifies, it becomes the line of every boot ([`Stage::Permanent`]).

mod bls;
mod compose;
mod files;
mod grub;
mod loader;
mod menu;
mod program;
mod systemd_boot;

use quietcore_facts::Facts;
use quietcore_measure::{Cell, Table};
use quietcore_sys::Host;
use quietcore_sys::lease::{Lease, LeaseError, Slot, TakenBack};

use crate::knobs::Parameter;
use bls::{Bls, Reader};
use files::{beside, content, settle};
use grub::Grub;

pub(crate) use loader::Loader;

/// What becomes of the boot line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    /// Parameters of the profile.
    pub parameters: Vec<Parameter>,
    /// Those that the running kernel was not booted with.
    pub missing: Vec<Parameter>,
    /// The running kernel's line.
    pub before: String,
    /// The line with the parameters.
    pub after: String,
    /// What stands against it, in words: other values that the user has given.
    pub conflicts: Vec<(Parameter, String)>,
    /// The files that are written for the trial; empty where that cannot be told.
    pub places: Vec<String>,
}

/// How far a new boot line has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// An entry for the next boot only.
    Trial,
    /// The line of every boot.
    Permanent,
}

/// What became of a menu that had something of ours in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remade {
    /// In words.
    pub what: String,
    /// Whether nothing of ours is left.
    pub done: bool,
}

/// Why the boot line cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// No boot loader was found that this program can tell to boot an entry once.
    #[error(
        "no boot loader was found that can boot an entry once (GRUB, systemd-boot): add `{line}` to the kernel's command line by hand, or leave it out with --runtime-only"
    )]
    NoLoader {
        /// The parameters.
        line: String,
    },
    /// The boot loader is there, but a trial would not be safe or could not be kept.
    #[error(
        "the boot line was left alone: {0} (--runtime-only leaves it out; by hand, add the parameters that `plan` shows)"
    )]
    Unfit(String),
    /// The user has given another value.
    #[error(
        "the boot line has `{taken}`, and the kernel would not take `{wanted}`: remove `{taken}` from {place}"
    )]
    Conflict {
        /// What the profile wants.
        wanted: Parameter,
        /// What the kernel would take.
        taken: String,
        /// File and line, where they could be found.
        place: String,
    },
    /// A parameter that a shell or GRUB would read otherwise than the kernel.
    #[error("`{0}` cannot stand on a boot line: letters, digits and _.,:=+-/@% can")]
    Odd(Parameter),
    /// The menu is not what the configuration says.
    #[error(
        "{menu} is not what /etc/default/grub makes of it: making it anew would change more than the boot line (`{line}`): run update-grub first, then try again"
    )]
    Stale {
        /// The menu.
        menu: String,
        /// The first line that differs.
        line: String,
    },
    /// A program of the boot loader failed.
    #[error("{program}: {why}")]
    Program {
        /// The program.
        program: String,
        /// Its words.
        why: String,
    },
    /// A change was refused.
    #[error(transparent)]
    Lease(#[from] LeaseError),
}

/// What would become of the boot line.
pub fn propose(facts: &Facts, parameters: &[Parameter]) -> Proposed {
    let boot = facts.boot();
    let missing: Vec<Parameter> =
        parameters.iter().filter(|p| !compose::is_taken(boot, p)).cloned().collect();
    let host = facts.host();
    let before = running_line(host);
    let scheme = Scheme::of(host).and_then(Result::ok);
    let own = scheme.as_ref().map_or(Vec::new(), |scheme| scheme.own(host));
    let users = compose::without(&before, &own);
    let configured = facts.bootfiles().files.value().and_then(|files| files.configured.as_ref());
    let configured = configured.filter(|_| !matches!(scheme, Some(Scheme::Bls(_))));
    let behind = configured.map_or(String::new(), |configured| configured.ordinary.clone());
    let after = compose::with(&users, parameters, &behind);
    let place = |word: &str| match &scheme {
        Some(Scheme::Grub(grub)) => grub.stands(host, word),
        _ => "the boot loader's configuration".to_owned(),
    };
    let conflicts = parameters.iter().filter_map(|wanted| {
        let conflict = compose::conflict(&after, std::slice::from_ref(wanted))?;
        let taken = conflict.taken;
        Some((wanted.clone(), format!("remove `{taken}` from {} first", place(&taken))))
    });
    let conflicts = conflicts.collect();
    let places = scheme.map_or(Vec::new(), |scheme| scheme.places());
    Proposed { parameters: parameters.to_vec(), missing, before, after, conflicts, places }
}

/// Installs the new line at a stage, through the lease.
///
/// # Errors
/// What was done by this call may be left, known to the lease: the caller takes it back.
pub fn install(
    lease: &mut Lease,
    host: &mut Host,
    proposed: &Proposed,
    stage: Stage,
) -> Result<(), BootError> {
    let wanted = &proposed.parameters;
    if let Some(odd) = wanted.iter().find(|parameter| !compose::is_plain(parameter)) {
        return Err(BootError::Odd(odd.clone()));
    }
    let none = || BootError::NoLoader { line: proposed.to_string() };
    match (Scheme::of(host).ok_or_else(none)??, stage) {
        (Scheme::Grub(grub), Stage::Trial) => grub.try_once(lease, host, wanted),
        (Scheme::Grub(grub), Stage::Permanent) => grub.keep(lease, host, wanted),
        (Scheme::Bls(bls), Stage::Trial) => bls.try_once(lease, host, wanted),
        (Scheme::Bls(bls), Stage::Permanent) => bls.keep(lease, host, wanted),
    }
}

/// Whether a place belongs to the boot line: a file of the loader or for it.
pub fn owns(slot: &Slot) -> bool {
    match slot {
        Slot::NextBoot { .. } => true,
        Slot::Folder { path } => path == "/etc/default/grub.d",
        Slot::File { path } => {
            path.ends_with("/grub.cfg")
                || path.contains("/loader/entries/")
                || path == CMDLINE
                || grub::is_own(path)
        }
        _ => false,
    }
}

/// Those of these parameters that the running kernel was booted with.
pub fn running(host: &Host, parameters: &[Parameter]) -> Vec<Parameter> {
    let line = host.command_line().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    parameters.iter().filter(|p| words.contains(&p.to_string().as_str())).cloned().collect()
}

/// After places were taken back: makes the menu anew where somebody else has changed it meanwhile
/// (a new kernel), so that nothing of ours stays in it. `parameters`: those that were ours.
pub fn after_rollback(
    lease: &mut Lease,
    host: &mut Host,
    parameters: &[Parameter],
    back: &[TakenBack],
) -> Result<Option<Remade>, BootError> {
    if !back.iter().any(|place| owns(&place.slot)) {
        return Ok(None);
    }
    match Scheme::of(host) {
        Some(Ok(Scheme::Grub(grub))) => grub.clean(lease, host, parameters, back),
        Some(Ok(Scheme::Bls(bls))) => bls.clean(lease, host, parameters, back),
        Some(Err(error)) => Ok(Some(Remade { what: error.to_string(), done: false })),
        None => Ok(None),
    }
}

/// Where kernel-install keeps the parameters of kernels to come.
const CMDLINE: &str = "/etc/kernel/cmdline";

/// How this machine's boot line is changed.
enum Scheme {
    Grub(Grub),
    Bls(Bls),
}

impl Scheme {
    /// `None` for a recorded host, and where no loader is known that can boot an entry once.
    fn of(host: &Host) -> Option<Result<Self, BootError>> {
        if !host.is_live() {
            return None;
        }
        let grub = |menu: &str| Some(Grub::of(menu, image(host)).map(Self::Grub));
        match Loader::now(host) {
            _ if systemd_boot::is_running() => {
                let found = bls(host, Ok(Reader::SystemdBoot));
                let image = "no entry of systemd-boot is a .conf file: the line of a unified kernel image lies within it";
                Some(found.unwrap_or_else(|| Err(BootError::Unfit(image.to_owned()))))
            }
            Loader::UpdateGrub => grub("/boot/grub/grub.cfg"),
            Loader::Mkconfig(menu) => grub(&menu),
            Loader::Grubby => bls(host, grub_reader(host)),
            Loader::KernelInstall | Loader::Unknown => None,
        }
    }

    fn own(&self, host: &Host) -> Vec<Parameter> {
        match self {
            Self::Grub(grub) => grub.own(host),
            Self::Bls(bls) => bls.own(host),
        }
    }

    fn places(&self) -> Vec<String> {
        match self {
            Self::Grub(grub) => grub.places(),
            Self::Bls(bls) => bls.places(),
        }
    }
}

/// The folder of the entries, if there are any, with who reads them.
fn bls(host: &Host, reader: Result<Reader, BootError>) -> Option<Result<Scheme, BootError>> {
    let lines = host.boot_lines().unwrap_or_default();
    let entry = lines.entries.iter().find(|line| line.file.ends_with(".conf"))?;
    let folder = entry.file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let release = host.line("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (cmdline, image) = (CMDLINE.to_owned(), image(host));
    Some(reader.map(|reader| Scheme::Bls(Bls { folder, cmdline, image, release, reader })))
}

fn grub_reader(host: &Host) -> Result<Reader, BootError> {
    let environments = ["/boot/grub2/grubenv", "/boot/grub/grubenv"];
    let there = environments.into_iter().find(|path| host.read(path).is_ok());
    let environment = there.ok_or_else(|| BootError::Unfit("GRUB has no grubenv".to_owned()))?;
    let probe = program::find(&["grub2-probe", "grub-probe"])?;
    Ok(Reader::Grub { environment: environment.to_owned(), probe })
}

/// The running kernel's line in full; of a recorded host, what was recorded of it.
fn running_line(host: &Host) -> String {
    let known = host.command_line().unwrap_or_default();
    let full = content(host, "/proc/cmdline").map_or(known, |(text, _)| text);
    let words = full.split_whitespace().filter(|word| !word.starts_with("BOOT_IMAGE="));
    words.collect::<Vec<_>>().join(" ")
}

/// The file that the running kernel was loaded from, as the loader saw it.
fn image(host: &Host) -> String {
    let line = host.command_line().unwrap_or_default();
    let image = line.split_whitespace().find_map(|word| word.strip_prefix("BOOT_IMAGE="));
    image.unwrap_or_default().to_owned()
}

/// GRUB takes an entry once only if it can write to the file system that the menu lies on, to
/// clear it: otherwise it would boot the trial for ever.
fn can_be_cleared(probe: &str, menu: &str) -> Result<(), BootError> {
    const READ_ONLY: [&str; 9] =
        ["btrfs", "zfs", "squash4", "cpiofs", "newc", "odc", "romfs", "tarfs", "iso9660"];
    let folder = beside(menu, "");
    let ask = |target| program::run(probe, &["--target", target, folder.trim_end_matches('/')], "");
    let (system, layers) = (ask("fs")?, ask("abstraction")?);
    let (system, layers) = (system.trim(), layers.trim());
    let why = match (READ_ONLY.contains(&system), layers.is_empty()) {
        (false, true) => return Ok(()),
        (true, _) => format!("on {system}"),
        (false, false) => format!("behind {}", layers.replace('\n', ", ")),
    };
    Err(BootError::Unfit(format!(
        "GRUB cannot write to {folder} {why}, so it would boot an entry that is to be booted once for ever"
    )))
}

impl Proposed {
    /// Whether the running kernel was booted with all of it.
    pub fn is_in_force(&self) -> bool {
        self.missing.is_empty()
    }

    /// Rows of the plan's table: knob, place, places, before, after.
    pub fn rows(&self) -> Vec<Vec<Cell>> {
        if self.is_in_force() {
            return Vec::new();
        }
        let row = |place: &str, before: Cell, after: &str| {
            vec!["boot line".into(), place.into(), Cell::Empty, before, after.into()]
        };
        let missing = self.missing.iter().map(|p| row(&p.name, Cell::Empty, &p.to_string()));
        let files = self.places.iter().map(|place| row(place, Cell::Empty, "for one boot"));
        missing.chain(files).collect()
    }

    /// The whole line, as it is and as it is tried.
    pub fn table(&self) -> Table {
        let mut table = Table::new("plan_boot", "The boot line, tried once", &["when", "line"]);
        for (when, line) in [("now", &self.before), ("next boot", &self.after)] {
            table.rows.push(vec![when.into(), line.as_str().into()]);
        }
        table
    }

    /// What stands against it: knob, place, places, state.
    pub fn obstacles(&self) -> Vec<Vec<Cell>> {
        let row = |(wanted, why): &(Parameter, String)| {
            let why = format!("cannot: {why}");
            vec!["boot line".into(), wanted.to_string().into(), Cell::Empty, why.into()]
        };
        self.conflicts.iter().map(row).collect()
    }
}

impl std::fmt::Display for Proposed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&compose::words(&self.parameters))
    }
}
