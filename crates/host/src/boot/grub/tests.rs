use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::*;
use quietcore_sys::lease::Outcome;

const OLD: &str = "6.1.0-1-amd64";
const NEW: &str = "6.1.0-2-amd64";

/// The distribution's own grub-mkconfig, grub-mkconfig_lib and 10_linux on a made-up root.
struct Root {
    folder: tempfile::TempDir,
    host: Host,
}

impl Root {
    fn new(linux: &str) -> Self {
        let root = Self { folder: tempfile::tempdir().unwrap(), host: Host::live() };
        for folder in ["etc/grub.d", "etc/default", "boot/grub", "share"] {
            fs::create_dir_all(root.path(folder)).unwrap();
        }
        for kernel in [OLD, NEW] {
            root.install_kernel(kernel);
        }
        root.script("probe", PROBE);
        root.script("mkrelpath", "#!/bin/sh\nprintf '%s\\n' \"${1#*/boot}\" | sed 's,^,/boot,'\n");
        let top = root.folder.path().display().to_string();
        let moved = |text: String| {
            text.replace("\"/etc\"", &format!("\"{top}/etc\""))
                .replace(" /boot/", &format!(" {top}/boot/"))
                .replace("\"${sbindir}/grub-probe\"", &format!("\"{top}/probe\""))
                .replace("\"${bindir}/grub-mkrelpath\"", &format!("\"{top}/mkrelpath\""))
                .replace("pkgdatadir=\"${datadir}/grub\"", &format!("pkgdatadir={top}/share"))
        };
        let real = |path: &str| moved(fs::read_to_string(path).unwrap());
        root.script("mkconfig", &real("/usr/sbin/grub-mkconfig"));
        root.script("share/grub-mkconfig_lib", &real("/usr/share/grub/grub-mkconfig_lib"));
        root.script("etc/grub.d/00_header", HEADER);
        let linux = if linux.is_empty() { real("/etc/grub.d/10_linux") } else { linux.to_owned() };
        root.script("etc/grub.d/10_linux", &linux);
        root.script("etc/grub.d/41_custom", "#!/bin/sh\necho '# of the user'\n");
        root.configure(
            "GRUB_CMDLINE_LINUX=\"console=ttyS0\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n",
        );
        root.update_grub();
        let environment = root.path("boot/grub/grubenv").display().to_string();
        program::run("grub-editenv", &[&environment, "create"], "").unwrap();
        root
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn script(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn configure(&self, text: &str) {
        fs::write(self.path("etc/default/grub"), text).unwrap();
    }

    fn install_kernel(&self, release: &str) {
        for file in ["vmlinuz", "initrd.img"] {
            fs::write(self.path(&format!("boot/{file}-{release}")), "x").unwrap();
        }
    }

    /// As the distribution does after a kernel was installed.
    fn update_grub(&self) {
        let grub = self.grub();
        program::run(&grub.mkconfig, &["-o", &grub.menu], "").unwrap();
    }

    fn grub(&self) -> Grub {
        let path = |path: &str| self.path(path).display().to_string();
        Grub {
            menu: path("boot/grub/grub.cfg"),
            image: format!("/boot/vmlinuz-{OLD}"),
            scripts: path("etc/grub.d"),
            defaults: path("etc/default/grub"),
            mkconfig: path("mkconfig"),
            script_check: find(&["grub-script-check"]).unwrap(),
            probe: path("probe"),
        }
    }

    /// A program that another test has just started holds our lock, too, until it runs.
    fn lease(&self) -> Lease {
        loop {
            match Lease::take(&self.path("state"), "t", &self.host) {
                Err(lease::LeaseError::Locked { .. }) => std::thread::yield_now(),
                taken => return taken.unwrap(),
            }
        }
    }

    fn menu(&self) -> String {
        fs::read_to_string(self.path("boot/grub/grub.cfg")).unwrap()
    }

    fn next(&self) -> Value {
        self.host.look(&self.grub().next()).unwrap()
    }

    fn stage(&mut self, keep: bool, wanted: &str) -> Result<(), BootError> {
        let (grub, mut lease) = (self.grub(), self.lease());
        let wanted = compose::parameters(wanted);
        match keep {
            false => grub.try_once(&mut lease, &mut self.host, &wanted),
            true => grub.keep(&mut lease, &mut self.host, &wanted),
        }
    }

    fn trial(&mut self, wanted: &str) -> Result<(), BootError> {
        self.stage(false, wanted)
    }

    fn keep(&mut self, wanted: &str) -> Result<(), BootError> {
        self.stage(true, wanted)
    }

    /// What GRUB does to its environment when it boots the entry.
    fn boot(&self) {
        let environment = self.grub().environment();
        program::run("grub-editenv", &[&environment, "set", "next_entry="], "").unwrap();
    }

    fn roll_back(&mut self, wanted: &str) -> (Vec<TakenBack>, Option<Remade>) {
        let (grub, mut lease) = (self.grub(), self.lease());
        let back = lease.take_back(&mut self.host, |_| true).unwrap();
        let wanted = compose::parameters(wanted);
        let menu = grub.clean(&mut lease, &mut self.host, &wanted, &back).unwrap();
        assert!(lease.is_empty(), "{back:?}");
        lease.end().unwrap();
        (back, menu)
    }

    /// Every file with its bytes, mode and owner, the journal aside.
    fn picture(&self) -> Picture {
        fn walk(folder: &Path, all: &mut Picture) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let mode = fs::metadata(&path).unwrap().permissions().mode();
                if path.is_dir() {
                    all.push((path.clone(), mode, Vec::new()));
                    walk(&path, all);
                } else {
                    all.push((path.clone(), mode, fs::read(&path).unwrap()));
                }
            }
        }
        let mut all = Vec::new();
        walk(&self.path("etc"), &mut all);
        walk(&self.path("boot"), &mut all);
        all.sort();
        all
    }

    fn assert_is(&self, picture: &Picture, when: &str) {
        let now = self.picture();
        let differ = |a: &Picture, b: &Picture| -> Vec<PathBuf> {
            a.iter().filter(|file| !b.contains(file)).map(|(path, ..)| path.clone()).collect()
        };
        let (gone, new) = (differ(picture, &now), differ(&now, picture));
        assert!(gone.is_empty() && new.is_empty(), "{when}: {gone:?} became {new:?}");
    }

    fn lines(&self, part: &str) -> Vec<String> {
        let entries = menu::entries(part);
        entries.into_iter().filter(|e| !e.is_recovery()).map(|e| e.line).collect()
    }
}

/// Path, mode and bytes of each file.
type Picture = Vec<(PathBuf, u32, Vec<u8>)>;

const PROBE: &str = "#!/bin/sh\ncase \"$*\" in\n*abstraction*) ;;\n*target=fs*|*'target fs '*) echo ext2 ;;\n*=device*) echo /dev/vda1 ;;\n*uuid*) echo 1234-5678 ;;\n*) echo x ;;\nesac\n";
const HEADER: &str = "#!/bin/sh\necho 'function load_video {'\necho '  insmod all_video'\necho '}'\necho 'if [ \"${next_entry}\" ]; then'\necho '  set default=\"${next_entry}\"'\necho 'fi'\n";
const WANTED: &str = "isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3";

#[test]
#[ignore = "needs root and grub-common: cargo test -p quietcore-host --lib boot -- --ignored"]
fn root_a_trial_adds_one_submenu_with_every_parameter_and_leaves_every_other_byte() {
    let mut root = Root::new("");
    let (before, picture) = (root.menu(), root.picture());
    root.trial(WANTED).unwrap();
    let grub = root.grub();
    let after = root.menu();
    assert_eq!(menu::without(&after, &grub.script()), before);
    let section = menu::section(&after, &grub.script()).unwrap();
    assert!(!section.contains("function "), "{section}");
    for line in root.lines(section) {
        assert!(line.ends_with(&format!("console=ttyS0 {WANTED} quiet")), "{line}");
    }
    assert_eq!(menu::entries(section).len(), 5, "two kernels, one on top, two for recovery");
    // The kernel that runs is the older one: in the submenu of the submenu.
    assert_eq!(root.next(), Value::text("quietcore-trial>1>2"));
    assert_eq!(menu::entries(section)[3].place, "0>1>2");
    root.update_grub();
    assert_eq!(root.menu(), after, "the same as update-grub makes");
    root.trial(WANTED).unwrap();
    assert_eq!(root.menu(), after, "a second time changes nothing");
    root.boot();
    let (back, remade) = root.roll_back(WANTED);
    assert!(back.iter().all(|b| !matches!(b.outcome, Outcome::Kept { .. })), "{back:?}");
    assert_eq!(remade, None);
    root.assert_is(&picture, "at the end");
}

#[test]
#[ignore = "needs root and grub-common: cargo test -p quietcore-host --lib boot -- --ignored"]
fn root_what_is_kept_is_in_every_entry_once_and_goes_again_to_the_byte() {
    let mut root = Root::new("");
    let picture = root.picture();
    root.trial(WANTED).unwrap();
    root.boot();
    root.keep(WANTED).unwrap();
    let grub = root.grub();
    assert!(!Path::new(&grub.script()).exists());
    assert_eq!(compose::words(&grub.own(&root.host)), WANTED);
    let lines = root.lines(&root.menu());
    assert_eq!(lines.len(), 3);
    for line in &lines {
        assert!(line.ends_with(&format!("console=ttyS0 {WANTED} quiet")), "{line}");
    }
    let kept = root.menu();
    root.update_grub();
    assert_eq!(root.menu(), kept, "the same as update-grub makes");
    // Other CPUs: the trial has the new ones only, the old line stays the default.
    let other = WANTED.replace("2-3", "1");
    root.trial(&other).unwrap();
    let menu = root.menu();
    let section = menu::section(&menu, &grub.script()).unwrap();
    assert!(root.lines(section).iter().all(|l| l.contains(&other) && !l.contains("2-3")));
    assert_eq!(menu::without(&menu, &grub.script()), kept);
    root.keep(&other).unwrap();
    assert!(root.lines(&root.menu()).iter().all(|l| l.contains(&other) && !l.contains("2-3")));
    assert_eq!(root.roll_back(&other).1, None);
    root.assert_is(&picture, "at the end");
}

#[test]
#[ignore = "needs root and grub-common: cargo test -p quietcore-host --lib boot -- --ignored"]
fn root_a_kernel_that_comes_meanwhile_stays_and_nothing_of_ours_does() {
    for kept in [false, true] {
        let mut root = Root::new("");
        root.trial(WANTED).unwrap();
        if kept {
            root.keep(WANTED).unwrap();
        }
        root.install_kernel("6.1.0-3-amd64");
        root.update_grub();
        assert!(root.menu().contains("isolcpus="));
        if kept {
            // What is put back later has the new kernel in it.
            root.trial(&WANTED.replace("2-3", "1")).unwrap();
        }
        let (_, remade) = root.roll_back(WANTED);
        assert!(remade.unwrap().done);
        let menu = root.menu();
        assert!(!menu.contains("isolcpus=") && !menu.contains("quietcore"), "{menu}");
        assert!(menu.contains("vmlinuz-6.1.0-3-amd64"));
    }
}

#[test]
#[ignore = "needs root and grub-common: cargo test -p quietcore-host --lib boot -- --ignored"]
fn root_what_the_user_has_given_is_refused_with_its_place_or_counted_once() {
    let mut root = Root::new("");
    root.configure("# x\nGRUB_CMDLINE_LINUX=\"console=ttyS0 isolcpus=1\"\n");
    root.update_grub();
    let error = root.trial(WANTED).unwrap_err();
    let BootError::Conflict { taken, place, .. } = &error else { panic!("{error}") };
    assert_eq!(taken, "isolcpus=1");
    assert!(place.ends_with("etc/default/grub, line 2"), "{place}");
    root.roll_back(WANTED);
    root.configure("GRUB_CMDLINE_LINUX_DEFAULT=\"nohz_full=2-3 rcu_nocbs=2-3\"\n");
    root.update_grub();
    let picture = root.picture();
    root.trial(WANTED).unwrap();
    root.keep(WANTED).unwrap();
    for line in root.lines(&root.menu()) {
        assert_eq!(line.matches("nohz_full=2-3").count(), 1, "{line}");
        assert!(line.contains("isolcpus="), "{line}");
    }
    root.roll_back(WANTED);
    root.assert_is(&picture, "at the end");
}

#[test]
#[ignore = "needs root and grub-common: cargo test -p quietcore-host --lib boot -- --ignored"]
fn root_what_goes_wrong_leaves_the_old_menu() {
    let mut root = Root::new("");
    let picture = root.picture();
    let refused = |root: &mut Root, wanted: &str| {
        let error = root.trial(wanted).unwrap_err().to_string();
        root.roll_back(wanted);
        error
    };
    for (case, says) in [
        ("*abstraction*) echo lvm ;;", "cannot write to"),
        ("*abstraction*) exit 1 ;;", "exit status: 1"),
        ("*'target fs '*) echo btrfs ;;\n*abstraction*) ;;", "on btrfs"),
    ] {
        root.script("probe", &PROBE.replace("*abstraction*) ;;", case));
        let error = refused(&mut root, WANTED);
        assert!(error.contains(says), "{error}");
    }
    root.script("probe", PROBE);
    let linux = fs::read_to_string(root.path("etc/grub.d/10_linux")).unwrap();
    let fails = "#!/bin/sh\ncase $GRUB_CMDLINE_LINUX in *isolcpus*) echo half; exit 7;; esac\n";
    root.script("etc/grub.d/10_linux", fails);
    let error = refused(&mut root, WANTED);
    assert!(error.contains("mkconfig: exit status"), "{error}");
    root.script("etc/grub.d/10_linux", "#!/bin/sh\necho 'menuentry x {'\n");
    let error = refused(&mut root, WANTED);
    assert!(error.contains("grub-script-check"), "{error}");
    root.script("etc/grub.d/10_linux", &linux);
    root.assert_is(&picture, "at the end");
}

#[test]
#[ignore = "needs root and grub-common: cargo test -p quietcore-host --lib boot -- --ignored"]
fn root_a_menu_that_is_not_what_is_configured_is_not_made_anew_by_the_way() {
    let mut root = Root::new("");
    root.trial(WANTED).unwrap();
    let picture = root.picture();
    fs::remove_file(root.path(&format!("boot/vmlinuz-{NEW}"))).unwrap();
    let error = root.keep(WANTED).unwrap_err();
    assert!(matches!(error, BootError::Stale { .. }), "{error}");
    root.install_kernel(NEW);
    root.assert_is(&picture, "the trial goes on");
    fs::write(root.path("boot/grub/grub.cfg"), "menuentry x {\n}\n").unwrap();
    let error = root.keep(WANTED).unwrap_err().to_string();
    assert!(error.contains("not made by grub-mkconfig"), "{error}");
}

/// Every moment of a trial that was kept, as the journal tells of it: what stands in it is there,
/// and the next write is done or is not. From each of them everything comes back.
#[test]
#[ignore = "needs root and grub-common: cargo test -p quietcore-host --lib boot -- --ignored"]
fn root_ended_after_any_step_everything_comes_back() {
    let mut root = Root::new("");
    let picture = root.picture();
    root.trial(WANTED).unwrap();
    root.keep(WANTED).unwrap();
    let journal = fs::read_to_string(root.path("state/t.lease")).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    let mut moments = 0;
    for whole in 1..=lines.len() {
        for ahead in 0..=1 {
            restore(&root, &picture);
            let mut slots: Vec<(Slot, Value)> = Vec::new();
            for (number, line) in lines[..(whole + ahead).min(lines.len())].iter().enumerate() {
                replay(&root, line, &mut slots, number < whole);
            }
            fs::write(root.path("state/t.lease"), lines[..whole].concat()).unwrap();
            program::run(&root.grub().script_check, &[], &root.menu()).unwrap();
            root.roll_back(WANTED);
            root.assert_is(&picture, &format!("line {whole} and {ahead}"));
            moments += 1;
        }
    }
    assert!(moments > 20, "{moments}");
}

/// Does what a line of the journal says was done before it was written.
fn replay(root: &Root, line: &str, slots: &mut Vec<(Slot, Value)>, noted: bool) {
    let json = &line[line.find('{').unwrap()..];
    let record: serde_json::Value = serde_json::from_str(json).unwrap();
    let of = |value: &serde_json::Value| serde_json::from_value::<Value>(value.clone()).unwrap();
    for entry in record["before"].as_array().into_iter().flatten() {
        let slot = serde_json::from_value(entry["slot"].clone()).unwrap();
        slots.push((slot, of(&entry["before"])));
    }
    if let Some(set) = record["set"].as_array() {
        give(root, &slots[usize::try_from(set[0].as_u64().unwrap()).unwrap()].0, &of(&set[1]));
    }
    // Taken back all together before the line is written: the last of them only, if it is not.
    let void: Vec<_> = record["void"].as_array().into_iter().flatten().collect();
    for number in if noted { &void[..] } else { &void[..void.len().min(1)] } {
        let (slot, before) = &slots[usize::try_from(number.as_u64().unwrap()).unwrap()];
        give(root, slot, before);
    }
}

fn give(root: &Root, slot: &Slot, value: &Value) {
    match (slot, value) {
        (Slot::File { path }, Value::File(content)) => {
            fs::write(path, &content.bytes.0).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(content.mode)).unwrap();
        }
        (Slot::File { path }, _) => fs::remove_file(path).unwrap_or_default(),
        (Slot::Folder { path }, Value::Absent) => fs::remove_dir(path).unwrap_or_default(),
        (Slot::Folder { path }, _) => fs::create_dir_all(path).unwrap(),
        (_, value) => {
            let environment = root.grub().environment();
            let word = value.as_text().map(|text| format!("next_entry={text}"));
            let args = match &word {
                Some(word) => [environment.as_str(), "set", word],
                None => [environment.as_str(), "unset", "next_entry"],
            };
            program::run("grub-editenv", &args, "").unwrap();
        }
    }
}

fn restore(root: &Root, picture: &Picture) {
    let own = [root.grub().script(), root.grub().drop_in()];
    own.iter().for_each(|path| fs::remove_file(path).unwrap_or_default());
    fs::remove_dir(root.grub().drop_ins()).unwrap_or_default();
    for (path, mode, bytes) in picture.iter().filter(|(path, ..)| path.is_file()) {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777)).unwrap();
    }
}
