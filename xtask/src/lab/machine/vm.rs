//! One machine over all its boots: a disk that keeps what is written, and at times a QEMU.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::channel::Channel;
use crate::lab::guest::{Guard, option};
use crate::lab::host;
use crate::lab::records::Record;

/// From power-on, or from the word to reboot, until systemd has started everything. It takes about
/// a minute alone on two cores, and several beside a compiler.
const BOOT_LIMIT: Duration = Duration::from_secs(900);
/// From the word until QEMU has ended.
const POWER_OFF_LIMIT: Duration = Duration::from_secs(120);
/// What a script may take, in seconds of the guest's time. No scenario waits for it: it ends what
/// hangs, and what takes ten seconds here may take minutes on a host that is busy.
const STEP_LIMIT: u64 = 900;
/// What an answer may take beyond the time its script has: the guest counts by its own clock.
const SLACK: Duration = Duration::from_secs(120);

/// tuned counts as started before it has set anything, and says so in its log when it has.
const SETTLE: &str = "\
systemctl --quiet is-active tuned || exit 0
since=$(date -d \"@$(sed -n 's/^btime //p' /proc/stat)\" '+%Y-%m-%d %H:%M:%S')
until awk -v since=\"$since\" '
    $1 \" \" $2 > since && /static tuning from profile .* applied/ { applied = 1 }
    END { exit !applied }
' /var/log/tuned/tuned.log; do sleep 1; done
";

/// What a machine starts from.
pub enum Start {
    /// GRUB, from its disk.
    Disk,
    /// A kernel handed to it, for a disk without GRUB.
    Kernel { kernel: PathBuf, initrd: PathBuf },
}

/// A machine. Going out of scope it is switched off like one whose plug is pulled.
pub struct Machine {
    dir: PathBuf,
    disk: PathBuf,
    format: &'static str,
    /// A read-only second disk, as tar reads it.
    tools: Option<PathBuf>,
    acpi: Option<PathBuf>,
    running: Option<Running>,
    show: bool,
    came_up: bool,
    unpacked: bool,
}

struct Running {
    qemu: Guard,
    channel: Channel,
    boot_id: String,
}

/// What came of a script.
pub struct Answer {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Answer {
    /// The text after `key=` on the first such line of stdout.
    pub fn value(&self, key: &str) -> String {
        let prefix = format!("{key}=");
        let found = self.out.lines().find_map(|l| l.strip_prefix(&prefix));
        found.unwrap_or_default().trim().to_string()
    }

    /// The run that was printed as JSON; null where there is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_default()
    }

    /// One line on how the script ended, for messages.
    pub fn ending(&self) -> String {
        let last = |text: &str| text.lines().last().unwrap_or("nothing").to_string();
        let (out, err) = (last(&self.out), last(&self.err));
        format!("exit code {}, stdout ends with: {out}, stderr with: {err}", self.code)
    }
}

impl Machine {
    /// A machine on that very disk; its logs go to `dir`.
    pub fn on(disk: PathBuf, format: &'static str, dir: PathBuf) -> Result<Self> {
        host::fresh_dir(&dir)?;
        let (tools, acpi, running) = (None, None, None);
        Ok(Self {
            dir,
            disk,
            format,
            tools,
            acpi,
            running,
            show: false,
            came_up: false,
            unpacked: false,
        })
    }

    /// A machine on a new disk that begins as `image` and leaves it as it is.
    pub fn fresh(image: &Path, dir: PathBuf) -> Result<Self> {
        let disk = dir.join("disk.qcow2");
        let machine = Self::on(disk, "qcow2", dir)?;
        let mut create = Command::new("qemu-img");
        create.args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"]);
        host::output(create.arg(image).arg(&machine.disk))?;
        Ok(machine)
    }

    /// Puts a tar file in as second disk, of whose content [`Self::boot`] fills /usr/local/bin.
    pub fn with_tools(mut self, tar: PathBuf) -> Self {
        self.tools = Some(tar);
        self
    }

    /// Adds an ACPI table.
    pub fn with_acpi(mut self, table: PathBuf) -> Self {
        self.acpi = Some(table);
        self
    }

    /// Prints what every script wrote.
    pub fn showing(mut self, show: bool) -> Self {
        self.show = show;
        self
    }

    /// Whether it ever came up, which tells a broken lab from a machine that was broken since.
    pub fn came_up(&self) -> bool {
        self.came_up
    }

    /// Where its console's log and its disk are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Switches it on and waits until everything has started.
    pub fn boot(&mut self) -> Result<()> {
        self.boot_from(&Start::Disk)?;
        self.settle()?;
        if self.tools.is_some() && !self.unpacked {
            let unpack = "tar xf /dev/vdb -C /usr/local/bin && sync";
            let answer = self.run("unpack-tools", unpack)?;
            if answer.code != 0 {
                bail!("the tools cannot be unpacked: {}", answer.ending());
            }
            // The disk stays: the next boot is to find the machine as it was left.
            self.unpacked = true;
        }
        Ok(())
    }

    /// The same from something else than the disk's GRUB, leaving the tools where they are.
    pub fn boot_from(&mut self, start: &Start) -> Result<()> {
        if self.running.is_some() {
            bail!("the machine is on already");
        }
        let socket = self.dir.join("channel");
        if socket.exists() {
            fs::remove_file(&socket).context("removing the last boot's channel")?;
        }
        let complaints = self.dir.join("qemu.stderr");
        let log = File::create(&complaints).context("creating qemu.stderr")?;
        let mut command = self.command(start, &socket);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let begin = Instant::now();
        let qemu = Guard(command.spawn().context("cannot start qemu-system-x86_64")?);
        let greeted = Channel::open(&socket).and_then(|mut channel| {
            let hello = channel.greeting(begin + BOOT_LIMIT)?;
            Ok((channel, hello))
        });
        let (channel, hello) = greeted.with_context(|| {
            format!("the machine did not boot\n{}", text(fs::read(&complaints).unwrap_or_default()))
        })?;
        eprintln!("lab: booted in {} s", begin.elapsed().as_secs());
        self.running = Some(Running { qemu, channel, boot_id: text(hello.stdout) });
        self.came_up = true;
        Ok(())
    }

    /// Runs a shell script as root and waits for its end, or until it is killed (code 137).
    pub fn run(&mut self, name: &str, script: &str) -> Result<Answer> {
        let running = self.running.as_mut().context("the machine is off")?;
        running.channel.send(name, STEP_LIMIT, script)?;
        let limit = Instant::now() + Duration::from_secs(STEP_LIMIT) + SLACK;
        let record = running.channel.receive(limit).with_context(|| format!("running {name}"))?;
        let Record { code, stdout, stderr, seconds, .. } = record;
        let answer = Answer { code, out: text(stdout), err: text(stderr) };
        if self.show {
            eprintln!("--- {name}: exit {code}, {seconds} s\n{}{}", answer.out, answer.err);
        }
        Ok(answer)
    }

    /// Reboots from inside, as an administrator does, and waits until it is up again.
    pub fn reboot(&mut self) -> Result<()> {
        let running = self.running.as_mut().context("the machine is off")?;
        let begin = Instant::now();
        running.channel.send("reboot", 60, "systemctl reboot")?;
        let hello = running.channel.greeting(begin + BOOT_LIMIT).context("rebooting")?;
        let boot_id = text(hello.stdout);
        if boot_id == running.boot_id {
            bail!("the machine greets again without having rebooted");
        }
        running.boot_id = boot_id;
        eprintln!("lab: rebooted in {} s", begin.elapsed().as_secs());
        self.settle()
    }

    fn settle(&mut self) -> Result<()> {
        let settled = self.run("settle", SETTLE)?;
        ensure!(settled.code == 0, "tuned did not apply its profile: {}", settled.ending());
        Ok(())
    }

    /// What a power cut does: everything stops at once, and only what is on the disk is left.
    pub fn pull_the_plug(&mut self) -> Result<()> {
        // Dropping the guard kills QEMU with SIGKILL and waits for its end.
        self.running.take().map(drop).context("the machine is off")
    }

    /// Shuts down from inside and waits until QEMU has ended.
    pub fn power_off(&mut self) -> Result<()> {
        let mut running = self.running.take().context("the machine is off")?;
        running.channel.send("power-off", 60, "systemctl poweroff")?;
        let limit = Instant::now() + POWER_OFF_LIMIT;
        while running.qemu.0.try_wait().context("waiting for QEMU")?.is_none() {
            if Instant::now() > limit {
                bail!("the machine did not power off");
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn command(&self, start: &Start, socket: &Path) -> Command {
        // setpriv has the kernel kill QEMU when we die, however we die.
        let mut c = Command::new("setpriv");
        c.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
        c.args(["-accel", "tcg,thread=multi", "-M", "pc", "-m", "1G", "-smp", "4"]);
        // acpi-cpufreq and the TSC are what they are on real machines only for a CPU of this make.
        c.args(["-cpu", "max,vendor=GenuineIntel,family=6,model=94"]);
        c.args(["-display", "none", "-nodefaults", "-no-user-config"]);
        let console = option(&self.dir.join("console.log"));
        // Appended to: what the boots before the last said is wanted, too.
        c.args(["-chardev", &format!("file,id=console,append=on,path={console}")]);
        c.args(["-serial", "chardev:console", "-device", "virtio-serial-pci"]);
        let socket = option(socket);
        c.args(["-chardev", &format!("socket,id=channel,server=on,wait=off,path={socket}")]);
        c.args(["-device", "virtserialport,chardev=channel,name=quietcore.lab"]);
        let disk = option(&self.disk);
        c.args(["-drive", &format!("if=virtio,format={},file={disk}", self.format)]);
        if let Some(tools) = &self.tools {
            let tools = option(tools);
            c.args(["-drive", &format!("if=virtio,format=raw,readonly=on,file={tools}")]);
        }
        if let Some(table) = &self.acpi {
            c.args(["-acpitable", &format!("file={}", option(table))]);
        }
        if let Start::Kernel { kernel, initrd } = start {
            c.arg("-kernel").arg(kernel).arg("-initrd").arg(initrd);
            c.args(["-append", "root=/dev/vda1 console=ttyS0 no_timer_check mitigations=off"]);
        }
        c
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_gives_values_by_key_and_null_for_what_is_no_json() {
        let answer = Answer { code: 3, out: "isolated=2-3\nempty=\n".into(), err: "bad\n".into() };
        assert_eq!(answer.value("isolated"), "2-3");
        assert_eq!((answer.value("empty"), answer.value("none")), (String::new(), String::new()));
        assert_eq!(answer.json(), Value::Null);
        assert!(answer.ending().contains("exit code 3") && answer.ending().contains("bad"));
    }
}
