//! A host of a test's own: some settings of the kernel are files that only the commands started
//! here see (a mount namespace), so that tests run side by side and change nothing of this machine.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// As many places as a plan of a real host has.
pub const POLICIES: usize = 40;

const CPU: &str = "/sys/devices/system/cpu";

/// Hides systemd, too: a guardian that it started would live outside.
const ENTER: &str = r#"
set -e
host=$1
shift
[ ! -d /run/systemd ] || mount -t tmpfs none /run/systemd
mount --bind "$host/cpu" /sys/devices/system/cpu
mount --bind "$host/swappiness" /proc/sys/vm/swappiness
mount --bind "$host/stat_interval" /proc/sys/vm/stat_interval
exec "$@"
"#;

/// A host of a test's own.
pub struct Private {
    pub folder: TempDir,
}

impl Private {
    pub fn new() -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["possible", "present", "online", "isolated"] {
            let real = fs::read_to_string(format!("{CPU}/{name}")).unwrap_or_default();
            host.write(&format!("cpu/{name}"), &real);
        }
        for policy in 0..POLICIES {
            host.write(&governor(policy), "powersave\n");
        }
        host.write("swappiness", "60\n");
        host.write("stat_interval", "1\n");
        host.write(
            "own.toml",
            "about = \"of a test\"\n[knobs]\ngovernor = \"performance\"\nswappiness = 10\nstat-interval = 20\n",
        );
        host
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap().trim().to_owned()
    }

    /// Runs a program there.
    pub fn command<S: AsRef<OsStr>>(&self, program: S) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--", "sh", "-c", ENTER, "sh"]);
        command.arg(self.folder.path()).arg(program);
        command
    }

    /// `quietcore` there, with its journal there.
    pub fn quietcore(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_quietcore"));
        let (verb, rest) = args.split_first().unwrap();
        command.arg(verb);
        if ["plan", "apply"].contains(verb) {
            command.arg("--profile").arg(self.path("own.toml"));
        }
        if *verb != "plan" {
            command.arg("--state").arg(self.state());
        }
        command.args(rest);
        command
    }

    pub fn apply(&self) -> Value {
        super::run(&mut self.quietcore(&["apply", "--format", "json"]), 0)
    }

    pub fn rollback(&self, code: i32) -> Value {
        super::run(&mut self.quietcore(&["rollback", "--format", "json"]), code)
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    pub fn journal(&self) -> PathBuf {
        self.path("state/tuning.lease")
    }

    /// Every place that the profile is about, with what it holds.
    pub fn picture(&self) -> BTreeMap<String, String> {
        let names = (0..POLICIES).map(governor);
        let names = names.chain(["swappiness".to_owned(), "stat_interval".to_owned()]);
        names.map(|name| (name.clone(), self.read(&name))).collect()
    }
}

/// A place, below the host's folder.
pub fn governor(policy: usize) -> String {
    format!("cpu/cpufreq/policy{policy}/scaling_governor")
}

/// The column of a table of a run.
pub fn column(run: &Value, table: &str, name: &str) -> Vec<String> {
    let sections = run["sections"].as_array().unwrap();
    let Some(table) = sections.iter().find(|s| s["name"] == table) else { return Vec::new() };
    let columns = table["columns"].as_array().unwrap();
    let at = columns.iter().position(|c| c == name).unwrap();
    let text = |row: &Value| match &row[at] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    table["rows"].as_array().unwrap().iter().map(text).collect()
}
