//! `quietcore verify --watch`: every drift is told, with its author, and what is none is not.
//!
//! What is tuned here is how often the kernel collects statistics; it is put back at the end.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard};

use program::{own_cpu, quietcore};
use serde_json::{Deserializer, Value};
use tempfile::TempDir;

const SETTING: &str = "/proc/sys/vm/stat_interval";

/// A host tuned by a profile of one setting, until the end of the test.
struct Tuned {
    folder: TempDir,
    before: String,
    _alone: MutexGuard<'static, ()>,
}

impl Tuned {
    fn to(seconds: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let before = fs::read_to_string(SETTING).unwrap().trim().to_owned();
        assert!(!["21", "22", "23"].contains(&before.as_str()), "{SETTING} is {before} already");
        let tuned = Self { folder: tempfile::tempdir().unwrap(), before, _alone: alone };
        tuned.apply(seconds);
        tuned
    }

    fn apply(&self, seconds: &str) {
        let profile = self.folder.path().join("own.toml");
        fs::write(&profile, format!("[knobs]\nstat-interval = {seconds}\n")).unwrap();
        let done = quietcore(&["apply", "--quiet", "--runtime-only", "--force"])
            .args(["--cpus", &own_cpu()])
            .args(["--profile".as_ref(), profile.as_os_str()])
            .args(["--state".as_ref(), self.state()])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn state(&self) -> &std::ffi::OsStr {
        self.folder.path().as_os_str()
    }

    fn roll_back(&self) {
        let done = quietcore(&["rollback", "--quiet", "--state"]).arg(self.state()).output();
        assert!(done.unwrap().status.success());
    }
}

impl Drop for Tuned {
    fn drop(&mut self) {
        let _ = fs::write(SETTING, &self.before);
    }
}

/// A watch that has begun.
struct Watch {
    child: Child,
    lines: BufReader<ChildStdout>,
    talk: BufReader<ChildStderr>,
}

impl Watch {
    fn of(tuned: &Tuned) -> Self {
        let mut child = quietcore(&["verify", "--watch", "--format", "json", "--state"])
            .arg(tuned.state())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut talk = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        talk.read_line(&mut line).unwrap();
        assert!(line.starts_with("watching 1 place;"), "{line}");
        Self { child, lines, talk }
    }

    /// The next news; waits for it.
    fn news(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn interrupt(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    }

    /// Exit code, what is left of the news, the run at the end, and the talk.
    fn end(mut self) -> (i32, Vec<Value>, Value, String) {
        let mut values: Vec<Value> =
            Deserializer::from_reader(&mut self.lines).into_iter().map(Result::unwrap).collect();
        let mut talk = String::new();
        self.talk.read_to_string(&mut talk).unwrap();
        let run = values.pop().unwrap();
        (self.child.wait().unwrap().code().unwrap(), values, run, talk)
    }
}

/// A process of this name writes the setting; its pid.
fn write(program: &str, line: &[&str]) -> u64 {
    let mut child = Command::new(program).args(line).stdout(Stdio::null()).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    child.id().into()
}

fn rows(run: &Value) -> &Vec<Value> {
    run["sections"][0]["rows"].as_array().unwrap()
}

#[test]
#[ignore = "needs root (CAP_SYS_ADMIN): cargo test -p quietcore-cli --test watch -- --ignored"]
fn root_a_drift_is_told_with_its_author_and_again_when_it_is_set_right() {
    let tuned = Tuned::to("21");
    let mut watch = Watch::of(&tuned);
    let pid = write("sh", &["-c", &format!("echo 22 > {SETTING}")]);
    let news = watch.news();
    assert_eq!((&news["event"], &news["place"]), (&"drift".into(), &SETTING.into()));
    assert_eq!((&news["now"], &news["wanted"]), (&"22".into(), &"21".into()));
    assert_eq!((&news["by"]["command"], &news["by"]["pid"]), (&"sh".into(), &pid.into()));
    // The shell is gone by now or soon: who started it is known either way.
    assert_eq!(news["by"]["parent"]["pid"], std::process::id());

    let from = tuned.folder.path().join("value");
    fs::write(&from, "21").unwrap();
    let pid = write("cp", &[from.to_str().unwrap(), SETTING]);
    let news = watch.news();
    assert_eq!((&news["event"], &news["now"]), (&"set right".into(), &"21".into()));
    assert_eq!((&news["by"]["command"], &news["by"]["pid"]), (&"cp".into(), &pid.into()));

    watch.interrupt();
    let (code, rest, run, _) = watch.end();
    assert_eq!((code, rest.len(), rows(&run).len()), (1, 0, 2));
    assert_eq!(run["validity"]["verdict"], "valid");
}

#[test]
#[ignore = "needs root (it tunes): cargo test -p quietcore-cli --test watch -- --ignored"]
fn root_what_had_drifted_before_is_told_first() {
    let tuned = Tuned::to("21");
    fs::write(SETTING, "22").unwrap();
    let mut watch = Watch::of(&tuned);
    let news = watch.news();
    assert_eq!((&news["event"], &news["now"]), (&"drift".into(), &"22".into()));
    assert_eq!(news["by"]["unknown"], "before the watch began");
    watch.interrupt();
    assert_eq!(watch.end().0, 1);
}

#[test]
#[ignore = "needs root (it tunes): cargo test -p quietcore-cli --test watch -- --ignored"]
fn root_tuning_anew_is_no_drift_and_sets_what_is_watched() {
    let tuned = Tuned::to("21");
    let mut watch = Watch::of(&tuned);
    tuned.apply("22");
    write("sh", &["-c", &format!("echo 23 > {SETTING}")]);
    let news = watch.news();
    assert_eq!((&news["now"], &news["wanted"]), (&"23".into(), &"22".into()));
    watch.interrupt();
    let (_, rest, run, _) = watch.end();
    assert_eq!((rest.len(), rows(&run).len()), (0, 1));
}

#[test]
#[ignore = "needs root (it tunes): cargo test -p quietcore-cli --test watch -- --ignored"]
fn root_taking_back_is_no_drift_and_ends_the_watch() {
    let tuned = Tuned::to("21");
    let watch = Watch::of(&tuned);
    tuned.roll_back();
    let (code, news, run, talk) = watch.end();
    assert_eq!((code, news.len(), rows(&run).len()), (0, 0, 0));
    assert!(talk.contains("taken back"), "{talk}");
    assert_eq!(fs::read_to_string(SETTING).unwrap().trim(), tuned.before);
}

#[test]
fn where_nothing_is_in_force_nothing_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let done = watch_once(folder.path());
    assert_eq!(done.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&done.stderr).contains("nothing is in force"));
}

fn watch_once(state: &Path) -> std::process::Output {
    quietcore(&["verify", "--watch", "--state"]).arg(state).output().unwrap()
}
