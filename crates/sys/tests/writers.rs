//! Who wrote a file is named by the kernel's word; every write here puts back what it found.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use quietcore_sys::writers::{Heard, Write, Writers, WritersError};

const SETTING: &str = "/proc/sys/vm/swappiness";
const ANOTHER: &str = "/proc/sys/vm/dirty_ratio";
const PATIENCE: Duration = Duration::from_secs(20);

/// The tests write the same settings, and one of them makes the kernel's queue short.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn watch(paths: &[&str]) -> Writers {
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    let writers = Writers::watch(&paths).unwrap();
    assert!(writers.unwatched().is_empty(), "{:?}", writers.unwatched());
    writers
}

/// The first writes of this process; what others write meanwhile is none of the test's business.
fn next_by(writers: &mut Writers, pid: u32) -> Vec<Write> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let mut writes = writers.next(PATIENCE).unwrap().writes;
        writes.retain(|write| write.pid == i32::try_from(pid).ok());
        if !writes.is_empty() {
            return writes;
        }
    }
    panic!("nothing heard of process {pid}")
}

fn shell(script: &str) -> Child {
    Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap()
}

fn rewrite(path: &str) -> String {
    format!("echo {} > {path}", fs::read_to_string(path).unwrap().trim())
}

#[test]
#[ignore = "needs root (CAP_SYS_ADMIN): cargo test -p quietcore-sys --test writers -- --ignored"]
fn root_a_writer_that_still_runs_is_named_in_full() {
    let _alone = alone();
    let mut writers = watch(&[SETTING]);
    // It waits for its standard input, which closes when the child is dropped.
    let mut child = shell(&format!("{}; read end", rewrite(SETTING)));
    let writes = next_by(&mut writers, child.id());
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert!(writes[0].path == SETTING && !writes[0].own, "{writes:?}");
    let writer = writes[0].writer.as_ref().unwrap();
    assert_eq!((writer.comm.as_str(), writer.program.as_deref()), ("sh", Some("sh")));
    let parent = writer.parent.as_ref().unwrap();
    assert_eq!(parent.pid.unsigned_abs(), std::process::id());
    assert!(writer.started_unix_ms.is_some());
}

#[test]
#[ignore = "needs root (CAP_SYS_ADMIN): cargo test -p quietcore-sys --test writers -- --ignored"]
fn root_a_writer_that_has_ended_is_named_by_its_record() {
    let _alone = alone();
    let mut writers = watch(&[SETTING]);
    assert!(writers.names_ended(), "taskstats: no CONFIG_TASKSTATS, or in a container");
    let mut child = shell(&rewrite(SETTING));
    // Reaped: its pid is free before anybody asks.
    assert!(child.wait().unwrap().success());
    let writes = next_by(&mut writers, child.id());
    let writer = writes[0].writer.as_ref().unwrap();
    assert_eq!((writer.comm.as_str(), &writer.program), ("sh", &None));
    assert_eq!(writer.parent.as_ref().unwrap().pid.unsigned_abs(), std::process::id());
}

#[test]
#[ignore = "needs root (CAP_SYS_ADMIN): cargo test -p quietcore-sys --test writers -- --ignored"]
fn root_own_writes_are_marked() {
    let _alone = alone();
    let mut writers = watch(&[SETTING]);
    fs::write(SETTING, fs::read(SETTING).unwrap()).unwrap();
    let writes = next_by(&mut writers, std::process::id());
    assert!(writes.iter().all(|write| write.own), "{writes:?}");
}

#[test]
#[ignore = "needs root (CAP_SYS_ADMIN): cargo test -p quietcore-sys --test writers -- --ignored"]
fn root_a_file_is_watched_through_creation_and_replacement() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("99-settings.conf");
    let path = path.to_str().unwrap();
    let mut writers = watch(&[path]);
    for script in [
        format!("echo a > {path}; read end"),
        format!("echo b > {path}.new; exec mv {path}.new {path}"),
        format!("exec rm {path}"),
    ] {
        let mut child = shell(&script);
        let writes = next_by(&mut writers, child.id());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(writes.iter().all(|write| write.path == path), "{writes:?}");
        assert!(writes[0].writer.is_some(), "{script}: {writes:?}");
        while writers.next(Duration::ZERO).unwrap() != Heard::default() {}
    }
}

#[test]
#[ignore = "needs root (CAP_SYS_ADMIN): cargo test -p quietcore-sys --test writers -- --ignored"]
fn root_what_the_kernel_forgets_under_pressure_is_still_watched() {
    let _alone = alone();
    let mut writers = watch(&[SETTING, "/sys/kernel/mm/transparent_hugepage/enabled"]);
    // Gives back entries and inodes that nobody uses.
    fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
    let mut child = shell(&rewrite(SETTING));
    child.wait().unwrap();
    assert_eq!(next_by(&mut writers, child.id()).len(), 1);
}

#[test]
#[ignore = "needs root (it makes the queue short): cargo test -p quietcore-sys --test writers -- --ignored"]
fn root_lost_events_are_told() {
    const LENGTH: &str = "/proc/sys/fs/fanotify/max_queued_events";
    let _alone = alone();
    let before = fs::read(LENGTH).unwrap();
    fs::write(LENGTH, "1").unwrap();
    let mut writers = watch(&[SETTING, ANOTHER]);
    fs::write(LENGTH, before).unwrap();
    for path in [SETTING, ANOTHER] {
        fs::write(path, fs::read(path).unwrap()).unwrap();
    }
    assert_eq!(writers.next(PATIENCE).unwrap().losses, 1);
}

#[test]
#[ignore = "needs root (it makes a control group): cargo test -p quietcore-sys --test writers -- --ignored"]
fn root_a_write_to_a_file_that_is_gone_by_now_is_told_as_lost() {
    let _alone = alone();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2")).unwrap();
    let group = format!("{}/quietcore-{}", mount.split(' ').nth(1).unwrap(), std::process::id());
    fs::create_dir(&group).unwrap();
    let mut writers = watch(&[&format!("{group}/cgroup.max.depth"), SETTING]);
    fs::write(format!("{group}/cgroup.max.depth"), "7").unwrap();
    fs::remove_dir(&group).unwrap();
    shell(&rewrite(SETTING)).wait().unwrap();
    let heard = writers.next(PATIENCE).unwrap();
    assert_eq!(heard.losses, 1);
    assert!(heard.writes.iter().any(|write| write.path == SETTING), "{heard:?}");
}

#[test]
#[ignore = "needs root (CAP_SYS_ADMIN): cargo test -p quietcore-sys --test writers -- --ignored"]
fn root_what_cannot_be_watched_is_listed() {
    let _alone = alone();
    let paths =
        ["/proc/sys/vm/no_such_setting", "/no/such/folder/file", SETTING].map(str::to_owned);
    let writers = Writers::watch(&paths).unwrap();
    let unwatched: Vec<&str> = writers.unwatched().iter().map(|one| one.path.as_str()).collect();
    assert_eq!(unwatched, &paths[..2]);
}

#[test]
#[ignore = "needs root (it becomes another user): cargo test -p quietcore-sys --test writers -- --ignored"]
fn root_without_the_privilege_it_is_refused() {
    let refused = std::thread::spawn(|| {
        // SAFETY: takes numbers; by system call it changes this thread only.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) }, 0);
        Writers::watch(&[SETTING.to_owned()])
    });
    let error = refused.join().unwrap().unwrap_err();
    assert!(matches!(error, WritersError::NotPermitted), "{error}");
}
