//! One guest: starts QEMU, waits within bounds, collects what came out.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::host::{self, Dirs};
use super::kernel::Kernel;
use super::records::{self, Record};
use super::scenario::{Scenario, Step};

/// A guest that has not said hello by then is not coming. Two busy cores need about 15 s.
const BOOT_LIMIT: Duration = Duration::from_secs(180);
/// Beyond what the steps may take by themselves: powering off, an emulator short of CPU time.
const SLACK: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// Enough for a panic with its stack.
const TAIL_LINES: usize = 50;

/// What a guest writes to its kernel's log to have its host stand still for [`STALL_FOR`].
pub const STALL: &str = "lab: stall";
const STALL_FOR: Duration = Duration::from_secs(1);

/// How a guest that came up went on.
pub struct Outcome {
    pub records: Vec<Record>,
    /// Whether it said good-bye, that is, whether every step was run.
    pub finished: bool,
    /// How it ended, in words.
    pub ended: String,
    /// From starting QEMU to the first word of our init.
    pub boot: Duration,
}

/// Kills QEMU when it goes out of scope, whatever the reason.
pub struct Guard(pub Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots the scenario and waits for its end. An error means that no guest came up.
pub fn run(
    s: &Scenario,
    steps: &[Step],
    dirs: &Dirs,
    kernel: &Kernel,
    initrd: &Path,
    dir: &Path,
) -> Result<Outcome> {
    let channel = dir.join("channel");
    let complaints = dir.join("qemu.stderr");
    let begin = Instant::now();
    let mut command = command(s, dirs, kernel, initrd, dir)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(create(&complaints)?);
    let mut qemu = Guard(command.spawn().context("cannot start qemu-system-x86_64")?);

    let mut boot = None;
    let mut stalled = 0;
    let seconds: u64 = steps.iter().map(|step| step.seconds).sum();
    let whole = BOOT_LIMIT + Duration::from_secs(seconds) + SLACK;
    let status = loop {
        if boot.is_none() && fs::metadata(&channel).is_ok_and(|m| m.len() > 0) {
            boot = Some(begin.elapsed());
        }
        if stalls_asked_for(dir) > stalled {
            stall(&qemu.0)?;
            stalled += 1;
        }
        if let Some(status) = qemu.0.try_wait().context("waiting for QEMU")? {
            break Some(status);
        }
        let limit = if boot.is_some() { whole } else { BOOT_LIMIT };
        if begin.elapsed() > limit {
            break None;
        }
        thread::sleep(POLL);
    };
    drop(qemu);

    let sent = fs::read(&channel).unwrap_or_default();
    let records = records::parse(&sent, &records::sha256)?;
    let ended = ending(status, begin.elapsed());
    if records.is_empty() {
        let said = fs::read_to_string(&complaints).unwrap_or_default();
        bail!("the guest did not come up: {ended}\n{said}{}", console_tail(dir));
    }
    Ok(Outcome {
        finished: records.last().is_some_and(|r| r.kind == "bye"),
        records,
        ended,
        // Both the loop's look and the end may come between two polls.
        boot: boot.unwrap_or_else(|| begin.elapsed()),
    })
}

fn stalls_asked_for(dir: &Path) -> usize {
    let console = fs::read(dir.join("console.log")).unwrap_or_default();
    String::from_utf8_lossy(&console).matches(STALL).count()
}

/// What a host that has no time for a guest does to it: its clocks go on, its CPUs do not.
fn stall(qemu: &Child) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(qemu.id()).context("a process's number")?);
    kill(pid, Signal::SIGSTOP).context("stopping QEMU")?;
    thread::sleep(STALL_FOR);
    kill(pid, Signal::SIGCONT).context("letting QEMU go on")
}

fn ending(status: Option<ExitStatus>, after: Duration) -> String {
    match status {
        Some(status) if status.success() => {
            format!("it powered off or rebooted after {} s", after.as_secs())
        }
        Some(status) => format!("QEMU ended with {status} after {} s", after.as_secs()),
        None => format!("killed at the limit of {} s", after.as_secs()),
    }
}

fn command(
    s: &Scenario,
    dirs: &Dirs,
    kernel: &Kernel,
    initrd: &Path,
    dir: &Path,
) -> Result<Command> {
    // setpriv has the kernel kill QEMU when we die, however we die.
    let mut c = Command::new("setpriv");
    c.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
    c.args(["-accel", s.accel, "-M", "pc", "-m", "1G", "-cpu", s.cpu, "-smp", s.smp]);
    c.args(["-display", "none", "-nodefaults", "-no-user-config", "-no-reboot"]);
    c.arg("-kernel").arg(&kernel.vmlinuz).arg("-initrd").arg(initrd);
    // A panic ends the guest at once instead of leaving it to the time limit. Nothing else is
    // added: the boot line is what several scenarios are about.
    c.arg("-append").arg(format!("console=ttyS0 panic=-1 {}", s.boot).trim_end());
    c.args(["-chardev", &format!("file,id=console,path={}", option(&dir.join("console.log")))]);
    c.args(["-serial", "chardev:console", "-device", "virtio-serial-pci"]);
    c.args(["-chardev", &format!("file,id=channel,path={}", option(&dir.join("channel")))]);
    c.args(["-device", "virtserialport,chardev=channel,name=quietcore.lab"]);
    if let Some(source) = s.acpi {
        let table = acpi_table(&dirs.root.join("lab/acpi").join(source), dir)?;
        c.args(["-acpitable", &format!("file={}", option(&table))]);
    }
    c.args(s.qemu);
    Ok(c)
}

/// A path inside a QEMU option, where a comma would end it and is doubled instead.
pub fn option(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// The ACPI table of that source, made in `dir`.
pub fn acpi_table(source: &Path, dir: &Path) -> Result<std::path::PathBuf> {
    let stem = dir.join("table");
    host::output(Command::new("iasl").arg("-p").arg(&stem).arg(source))?;
    Ok(stem.with_extension("aml"))
}

fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("creating {}", path.display()))
}

/// The end of the kernel's log, for messages.
pub fn console_tail(dir: &Path) -> String {
    let bytes = fs::read(dir.join("console.log")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).replace('\r', "");
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    lines[from..].iter().flat_map(|&line| ["    | ", line, "\n"]).collect()
}
