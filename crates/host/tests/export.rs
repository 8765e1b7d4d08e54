//! A plan as a script: it is run for real, on files of the test's own and beside stand-ins for the
//! programs that would change this machine.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use quietcore_host::boot;
use quietcore_host::export::sh;
use quietcore_host::knobs::{ALL, Item, Parameter, State};
use quietcore_host::plan::{Plan, Step};
use quietcore_sys::Host;
use quietcore_sys::lease::{Form, Lease, Loader, Setting, Slot, Value, started_at};

/// Keeps its state in files: `systemctl`, `ethtool` and `grub-editenv` of the test.
const STAND_IN: &str = r#"#!/bin/sh
set -eu
cd "$STAND_IN"
case "${0##*/} $1" in
    "systemctl show")
        case $3 in
            LoadState) echo loaded ;;
            ActiveState) sed 's/ .*//' "$5" ;;
            UnitFileState) sed 's/.* //' "$5" ;;
        esac ;;
    "systemctl stop") sed -i 's/^active/inactive/' "$2" ;;
    "systemctl start") sed -i 's/^inactive/active/' "$2" ;;
    "systemctl enable" | "systemctl disable" | "systemctl mask") sed -i "s/ .*/ ${1}d/; s/maskd/masked/" "$2" ;;
    "systemctl unmask") sed -i "s/ .*/ static/" "$2" ;;
    "ethtool -c")
        printf 'Coalesce parameters for eth0:\nAdaptive RX: %s  TX: n/a\n' "$(cat adaptive)"
        printf 'rx-usecs:\t%s\nrx-usecs-irq: 7\n' "$(cat usecs)" ;;
    "ethtool -C") case $3 in adaptive-rx) echo "$4" >adaptive ;; rx-usecs) echo "$4" >usecs ;; esac ;;
    "ethtool -g") printf 'Pre-set maximums:\nRX:\t4096\nCurrent hardware settings:\nRX:\t%s\n' "$(cat ring)" ;;
    "ethtool -G") echo "$4" >ring ;;
    "grub-editenv /grubenv")
        case $2 in
            list) [ ! -s entry ] || sed 's/^/next_entry=/' entry ;;
            set) echo "${3#*=}" >entry ;;
            unset) : >entry ;;
        esac ;;
    *) echo "stand-in: $0 $*" >&2; exit 1 ;;
esac
"#;

struct Desk {
    folder: tempfile::TempDir,
    child: std::process::Child,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let desk = Self { folder, child };
        for part in ["knobs", "bin", "state"] {
            fs::create_dir(desk.path(part)).unwrap();
        }
        for (name, text) in [
            ("swappiness", "60\n"),
            ("words", "always [madvise] never\n"),
            ("it's", "a b\tc\n"),
            ("list", "0-1\n"),
            ("mask", "00000000,00000003\n"),
            ("optional", "1\n"),
            ("etc", "old\n\nlines of '$HOME'\n"),
        ] {
            fs::write(desk.knob(name), text).unwrap();
        }
        for (name, text) in [
            ("a.service", "active enabled\n"),
            ("b.service", "active static\n"),
            ("c.service", "inactive disabled\n"),
            ("adaptive", "on\n"),
            ("usecs", "50\n"),
            ("ring", "256\n"),
            ("entry", ""),
        ] {
            fs::write(desk.path("state").join(name), text).unwrap();
        }
        for name in ["systemctl", "ethtool", "grub-editenv"] {
            let path = desk.path("bin").join(name);
            fs::write(&path, STAND_IN).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn knob(&self, name: &str) -> PathBuf {
        self.path("knobs").join(name)
    }

    fn file_slot(&self, name: &str) -> Slot {
        Slot::File { path: self.knob(name).display().to_string() }
    }

    /// Places that the lease itself can write, too: files of this test.
    fn own_items(&self) -> Vec<Item> {
        let path = |name: &str| self.knob(name).display().to_string();
        let word = |name, from: &str, to: &str| item(Slot::word(path(name)), from, to);
        let set = |name, form, from, to| item(Slot::Knob { path: path(name), form }, from, to);
        let there = Host::live().look(&self.file_slot("etc")).unwrap();
        vec![
            word("swappiness", "60", "10"),
            word("words", "always [madvise] never", "never"),
            word("it's", "a b\tc", "$(reboot) `reboot` \"'"),
            set("list", Form::CpuList, "0-1", "0"),
            set("mask", Form::CpuMask, "00000000,00000003", "1"),
            Item { optional: true, ..word("optional", "1", "2") },
            Item {
                slot: self.file_slot("etc"),
                after: Value::file("new 'lines'\n%s\\n\n", 0o640),
                state: State::Change(there),
                optional: false,
                follows: None,
            },
            Item {
                slot: self.file_slot("none.conf"),
                after: Value::file("a\n", 0o600),
                state: State::Change(Value::Absent),
                optional: false,
                follows: None,
            },
            Item {
                slot: Slot::Folder { path: path("folder") },
                after: Value::folder(),
                state: State::Change(Value::Absent),
                optional: false,
                follows: None,
            },
        ]
    }

    /// Places that take programs.
    fn far_items(&self) -> Vec<Item> {
        let unit = |name: &str, from, to| item(Slot::Unit { name: name.to_owned() }, from, to);
        let device =
            |setting, from, to| item(Slot::Device { interface: "eth0".into(), setting }, from, to);
        let tid = self.child.id();
        let cpus = Host::live().look(&Slot::Affinity { tid, started: started_at(tid).unwrap() });
        let cpus = cpus.unwrap().as_text().unwrap().to_owned();
        let loader = Loader::Grub { environment: "/grubenv".to_owned() };
        vec![
            unit("a.service", "active enabled", "inactive disabled"),
            unit("b.service", "active static", "inactive masked"),
            item(Slot::Enabled { name: "c.service".into() }, "disabled", "enabled"),
            device(Setting::AdaptiveRx, "1", "0"),
            device(Setting::RxUsecs, "50", "3"),
            device(Setting::RxRing, "256", "4096"),
            item(Slot::Affinity { tid, started: started_at(tid).unwrap() }, &cpus, "0"),
            Item {
                slot: Slot::NextBoot { loader },
                after: Value::text("a>b"),
                state: State::Change(Value::Absent),
                optional: false,
                follows: None,
            },
        ]
    }

    fn script(&self, items: Vec<Item>) -> PathBuf {
        let path = self.path("script.sh");
        fs::write(&path, sh(&plan(items), "a test\n: not a command")).unwrap();
        path
    }

    fn run(&self, script: &Path, verb: &str) -> (Option<i32>, String) {
        let bin = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let output = Command::new("sh")
            .arg(script)
            .arg(verb)
            .env("PATH", bin)
            .env("STAND_IN", self.path("state"))
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    /// Everything below, by path: texts trimmed as a kernel file is read, with modes.
    fn picture(&self) -> BTreeMap<String, String> {
        let mut picture = BTreeMap::new();
        for folder in ["knobs", "state"] {
            for entry in fs::read_dir(self.path(folder)).unwrap() {
                let path = entry.unwrap().path();
                let text = match path.is_dir() {
                    true => "folder".to_owned(),
                    false => fs::read_to_string(&path).unwrap(),
                };
                let mode = fs::metadata(&path).unwrap().permissions().mode();
                picture.insert(path.display().to_string(), format!("{mode:o} {}", text.trim()));
            }
        }
        let tid = self.child.id();
        let cpus = Slot::Affinity { tid, started: started_at(tid).unwrap() };
        picture.insert("cpus".into(), Host::live().look(&cpus).unwrap().to_string());
        picture
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn item(slot: Slot, from: &str, to: &str) -> Item {
    let state = State::Change(Value::text(from));
    Item { slot, after: Value::text(to), state, optional: false, follows: None }
}

fn plan(items: Vec<Item>) -> Plan {
    Plan {
        steps: vec![Step { knob: ALL[0], value: "x".into(), items, parameters: Vec::new() }],
        boot: None,
    }
}

/// Which of two pictures' places differ; a word in brackets counts as the word.
fn differing(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<String> {
    let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    keys.into_iter().filter(|key| a.get(*key) != b.get(*key)).cloned().collect()
}

#[test]
fn a_script_with_every_kind_of_place_is_clean_to_shellcheck() {
    let desk = Desk::new();
    let pid = desk.child.id();
    let member = Slot::Member { pid, started: 1, mount: "/sys/fs/cgroup".into() };
    let group = Slot::Knob { path: "/sys/fs/cgroup/x".into(), form: Form::Controllers };
    let more = [item(member, "/a", "/b"), item(group, "cpu", "cpu cpuset")];
    let all = [desk.own_items(), desk.far_items(), more.to_vec()].concat();
    for items in [all, Vec::new(), desk.own_items()[..1].to_vec()] {
        let script = desk.script(items);
        let output = Command::new("shellcheck").arg("--shell=sh").arg(&script).output();
        let output = output.expect("shellcheck (apt-get install shellcheck)");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", fs::read_to_string(&script).unwrap());
    }
}

#[test]
#[ignore = "needs root: the script does"]
fn root_a_script_changes_what_apply_changes_and_its_undo_takes_it_back() {
    let (by_script, by_lease) = (Desk::new(), Desk::new());
    let before = by_script.picture();
    let script = by_script.script(by_script.own_items());
    let (code, said) = by_script.run(&script, "apply");
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("as is"), "{said}");

    let mut host = Host::live();
    let mut lease = Lease::take(&by_lease.path("lease"), "t", &host).unwrap();
    lease.change(&mut host, &plan(by_lease.own_items()).changes()).unwrap();
    let local = |desk: &Desk| -> BTreeMap<String, String> {
        let root = desk.folder.path().display().to_string();
        desk.picture().into_iter().map(|(path, text)| (path.replace(&root, ""), text)).collect()
    };
    assert_eq!(local(&by_script), local(&by_lease));

    let (code, said) = by_script.run(&script, "apply");
    assert!(code == Some(0) && !said.contains("changed"), "idempotent: {said}");
    let (code, said) = by_script.run(&script, "undo");
    assert_eq!(code, Some(0), "{said}");
    // A file of the kernel shows the words again; one of this test holds what was written.
    let words = by_script.knob("words").display().to_string();
    assert_eq!(differing(&before, &by_script.picture()), [words]);
    assert_eq!(fs::read_to_string(by_script.knob("words")).unwrap().trim(), "madvise");
}

#[test]
#[ignore = "needs root: the script does"]
fn root_services_devices_threads_and_the_boot_entry_go_there_and_back() {
    let desk = Desk::new();
    let before = desk.picture();
    let script = desk.script(desk.far_items());
    let (code, said) = desk.run(&script, "apply");
    assert!(code == Some(0) && said.lines().all(|line| line.starts_with("changed")), "{said}");
    let changed = desk.picture();
    let state = |name: &str| {
        let text = &changed[&desk.path("state").join(name).display().to_string()];
        text.split_once(' ').unwrap().1.to_owned()
    };
    assert_eq!(state("a.service"), "inactive disabled");
    assert_eq!(state("b.service"), "inactive masked");
    assert_eq!(state("c.service"), "inactive enabled");
    let devices = ["adaptive", "usecs", "ring", "entry"].map(state);
    assert_eq!(devices, ["off", "3", "4096", "a>b"]);
    assert_eq!(changed["cpus"], "0");
    let (code, said) = desk.run(&script, "undo");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(differing(&before, &desk.picture()), [""; 0], "{said}");
}

#[test]
#[ignore = "needs root: the script does"]
fn root_what_somebody_else_has_set_since_is_kept_in_every_combination() {
    let names = ["swappiness", "list", "mask", "optional"];
    for chosen in 0u32..1 << names.len() {
        let desk = Desk::new();
        let before = desk.picture();
        let script = desk.script(desk.own_items());
        assert_eq!(desk.run(&script, "apply").0, Some(0));
        let foreign: Vec<&str> =
            (0..names.len()).filter(|n| chosen & (1 << n) != 0).map(|n| names[n]).collect();
        for name in &foreign {
            fs::write(desk.knob(name), "77\n").unwrap();
        }
        let (code, said) = desk.run(&script, "undo");
        assert_eq!(code, Some(i32::from(!foreign.is_empty())), "{said}");
        let mut left = differing(&before, &desk.picture());
        left.retain(|path| !path.ends_with("words"));
        let mut expected: Vec<String> =
            foreign.iter().map(|name| desk.knob(name).display().to_string()).collect();
        expected.sort();
        assert_eq!(left, expected, "{said}");
        for name in foreign {
            assert_eq!(fs::read_to_string(desk.knob(name)).unwrap(), "77\n");
        }
    }
}

#[test]
#[ignore = "needs root: the script does"]
fn root_a_host_that_is_not_as_planned_is_left_alone_and_failures_are_told() {
    let desk = Desk::new();
    let script = desk.script(desk.own_items());
    fs::write(desk.knob("swappiness"), "33\n").unwrap();
    fs::remove_file(desk.knob("list")).unwrap();
    let (code, said) = desk.run(&script, "apply");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("swappiness: 33, set by somebody else") && said.contains("GONE"));
    assert_eq!(fs::read_to_string(desk.knob("swappiness")).unwrap(), "33\n");
    assert!(!desk.knob("list").exists(), "a knob that is not there is not made");
    for wrong in ["", "x"] {
        assert_eq!(desk.run(&script, wrong).0, Some(2));
    }
}

#[test]
fn a_place_that_follows_another_comes_after_it_and_is_undone_before_it() {
    let mut items = vec![
        item(Slot::word("/max"), "90", "10"),
        item(Slot::word("/other"), "1", "2"),
        item(Slot::word("/min"), "50", "5"),
    ];
    items[0].follows = Some(Slot::word("/min"));
    let script = sh(&plan(items), "t");
    let moves: Vec<&str> =
        script.lines().filter_map(|l| l.strip_prefix("    move word ")).collect();
    let done = ["/min 50 5", "/other 1 2", "/max 90 10"];
    assert_eq!(moves, [done.as_slice(), &["/max 10 90", "/other 2 1", "/min 5 50"]].concat());
}

#[test]
fn what_a_script_cannot_do_is_said_in_it() {
    let bytes = |text: &str| Value::file(text, 0o644);
    let unset = |slot, after, state| Item { slot, after, state, optional: true, follows: None };
    let file = || Slot::File { path: "/etc/x".into() };
    let items = vec![
        unset(file(), bytes("no newline"), State::Change(Value::Absent)),
        unset(file(), bytes("two\n\n"), State::Change(Value::Absent)),
        unset(
            Slot::NextBoot { loader: Loader::SystemdBoot },
            Value::text("a"),
            State::Change(Value::Absent),
        ),
        unset(Slot::word("/a"), Value::text("1"), State::Stuck("the kernel manages it".into())),
        unset(Slot::word("/b"), Value::text("1"), State::Absent("no driver\nrm -rf /".into())),
    ];
    let mut plan = plan(items);
    let parameter = Parameter { name: "nohz_full".into(), value: Some("2-5".into()) };
    plan.boot = Some(boot::Proposed {
        parameters: vec![parameter.clone()],
        missing: vec![parameter],
        before: "quiet".into(),
        after: "quiet nohz_full=2-5".into(),
        conflicts: Vec::new(),
        places: Vec::new(),
    });
    let script = sh(&plan, "t");
    assert_eq!(script.matches("LEFT OUT").count(), 3, "{script}");
    for part in [
        "# /a: cannot be changed: the kernel manages it",
        "# /b: not here: no driver rm -rf /",
        "'NOT DONE the boot line, by hand: nohz_full=2-5'",
    ] {
        assert!(script.contains(part), "{part}: {script}");
    }
    let body = script.split("changes() {").nth(1).unwrap().split("\n}").next().unwrap();
    let code = body.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    assert_eq!(code.collect::<Vec<_>>(), [":"]);
}
