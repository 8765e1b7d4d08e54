use std::fs;
use std::path::PathBuf;

use super::*;
use crate::host::Snapshot;
use serde_json::json;

struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    /// Knobs are plain files here: what is tested is the order of things.
    fn with(knobs: &[(&str, &str)]) -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap() };
        for (name, text) in knobs {
            fs::write(desk.path(name), text).unwrap();
        }
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn slot(&self, name: &str) -> Slot {
        Slot::word(self.path(name).display().to_string())
    }

    fn set(&self, name: &str, value: &str) -> Change {
        Change { slot: self.slot(name), want: Value::text(value), optional: false }
    }

    fn state(&self) -> PathBuf {
        self.path("state")
    }

    fn reads(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap().trim().to_owned()
    }
}

fn outcomes(all: &[TakenBack]) -> Vec<&Outcome> {
    all.iter().map(|back| &back.outcome).collect()
}

#[test]
fn what_is_changed_comes_back_in_reverse_order_and_nothing_is_left() {
    let desk = Desk::with(&[("a", "1\n"), ("b", "2\n"), ("same", "3\n")]);
    let mut host = Host::live();
    let mut lease = Lease::take(&desk.state(), "t", &host).unwrap();
    let changes = [desk.set("a", "10"), desk.set("b", "20"), desk.set("same", "3")];
    let made = |name| Made { slot: desk.slot(name), refused: None };
    assert_eq!(lease.change(&mut host, &changes).unwrap(), [made("a"), made("b")]);
    assert_eq!((desk.reads("a"), desk.reads("b")), ("10".into(), "20".into()));
    assert!(lease.change(&mut host, &changes).unwrap().is_empty(), "it is idempotent");
    drop(lease);
    let mut lease = Lease::open(&desk.state(), "t", &host).unwrap().unwrap();
    let back = lease.take_back(&mut host, |_| true).unwrap();
    assert_eq!(outcomes(&back), [&Outcome::Restored, &Outcome::Restored]);
    assert_eq!(back[0].slot, desk.slot("b"));
    lease.end().unwrap();
    assert_eq!((desk.reads("a"), desk.reads("b")), ("1".into(), "2".into()));
    assert!(names(&desk.state()).unwrap().is_empty());
}

#[test]
fn what_somebody_else_has_set_since_is_kept_and_told() {
    let desk = Desk::with(&[("a", "1"), ("b", "2"), ("c", "3")]);
    let mut host = Host::live();
    let mut lease = Lease::take(&desk.state(), "t", &host).unwrap();
    lease
        .change(&mut host, &[desk.set("a", "10"), desk.set("b", "20"), desk.set("c", "30")])
        .unwrap();
    fs::write(desk.path("a"), "99").unwrap();
    fs::write(desk.path("b"), "2").unwrap();
    fs::remove_file(desk.path("c")).unwrap();
    let back = lease.take_back(&mut host, |_| true).unwrap();
    let kept = Outcome::Kept { now: Value::text("99"), ours: Value::text("10") };
    assert_eq!(outcomes(&back), [&Outcome::Gone, &Outcome::Already, &kept]);
    assert_eq!(desk.reads("a"), "99");
    assert!(lease.is_empty());
}

#[test]
fn a_value_whose_original_cannot_be_read_is_not_set_and_nor_is_any_other() {
    let desk = Desk::with(&[("a", "1")]);
    let mut host = Host::live();
    let mut lease = Lease::take(&desk.state(), "t", &host).unwrap();
    let error = lease.change(&mut host, &[desk.set("a", "2"), desk.set("none", "2")]).unwrap_err();
    assert!(matches!(error, LeaseError::Unreadable { .. }), "{error}");
    assert_eq!(desk.reads("a"), "1");
    assert!(lease.is_empty());
}

#[test]
fn a_second_change_goes_back_to_the_first_original() {
    let desk = Desk::with(&[("a", "1")]);
    let mut host = Host::live();
    let mut lease = Lease::take(&desk.state(), "t", &host).unwrap();
    lease.change(&mut host, &[desk.set("a", "2")]).unwrap();
    lease.change(&mut host, &[desk.set("a", "3")]).unwrap();
    assert_eq!(lease.entries().count(), 1);
    drop(lease);
    let mut lease = Lease::open(&desk.state(), "t", &host).unwrap().unwrap();
    lease.take_back(&mut host, |_| true).unwrap();
    assert_eq!(desk.reads("a"), "1");
}

fn recorded() -> Host {
    let mut snapshot = Snapshot::new("t");
    for name in ["a", "b", "c"] {
        snapshot.set(&format!("read /{name}"), json!("1\n"));
    }
    snapshot.writes.insert("/c".into(), crate::host::Rule::Busy);
    Host::recorded(snapshot)
}

fn change(path: &str, value: &str) -> Change {
    Change { slot: Slot::word(path), want: Value::text(value), optional: false }
}

#[test]
fn a_refusal_takes_back_what_was_done_and_names_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = recorded();
    let mut lease = Lease::take(folder.path(), "t", &host).unwrap();
    let all = [change("/a", "2"), change("/c", "2"), change("/b", "2")];
    let error = lease.change(&mut host, &all).unwrap_err();
    let LeaseError::Refused(refusal) = &error else { panic!("{error}") };
    assert_eq!(refusal.slot, Slot::word("/c"));
    assert_eq!(outcomes(&refusal.taken_back), [&Outcome::Already, &Outcome::Restored]);
    assert_eq!(host.line("/a").unwrap(), "1");
    assert!(lease.is_empty());
}

#[test]
fn an_optional_refusal_is_told_and_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = recorded();
    let mut lease = Lease::take(folder.path(), "t", &host).unwrap();
    let all = [Change { optional: true, ..change("/c", "2") }, change("/b", "2")];
    let made = lease.change(&mut host, &all).unwrap();
    assert!(made[0].refused.is_some() && made[1].refused.is_none(), "{made:?}");
    assert_eq!(lease.entries().map(|e| e.slot.to_string()).collect::<Vec<_>>(), ["/b"]);
}

#[test]
fn a_refusal_later_on_keeps_what_was_changed_earlier() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = recorded();
    let mut lease = Lease::take(folder.path(), "t", &host).unwrap();
    lease.change(&mut host, &[change("/a", "2")]).unwrap();
    let error = lease.change(&mut host, &[change("/a", "3"), change("/c", "2")]).unwrap_err();
    assert!(error.to_string().starts_with("/c: "), "{error}");
    assert_eq!(host.line("/a").unwrap(), "2");
    let [entry] = lease.entries().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!(entry.in_force(), &Value::text("2"));
    lease.take_back(&mut host, |_| true).unwrap();
    assert_eq!(host.line("/a").unwrap(), "1");
}

#[test]
fn two_changes_at_once_are_locked_out() {
    let desk = Desk::with(&[("a", "1")]);
    let host = Host::live();
    let held = Lease::take(&desk.state(), "t", &host).unwrap();
    for name in ["t", "other"] {
        let error = Lease::take(&desk.state(), name, &host).unwrap_err();
        let own = std::process::id();
        assert!(matches!(error, LeaseError::Locked { holder: Some(pid), .. } if pid == own));
    }
    drop(held);
    Lease::take(&desk.state(), "t", &host).unwrap();
}

#[test]
fn a_journal_of_another_boot_gives_back_only_what_lasts() {
    let desk = Desk::with(&[("a", "1"), ("etc", "mine")]);
    let mut host = Host::live();
    let file = Slot::File { path: desk.path("etc").display().to_string() };
    let mut lease = Lease::take(&desk.state(), "t", &host).unwrap();
    let want = Value::file("ours", 0o600);
    let changes = [desk.set("a", "2"), Change { slot: file.clone(), want, optional: false }];
    lease.change(&mut host, &changes).unwrap();
    lease.boot = "another".to_owned();
    assert_eq!(lease.entries().map(|e| &e.slot).collect::<Vec<_>>(), [&file]);
    let back = lease.take_back(&mut host, |_| true).unwrap();
    assert_eq!(outcomes(&back), [&Outcome::Restored, &Outcome::Rebooted]);
    assert_eq!((desk.reads("a"), desk.reads("etc")), ("2".into(), "mine".into()));
}

#[test]
fn a_journal_of_another_machine_is_refused() {
    let desk = Desk::with(&[]);
    fs::create_dir(desk.state()).unwrap();
    Journal::create(&desk.state().join("t.lease"), "another", 0).unwrap();
    let host = Host::live();
    let error = Lease::take(&desk.state(), "t", &host).unwrap_err();
    assert!(matches!(error, LeaseError::OtherMachine { .. }), "{error}");
    assert!(look(&desk.state(), "t", &host).unwrap().unwrap().other_machine);
}

#[test]
fn a_damaged_journal_is_not_built_upon_but_gives_back_what_it_knows() {
    let desk = Desk::with(&[("a", "1"), ("b", "1")]);
    let mut host = Host::live();
    let mut lease = Lease::take(&desk.state(), "t", &host).unwrap();
    lease.change(&mut host, &[desk.set("a", "2")]).unwrap();
    lease.describe(json!("x")).unwrap();
    lease.change(&mut host, &[desk.set("b", "2")]).unwrap();
    drop(lease);
    let path = desk.state().join("t.lease");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"about\":\"x\"", "\"about\":\"y\"")).unwrap();
    let error = Lease::take(&desk.state(), "t", &host).unwrap_err();
    assert!(matches!(&error, LeaseError::Damaged { lines, .. } if lines == &[4]), "{error}");
    let mut lease = Lease::open(&desk.state(), "t", &host).unwrap().unwrap();
    lease.take_back(&mut host, |_| true).unwrap();
    lease.end().unwrap();
    assert_eq!((desk.reads("a"), desk.reads("b")), ("1".into(), "1".into()));
    assert!(desk.state().join("t.damaged").exists(), "a copy is kept");
}

#[test]
fn a_full_disk_changes_nothing() {
    let desk = Desk::with(&[("a", "1")]);
    let mut host = Host::live();
    let mut lease = Lease::take(&desk.state(), "t", &host).unwrap();
    lease.journal = Journal::full();
    let error = lease.change(&mut host, &[desk.set("a", "2")]).unwrap_err();
    assert!(error.to_string().contains("No space left"), "{error}");
    assert_eq!(desk.reads("a"), "1");
}

#[test]
fn a_term_ends_with_its_process_and_with_its_boot() {
    let host = Host::live();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let started = started_at(child.id()).unwrap();
    let term = Term::While { pid: child.id(), started };
    assert!(!is_over(&term, &host));
    assert!(is_over(&Term::While { pid: child.id(), started: started + 1 }, &host));
    let far = Term::Until { boot: boot(&host), nanos: u64::MAX };
    assert!(!is_over(&far, &host) && !is_over(&Term::Kept, &host));
    assert!(is_over(&Term::Until { boot: "another".into(), nanos: u64::MAX }, &host));

    let desk = Desk::with(&[]);
    let mut lease = Lease::take(&desk.state(), "t", &host).unwrap();
    lease.set_term(term).unwrap();
    drop(lease);
    let folder = desk.state();
    let waiting = std::thread::spawn(move || wait(&folder, "t", &Host::live()).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(waiting.join().unwrap(), Over::Now);
}

#[test]
fn waiting_ends_when_a_lease_is_kept() {
    let host = Host::live();
    let desk = Desk::with(&[]);
    let mut lease = Lease::take(&desk.state(), "t", &host).unwrap();
    lease.set_term(Term::Until { boot: boot(&host), nanos: u64::MAX }).unwrap();
    let folder = desk.state();
    let waiting = std::thread::spawn(move || wait(&folder, "t", &Host::live()).unwrap());
    lease.set_term(Term::Kept).unwrap();
    assert_eq!(waiting.join().unwrap(), Over::Never);
}
