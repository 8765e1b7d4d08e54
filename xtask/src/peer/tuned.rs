//! tuned: the same places given the same values by both, interleaved; then both are killed.
//!
//! Both run in namespaces of their own, where the settings are files of this program: nothing of
//! this machine is changed. tuned is unpacked, not installed: to install it is to start it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use super::cost::spread;

/// Governors, beside two settings of the memory.
const POLICIES: usize = 40;

/// What tuned needs without D-Bus, beside Python.
const PACKAGES: [&str; 6] = [
    "tuned",
    "python3-dbus",
    "python3-gi",
    "python3-linux-procfs",
    "python3-pyudev",
    "python3-six",
];

/// Puts the settings in their places and tuned where it belongs, and says when it begins.
const ENTER: &str = r#"
set -e
work=$1
shift
mount -t overlay tuned -o "lowerdir=$work/tree/usr:/usr" /usr
mount -t tmpfs none /run
mount -t tmpfs none /var/log
mkdir -p /run/tuned "$work/etc"
mount -t overlay tuned -o "lowerdir=$work/etc:/etc" /etc
mount --bind "$work/host/cpu" /sys/devices/system/cpu
mount --bind "$work/host/swappiness" /proc/sys/vm/swappiness
mount --bind "$work/host/stat_interval" /proc/sys/vm/stat_interval
date +%s%N >"$work/began"
exec "$@"
"#;

/// The same for both: how each is told.
const OURS: &str = "[knobs]\ngovernor = \"performance\"\nswappiness = 10\nstat-interval = 20\n";
const THEIRS: &str = "[sysctl]\nvm.swappiness=10\nvm.stat_interval=20\n[sysfs]\n\
    /sys/devices/system/cpu/cpufreq/policy*/scaling_governor=performance\n";

#[derive(clap::Args)]
pub struct Options {
    /// How often both apply and take back, in turn
    #[arg(long, value_name = "N", default_value_t = 10)]
    pairs: usize,
    /// How often both are killed as soon as the first place has changed
    #[arg(long, value_name = "N", default_value_t = 5)]
    kills: usize,
}

pub fn duel(options: &Options, work: &Path, quietcore: PathBuf) -> Result<()> {
    let bench = Bench { work: work.join("tuned"), quietcore };
    bench.install()?;
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    for round in 0..options.pairs {
        eprintln!("peer: round {} of {}", round + 1, options.pairs);
        bench.quietcore_once(&mut ours)?;
        bench.tuned_once(&mut theirs)?;
    }
    println!("## {} places, {} rounds in turn: median (least–most)\n", POLICIES + 2, options.pairs);
    println!("| | quietcore | tuned |\n| --- | --- | --- |");
    let show = |times: &Vec<Duration>| {
        spread(times.clone(), "ms", |time| format!("{:.1}", time.as_secs_f64() * 1e3))
    };
    for (name, ours, theirs) in [
        ("apply: from its start until it is done", &ours.apply, &theirs.apply),
        ("of that, from the first place changed to the last", &ours.between, &theirs.between),
        ("rollback (tuned: stop) until every place is back", &ours.back, &theirs.back),
    ] {
        println!("| {name} | {} | {} |", show(ours), show(theirs));
    }
    println!(
        "\ntuned is done when the last place has changed, quietcore when it has ended: read back, on the disk.\n"
    );
    println!("## Killed (SIGKILL) as soon as the first place has changed\n");
    println!(
        "| | places changed when killed | put back by | back as they were |\n| --- | --- | --- | --- |"
    );
    for _ in 0..options.kills {
        let (changed, back) = bench.kill_quietcore()?;
        println!("| quietcore | {changed} | `quietcore rollback` | {back} of {} |", POLICIES + 2);
        let (changed, back) = bench.kill_tuned()?;
        println!("| tuned | {changed} | another start and a stop | {back} of {} |", POLICIES + 2);
    }
    Ok(())
}

/// What was measured of one of them.
#[derive(Default)]
struct Times {
    apply: Vec<Duration>,
    between: Vec<Duration>,
    back: Vec<Duration>,
}

struct Bench {
    work: PathBuf,
    quietcore: PathBuf,
}

/// What a place holds before and after.
struct Place {
    file: PathBuf,
    before: &'static str,
    after: &'static str,
}

impl Bench {
    fn install(&self) -> Result<()> {
        let tree = self.work.join("tree");
        fs::create_dir_all(&tree)?;
        if !tree.join("usr/sbin/tuned").exists() {
            run(Command::new("apt-get")
                .arg("-qq")
                .arg("download")
                .args(PACKAGES)
                .current_dir(&self.work))?;
            for entry in fs::read_dir(&self.work)? {
                let file = entry?.path();
                if file.extension().is_some_and(|e| e == "deb") {
                    run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&tree))?;
                }
            }
        }
        let etc = self.work.join("etc/tuned");
        fs::create_dir_all(etc.join("duel"))?;
        fs::copy(tree.join("etc/tuned/tuned-main.conf"), etc.join("tuned-main.conf"))?;
        fs::write(etc.join("duel/tuned.conf"), THEIRS)?;
        fs::write(self.work.join("own.toml"), OURS)?;
        Ok(())
    }

    /// The host as it is before anybody has tuned it.
    fn fresh(&self) -> Result<Vec<Place>> {
        let host = self.work.join("host");
        for folder in [&host, &self.work.join("state")] {
            if folder.exists() {
                fs::remove_dir_all(folder)?;
            }
        }
        let cpu = host.join("cpu");
        fs::create_dir_all(&cpu)?;
        for name in ["possible", "present", "online"] {
            fs::copy(Path::new("/sys/devices/system/cpu").join(name), cpu.join(name))?;
        }
        let place = |file: PathBuf, before, after| Place { file, before, after };
        let mut places = vec![
            place(host.join("swappiness"), "60", "10"),
            place(host.join("stat_interval"), "1", "20"),
        ];
        for policy in 0..POLICIES {
            let folder = cpu.join(format!("cpufreq/policy{policy}"));
            fs::create_dir_all(&folder)?;
            places.push(place(folder.join("scaling_governor"), "powersave", "performance"));
        }
        for place in &places {
            fs::write(&place.file, format!("{}\n", place.before))?;
        }
        Ok(places)
    }

    fn enter(&self) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--", "sh", "-c", ENTER, "sh"]).arg(&self.work);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let _ = fs::remove_file(self.work.join("began"));
        command
    }

    fn quietcore(&self, verb: &str) -> Command {
        let mut command = self.enter();
        command
            .arg(&self.quietcore)
            .args([verb, "--quiet", "--state"])
            .arg(self.work.join("state"));
        if verb == "apply" {
            command.arg("--profile").arg(self.work.join("own.toml"));
        }
        command
    }

    fn tuned(&self) -> Result<Child> {
        let mut command = self.enter();
        command.args(["/usr/bin/python3", "-Es", "/usr/sbin/tuned", "--no-dbus", "--no-socket"]);
        command.args(["-p", "duel"]).stderr(Stdio::null()).spawn().context("unshare")
    }

    /// Since the program in the namespace was started.
    fn since_began(&self) -> Result<Duration> {
        let began = fs::read_to_string(self.work.join("began"))?;
        let began = Duration::from_nanos(began.trim().parse()?);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        Ok(now.saturating_sub(began))
    }

    fn quietcore_once(&self, times: &mut Times) -> Result<()> {
        let places = self.fresh()?;
        let mut child = self.quietcore("apply").spawn().context("unshare")?;
        times.between.push(between(&places)?);
        ensure!(child.wait()?.success(), "quietcore apply");
        times.apply.push(self.since_began()?);
        ensure!(self.quietcore("rollback").status()?.success(), "quietcore rollback");
        times.back.push(self.since_began()?);
        ensure!(count(&places, |p| p.before) == places.len(), "quietcore rollback left something");
        Ok(())
    }

    fn tuned_once(&self, times: &mut Times) -> Result<()> {
        let places = self.fresh()?;
        let mut child = self.tuned()?;
        times.between.push(between(&places)?);
        times.apply.push(self.since_began()?);
        // Let it settle: it is a daemon.
        std::thread::sleep(Duration::from_millis(500));
        let start = Instant::now();
        terminate(&child)?;
        wait_until("tuned has put everything back", || {
            count(&places, |p| p.before) == places.len()
        })?;
        times.back.push(start.elapsed());
        child.wait()?;
        Ok(())
    }

    /// How many places were changed when it was killed, and how many are back after all.
    fn kill_quietcore(&self) -> Result<(usize, usize)> {
        let places = self.fresh()?;
        let mut child = self.quietcore("apply").spawn().context("unshare")?;
        let changed = kill_at_first(&places, &mut child)?;
        self.quietcore("rollback").status()?;
        Ok((changed, count(&places, |p| p.before)))
    }

    fn kill_tuned(&self) -> Result<(usize, usize)> {
        let places = self.fresh()?;
        let changed = kill_at_first(&places, &mut self.tuned()?)?;
        let mut again = self.tuned()?;
        wait_until("tuned has applied", || count(&places, |p| p.after) == places.len())?;
        std::thread::sleep(Duration::from_millis(500));
        terminate(&again)?;
        again.wait()?;
        Ok((changed, count(&places, |p| p.before)))
    }
}

fn count(places: &[Place], of: impl Fn(&Place) -> &'static str) -> usize {
    let holds =
        |place: &&Place| fs::read_to_string(&place.file).is_ok_and(|t| t.trim() == of(place));
    places.iter().filter(holds).count()
}

/// From the first place changed to the last.
fn between(places: &[Place]) -> Result<Duration> {
    wait_until("the first place has changed", || count(places, |p| p.after) > 0)?;
    let start = Instant::now();
    wait_until("the last place has changed", || count(places, |p| p.after) == places.len())?;
    Ok(start.elapsed())
}

fn kill_at_first(places: &[Place], child: &mut Child) -> Result<usize> {
    wait_until("the first place has changed", || count(places, |p| p.after) > 0)?;
    child.kill()?;
    child.wait()?;
    Ok(count(places, |p| p.after))
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let start = Instant::now();
    while !is_so() {
        ensure!(start.elapsed() < Duration::from_secs(60), "waited a minute until {what}");
    }
    Ok(())
}

fn terminate(child: &Child) -> Result<()> {
    run(Command::new("kill").args(["-TERM", &child.id().to_string()]))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{:?}", command.get_program()))?;
    match status.success() {
        true => Ok(()),
        false => bail!("{command:?}: {status}"),
    }
}
