//! `quietcore place`: threads of this very process, by their names.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use program::{own_cpu, quietcore, refuses, run, stdout};
use quietcore_sys::sched;

/// A thread that lives as long as this is kept.
struct Named {
    tid: String,
    _end: Sender<()>,
}

impl Named {
    fn start(name: &str) -> Self {
        let (end, wait): (Sender<()>, Receiver<()>) = channel();
        let (tell, told) = channel();
        let body = move || {
            tell.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
            let _ = wait.recv();
        };
        thread::Builder::new().name(name.to_owned()).spawn(body).unwrap();
        let link = told.recv().unwrap();
        Self { tid: link.file_name().unwrap().to_str().unwrap().to_owned(), _end: end }
    }

    fn cpus(&self) -> String {
        sched::affinity(self.tid.parse().unwrap()).unwrap().to_string()
    }
}

fn place(folder: &Path, flags: &[&str]) -> Command {
    let pid = std::process::id().to_string();
    let state = folder.to_str().unwrap();
    quietcore(&[&["place", "--pid", pid.as_str(), "--state", state], flags].concat())
}

/// A map that puts a thread onto a CPU that is there.
fn onto(name: &str) -> String {
    format!("{name}={}", own_cpu())
}

#[test]
fn a_thread_is_placed_and_the_record_says_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let thread = Named::start("first-thread");
    let before = thread.cpus();
    let map = onto("first-thr");
    let run = run(&mut place(folder.path(), &["--map", &map, "--format", "json"]), 0);
    assert_eq!(thread.cpus(), own_cpu());
    let row = &run["sections"][0]["rows"][0];
    assert_eq!(row[0], format!("first-thread/{}", thread.tid));
    assert_eq!((row[2].as_str(), row[3].as_str()), (Some(&*before), Some(&*own_cpu())), "{row}");
}

#[test]
fn a_profile_places_threads_and_the_map_overrides_it() {
    let folder = tempfile::tempdir().unwrap();
    let thread = Named::start("of-a-profile");
    let profile = folder.path().join("own.toml");
    let name = profile.to_str().unwrap();
    fs::write(&profile, "[placement]\nof-a-profile = 8000\n").unwrap();
    let by_profile = &mut place(folder.path(), &["--profile", name]);
    refuses(by_profile, 2, &["of-a-profile: CPUs 8000 are not online"]);
    let map = onto("of-a-profile");
    stdout(&mut place(folder.path(), &["--profile", name, "--map", &map]), 0);
    assert_eq!(thread.cpus(), own_cpu());
    fs::write(&profile, "[knobs]\n").unwrap();
    let empty = &mut place(folder.path(), &["--profile", name]);
    refuses(empty, 2, &["has no [placement]"]);
}

#[test]
fn what_cannot_be_done_is_one_line_that_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let _threads = [Named::start("twin-a"), Named::start("twin-b")];
    let cpu = own_cpu();
    let with = |map: &str, parts: &[&str]| {
        refuses(&mut place(folder.path(), &["--map", map]), 2, parts);
    };
    with("twin-a=8000", &["twin-a: CPUs 8000 are not online", "name others"]);
    with(&onto("nobody-here"), &["no thread is called nobody-here", "twin-a/", "twin-b/"]);
    with(&onto("twin"), &["twin means 2 threads", "tid:NUMBER"]);
    with(&format!("twin-a={cpu},twin-b={cpu}"), &["would share CPUs", "--share"]);
    with("twin-a", &["`twin-a` is no entry of a map"]);
    let gone = quietcore(&["place", "--pid", "4194305", "--map", "main=0"]).output().unwrap();
    assert!(program::stderr(&gone).contains("there is no such process"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was begun");
    let map = format!("twin-a={cpu},twin-b={cpu}");
    stdout(&mut place(folder.path(), &["--share", "--map", &map]), 0);
}

#[test]
#[ignore = "needs root (rollback does): cargo test -p quietcore-cli --test place -- --ignored"]
fn root_rollback_gives_the_cpus_back() {
    let folder = tempfile::tempdir().unwrap();
    let thread = Named::start("given-back");
    let before = thread.cpus();
    stdout(&mut place(folder.path(), &["--map", &onto("given-back")]), 0);
    assert_eq!(thread.cpus(), own_cpu());
    let name = format!("place-{}", std::process::id());
    let state = folder.path().to_str().unwrap();
    stdout(&mut quietcore(&["rollback", &name, "--state", state]), 0);
    assert_eq!(thread.cpus(), before);
}

#[test]
#[ignore = "needs root (it becomes another user): cargo test -p quietcore-cli --test place -- --ignored"]
fn root_without_privileges_a_journal_of_root_s_is_not_possible() {
    let (_place, program) = program::for_everybody();
    let thread = Named::start("not-yours");
    let before = thread.cpus();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    let pid = std::process::id().to_string();
    command.args(["place", "--pid", &pid, "--map", &onto("not-yours"), "--state"]);
    command.arg(folder.path()).uid(65_534).gid(65_534);
    refuses(&mut command, 3, &["Permission denied", "--state DIR"]);
    assert_eq!(thread.cpus(), before);
}
