//! `quietcore plan`: it reads only, `apply` writes what it shows, and what it exports does the same.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod program;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use program::private::{POLICIES, Private};
use program::{quietcore, refuses, stderr, stdout};

/// Every system call that can change something besides the caller itself.
const CHANGING: &str = "trace=open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,\
    mkdir,mkdirat,rmdir,mknod,mknodat,link,linkat,symlink,symlinkat,mount,umount2,move_mount,\
    truncate,ftruncate,fallocate,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,utimensat,\
    setxattr,fsetxattr,lsetxattr,removexattr,ioctl,sched_setaffinity,sched_setscheduler,\
    sched_setattr,sched_setparam,setpriority,ioprio_set,kill,tkill,tgkill,bpf,reboot,sethostname,\
    init_module,finit_module,delete_module,swapon,swapoff,acct,settimeofday,clock_settime,adjtimex";

/// Asked of a terminal, and by the standard library of files: they change nothing.
const ASKING: [&str; 4] = ["TCGETS", "TIOCGWINSZ", "FIOCLEX", "SIOCETHTOOL"];

/// What a program did that changes something: `openat /path` or a whole line.
fn changes(trace: &Path) -> Vec<String> {
    let text = fs::read_to_string(trace).unwrap();
    assert!(text.lines().count() > 20, "strace has seen it at work: {text}");
    let mut all = Vec::new();
    for line in text.lines() {
        let call = line.split_once(' ').map_or(line, |(_, call)| call.trim_start());
        let Some((name, args)) = call.split_once('(') else { continue };
        let name = name.trim_start_matches("<... ");
        if name.starts_with("open") {
            let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_TMPFILE"];
            let path = args.split('"').nth(1).unwrap_or_default();
            if path != "/dev/null" && writes.iter().any(|flag| args.contains(flag)) {
                all.push(format!("open {path}"));
            }
        } else if name == "ioctl" {
            if !ASKING.iter().any(|word| args.contains(word)) {
                all.push(call.to_owned());
            }
        } else if !call.starts_with(['+', '-']) {
            all.push(call.to_owned());
        }
    }
    all
}

fn traced(host: &Private, args: &[&str]) -> Vec<String> {
    let trace = host.path("trace");
    let plain = host.quietcore(args);
    let words: Vec<_> = plain.get_args().map(ToOwned::to_owned).collect();
    let program = words.iter().position(|w| w == env!("CARGO_BIN_EXE_quietcore")).unwrap();
    let mut command = Command::new("unshare");
    command.args(&words[..program]);
    command.args(["strace", "-f", "-y", "-qq", "-e", "signal=none", "-e", CHANGING, "-o"]);
    let output = command.arg(&trace).args(&words[program..]).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    changes(&trace)
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test plan -- --ignored"]
fn root_plan_writes_nothing_and_apply_writes_what_plan_shows() {
    let host = Private::new();
    let before = host.picture();
    assert_eq!(traced(&host, &["plan"]), Vec::<String>::new());
    assert_eq!(traced(&host, &["plan", "--as", "sh"]), Vec::<String>::new());
    assert_eq!(host.picture(), before);

    let run = program::run(&mut host.quietcore(&["plan", "--format", "json", "--verbose"]), 1);
    let shown = shown(&run);
    assert_eq!(shown.len(), POLICIES + 2);
    let own = host.state().display().to_string();
    let written = traced(&host, &["apply"]);
    let opened: BTreeSet<String> = written
        .iter()
        .filter_map(|call| call.strip_prefix("open "))
        .filter(|path| !path.starts_with(&own))
        .map(str::to_owned)
        .collect();
    assert_eq!(opened, shown);
    // The rest is the journal's: nothing is renamed, removed or made elsewhere.
    for call in written.iter().filter(|call| !call.starts_with("open ")) {
        assert!(call.contains(&own), "{call}");
    }
}

/// The places of a plan that would change, a line of many places taken apart.
fn shown(run: &serde_json::Value) -> BTreeSet<String> {
    let places = program::private::column(run, "plan", "place");
    places.iter().flat_map(|place| unfold(place)).collect()
}

/// `/sys/…/policy{0-39}/x`, as tables fold it.
fn unfold(place: &str) -> Vec<String> {
    let parts = place.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)));
    let Some((head, (list, tail))) = parts else { return vec![place.to_owned()] };
    let numbers = quietcore_measure::CpuSet::parse_list(list).unwrap();
    numbers.iter().map(|number| format!("{head}{number}{tail}")).collect()
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test plan -- --ignored"]
fn root_the_script_of_a_plan_does_what_apply_does_and_undoes_it() {
    let (by_script, by_apply) = (Private::new(), Private::new());
    let before = by_script.picture();
    let script = by_script.path("tune.sh");
    let mut export = by_script.quietcore(&["plan", "--as", "sh", "-o"]);
    assert_eq!(stdout(export.arg(&script), 0), "");
    let shell = |verb| stdout(by_script.command("sh").arg(&script).arg(verb), 0);
    let said = shell("apply");
    assert_eq!(said.matches("changed").count(), POLICIES + 2, "{said}");
    by_apply.apply();
    assert_eq!(by_script.picture(), by_apply.picture());
    assert_ne!(by_script.picture(), before);
    shell("undo");
    assert_eq!(by_script.picture(), before);
}

#[test]
#[ignore = "needs root (a mount namespace): cargo test -p quietcore-cli --test plan -- --ignored"]
fn root_the_playbook_checks_without_writing_then_applies_verifies_and_confirms() {
    let host = Private::new();
    let book = host.path("tune.yml");
    stdout(host.quietcore(&["plan", "--as", "ansible", "--runtime-only", "-o"]).arg(&book), 0);
    let settings = serde_json::json!({
        "ansible_become": false,
        "ansible_python_interpreter": "/usr/bin/python3",
        "quietcore": env!("CARGO_BIN_EXE_quietcore"),
        "state": host.state(),
        "profile_file": host.path("fleet/fleet.toml"),
    });
    let settings = settings.to_string();
    let play = |args: &[&str]| {
        let mut command = host.command("ansible-playbook");
        command.args(["-i", "localhost,", "-c", "local", "-e", &settings]).args(args).arg(&book);
        command.env("ANSIBLE_LOCAL_TEMP", host.path("ansible")).env("HOME", host.path("home"));
        stdout(&mut command, 0)
    };
    fs::create_dir(host.path("home")).unwrap();
    play(&["--syntax-check"]);
    let before = host.picture();
    let said = play(&["--check"]);
    assert!(said.contains("/proc/sys/vm/swappiness") && said.contains("changed=1"), "{said}");
    assert_eq!(host.picture(), before);
    assert!(!host.state().exists() && !host.path("fleet").exists());
    let said = play(&[]);
    assert!(said.contains("failed=0"), "{said}");
    assert_eq!(host.read("swappiness"), "10");
    let status = program::run(&mut host.quietcore(&["status", "--format", "json"]), 0);
    assert_eq!(program::private::column(&status, "status", "state"), ["in force"]);
    let again = play(&[]);
    assert!(again.contains("changed=0"), "{again}");
    host.rollback(0);
    assert_eq!(host.picture(), before);
}

#[test]
fn an_export_is_no_finding_and_takes_no_format() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/hosts");
    let host = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path().join("host.json");
    let root = host.to_str().unwrap();
    for (form, first) in [("sh", "#!/bin/sh\n# Profile low-latency"), ("ansible", "---\n")] {
        let text = stdout(&mut quietcore(&["plan", "--root", root, "--as", form]), 0);
        assert!(text.starts_with(first), "{text}");
    }
    refuses(&mut quietcore(&["plan", "--as", "sh", "--format", "json"]), 2, &["--as", "--format"]);
}
