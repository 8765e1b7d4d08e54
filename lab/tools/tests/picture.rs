//! A picture notices whatever changes on a host, and says identical only of what it compared.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Files of a made host, one or more for each class that is taken of a folder.
const FILES: &[(&str, &str)] = &[
    ("etc/hosts", "127.0.0.1 localhost\n"),
    ("etc/sysctl.d/90-a.conf", "vm.swappiness = 1\n"),
    ("boot/grub/grub.cfg", "linux /vmlinuz isolcpus=2,3\n"),
    ("boot/grub/grubenv", "# GRUB Environment Block\nsaved_entry=0\n"),
    ("proc/sys/vm/swappiness", "60\n"),
    ("proc/sys/kernel/ns_last_pid", "17\n"),
    ("proc/irq/9/smp_affinity", "f\n"),
    ("proc/7/task/8/stat", STAT),
    ("proc/7/task/8/status", STATUS),
    ("proc/7/task/8/cgroup", "0::/a\n"),
    ("sys/fs/cgroup/a/cpuset.cpus", "0-3\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0\n"),
    ("sys/devices/virtual/workqueue/writeback/cpumask", "f\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
    ("sys/module/printk/parameters/time", "Y\n"),
];

const STAT: &str = "8 (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0 0 0 0 0 0 0 0 0 0 0 0 \
                    0 0 17 0 0 0 0 0 0\n";
const STATUS: &str = "Name:\ta) b\nTgid:\t7\nPid:\t8\nCpus_allowed_list:\t0-3\n\
                      Mems_allowed_list:\t0\n";

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn host() -> TempDir {
    let root = TempDir::new().unwrap();
    FILES.iter().for_each(|(file, text)| write(root.path(), file, text));
    symlink("hosts", root.path().join("etc/link")).unwrap();
    root
}

/// Runs `picture` and returns its exit code and stdout.
fn picture(args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_picture")).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().unwrap();
    (code, String::from_utf8(output.stdout).unwrap() + &said)
}

/// Compares the made host with itself after a change: exit code and the lines about what differs.
fn after(change: impl FnOnce(&Path)) -> (i32, Vec<String>) {
    let (root, out) = (host(), TempDir::new().unwrap());
    let files = ["a", "b"].map(|name| out.path().join(name).display().to_string());
    let take = |file: &str| {
        let root = root.path().to_str().unwrap();
        assert_eq!(picture(&["take", file, "--root", root]).0, 0);
    };
    take(&files[0]);
    change(root.path());
    take(&files[1]);
    let (code, text) = picture(&["compare", &files[0], &files[1]]);
    let differs = |line: &&str| [": was ", ": is new: "].iter().any(|part| line.contains(part));
    (code, text.lines().filter(differs).map(str::to_owned).collect())
}

#[test]
fn a_host_that_nobody_changed_is_identical() {
    assert_eq!(after(|_| ()), (0, vec![]));
    // Written again, and what changes by itself.
    let same = |root: &Path| {
        write(root, "etc/hosts", FILES[0].1);
        write(root, "proc/sys/kernel/ns_last_pid", "18\n");
        write(root, "boot/grub/grubenv", "# GRUB Environment Block\nsaved_entry=1\n");
    };
    assert_eq!(after(same), (0, vec![]));
}

#[test]
fn a_change_of_every_file_is_noticed() {
    for (file, text) in FILES {
        if ["grubenv", "ns_last_pid"].iter().any(|name| file.ends_with(name)) {
            continue;
        }
        let changed = match *file {
            "proc/7/task/8/stat" => text.replace(" 20 0 1 0 4711 ", " 20 -5 1 0 4711 "),
            "proc/7/task/8/status" => text.replace("0-3", "0-1"),
            _ => text.replace(char::is_alphanumeric, "2"),
        };
        let (code, differences) = after(|root| write(root, file, &changed));
        assert_eq!((code, differences.len()), (1, 1), "{file}: {differences:?}");
    }
}

#[test]
fn each_kind_of_change_to_a_file_is_noticed() {
    let expect = |change: fn(&Path), line: &str| {
        let (code, differences) = after(change);
        assert_eq!(code, 1, "{line}");
        assert_eq!(differences.len(), 1, "{differences:?}");
        assert!(differences[0].starts_with(line), "{differences:?}");
    };
    expect(|root| write(root, "etc/new", ""), "etc /etc/new: is new: file 100");
    expect(|root| fs::create_dir(root.join("etc/new")).unwrap(), "etc /etc/new: is new: folder");
    expect(|root| fs::remove_file(root.join("etc/hosts")).unwrap(), "etc /etc/hosts: was file");
    expect(
        |root| {
            let mode = fs::Permissions::from_mode(0o600);
            fs::set_permissions(root.join("boot/grub/grub.cfg"), mode).unwrap();
        },
        "boot /boot/grub/grub.cfg: was file 1006",
    );
    expect(
        |root| {
            fs::remove_file(root.join("etc/link")).unwrap();
            symlink("sysctl.d", root.join("etc/link")).unwrap();
        },
        "etc /etc/link: was link",
    );
    expect(
        |root| write(root, "boot/grub/grubenv", "next_entry=quietcore\n"),
        "boot-once /boot/grub/grubenv: was nothing, is quietcore",
    );
    expect(
        |root| fs::create_dir(root.join("sys/fs/cgroup/b")).unwrap(),
        "cgroup /sys/fs/cgroup/b: is new: a folder",
    );
}

#[test]
fn a_service_that_comes_and_goes_by_itself_is_no_difference() {
    let checked = |root: &Path| {
        write(root, "sys/fs/cgroup/system.slice/systemd-fsckd.service/cgroup.type", "domain");
    };
    // The slice is new, as this small root has none.
    assert_eq!(after(checked).1, ["cgroup /sys/fs/cgroup/system.slice: is new: a folder"]);
}

#[test]
fn a_thread_that_started_is_no_difference_and_without_any_in_common_nothing_is_proved() {
    let another = |root: &Path| {
        write(root, "proc/9/task/9/stat", &STAT.replace("4711", "4712"));
        write(root, "proc/9/task/9/status", &STATUS.replace("\t8", "\t9"));
        write(root, "proc/9/task/9/cgroup", "0::/b\n");
    };
    assert_eq!(after(another), (0, vec![]));
    let same_id = |root: &Path| {
        write(root, "proc/7/task/8/stat", &STAT.replace("4711", "4712"));
    };
    assert_eq!(after(same_id).0, 2);
}

#[test]
fn a_class_that_could_not_be_taken_again_fails_the_comparison() {
    let (code, differences) = after(|root| fs::remove_dir_all(root.join("proc/irq")).unwrap());
    assert_eq!((code, differences), (2, vec![]));
}

#[test]
fn pictures_of_nothing_prove_nothing() {
    let (root, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = out.path().join("a").display().to_string();
    assert_eq!(picture(&["take", &file, "--root", root.path().to_str().unwrap()]).0, 0);
    let (code, text) = picture(&["compare", &file, &file]);
    assert_eq!(code, 2);
    assert!(text.contains("nothing proved: 0 compared"), "{text}");
    fs::write(&file, "").unwrap();
    assert_eq!(picture(&["compare", &file, &file]).0, 2);
    fs::remove_file(&file).unwrap();
    assert_eq!(picture(&["compare", &file, &file]).0, 2);
}

/// Other programs change this host at will: only what is in a network namespace of our own is
/// looked at.
#[test]
#[ignore = "needs root (a namespace): cargo test -p quietcore-lab-tools --test picture -- --ignored"]
fn root_a_changed_sysctl_and_mtu_of_a_real_kernel_are_noticed_and_so_is_their_return() {
    let out = TempDir::new().unwrap();
    let script = "\
mount -t sysfs sysfs /sys
$PICTURE take a
echo 9 >/proc/sys/net/ipv4/ip_default_ttl
echo 1400 >/sys/class/net/lo/mtu
$PICTURE take b
$PICTURE compare a >now
echo 64 >/proc/sys/net/ipv4/ip_default_ttl
echo 65536 >/sys/class/net/lo/mtu
$PICTURE take c
$PICTURE compare a b >changed
$PICTURE compare a c >returned
true";
    let status = Command::new("unshare")
        .args(["--net", "--mount", "sh", "-c", script])
        .env("PICTURE", env!("CARGO_BIN_EXE_picture"))
        .current_dir(out.path())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    let read = |file: &str| fs::read_to_string(out.path().join(file)).unwrap();
    let (changed, now, returned) = (read("changed"), read("now"), read("returned"));
    for line in [
        "sysctl /proc/sys/net/ipv4/ip_default_ttl: was 64\\n, is 9\\n",
        "net /sys/class/net/lo/mtu: was 65536\\n, is 1400\\n",
    ] {
        assert!(changed.contains(line), "{changed}");
        assert!(now.contains(line), "{now}");
        assert!(!returned.contains(line.split(':').next().unwrap()), "{returned}");
    }
    assert!(returned.contains("sysctl: "), "{returned}");
}
