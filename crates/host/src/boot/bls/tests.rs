use std::fs;

use super::*;
use crate::boot::program;
use quietcore_sys::lease::LeaseError;

const ENTRY: &str = "title Fedora Linux (6.8)\nversion 6.8.5\nlinux /vmlinuz-6.8.5\ninitrd /initramfs-6.8.5.img $tuned_initrd\noptions root=UUID=1 ro $kernelopts\ngrub_users $grub_users\n";
const WANTED: &str = "isolcpus=managed_irq,domain,2-3 nohz_full=2-3";

struct Tree {
    folder: tempfile::TempDir,
    host: Host,
}

impl Tree {
    fn new() -> Self {
        let tree = Self { folder: tempfile::tempdir().unwrap(), host: Host::live() };
        for folder in ["entries", "etc"] {
            fs::create_dir(tree.folder.path().join(folder)).unwrap();
        }
        tree.put("entries/id-6.8.5.conf", ENTRY);
        tree.put("entries/id-6.8.4.conf", &ENTRY.replace("6.8.5", "6.8.4"));
        tree.put("entries/id-0-rescue.conf", &ENTRY.replace("6.8.5", "0-rescue"));
        tree.put("etc/cmdline", "root=UUID=1 ro quiet\n");
        tree.put("probe", "#!/bin/sh\ncase \"$*\" in *fs*) echo ext2;; esac\n");
        program::run("chmod", &["755", &tree.path("probe")], "").unwrap();
        program::run("grub-editenv", &[&tree.path("grubenv"), "create"], "").unwrap();
        tree.environment("saved_entry=id-6.8.5");
        tree.environment("kernelopts=quiet");
        tree
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn environment(&self, assignment: &str) {
        program::run("grub-editenv", &[&self.path("grubenv"), "set", assignment], "").unwrap();
    }

    fn bls(&self) -> Bls {
        Bls {
            folder: self.path("entries"),
            cmdline: self.path("etc/cmdline"),
            image: "(hd0,gpt2)/vmlinuz-6.8.4".to_owned(),
            release: "6.8.4".to_owned(),
            reader: Reader::Grub { environment: self.path("grubenv"), probe: self.path("probe") },
        }
    }

    /// A program that another test has just started holds our lock, too, until it runs.
    fn lease(&self) -> Lease {
        loop {
            match Lease::take(&self.folder.path().join("state"), "t", &self.host) {
                Err(LeaseError::Locked { .. }) => std::thread::yield_now(),
                taken => return taken.unwrap(),
            }
        }
    }

    fn stage(&mut self, keep: bool, wanted: &str) -> Result<(), BootError> {
        let (bls, mut lease) = (self.bls(), self.lease());
        let wanted = compose::parameters(wanted);
        match keep {
            false => bls.try_once(&mut lease, &mut self.host, &wanted),
            true => bls.keep(&mut lease, &mut self.host, &wanted),
        }
    }

    fn roll_back(&mut self) -> Option<Remade> {
        let (bls, mut lease) = (self.bls(), self.lease());
        let back = lease.take_back(&mut self.host, |_| true).unwrap();
        let wanted = compose::parameters(WANTED);
        let remade = bls.clean(&mut lease, &mut self.host, &wanted, &back).unwrap();
        assert!(lease.is_empty(), "{back:?}");
        lease.end().unwrap();
        remade
    }

    /// Every file's text.
    fn picture(&self) -> Vec<(String, String)> {
        let mut all = vec![("grubenv".to_owned(), self.read("grubenv"))];
        for folder in ["entries", "etc"] {
            for entry in fs::read_dir(self.path(folder)).unwrap() {
                let name = format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap());
                all.push((name.clone(), self.read(&name)));
            }
        }
        all.sort();
        all
    }
}

#[test]
#[ignore = "needs grub-common: cargo test -p quietcore-host --lib boot -- --ignored"]
fn root_a_trial_is_a_copy_of_the_running_kernels_entry_and_goes_without_a_trace() {
    let mut tree = Tree::new();
    let picture = tree.picture();
    tree.stage(false, WANTED).unwrap();
    let trial = tree.read("entries/quietcore-trial.conf");
    assert!(trial.contains("linux /vmlinuz-6.8.4\n"), "the kernel that runs: {trial}");
    assert!(trial.contains(&format!("options root=UUID=1 ro $kernelopts {WANTED}\n")), "{trial}");
    assert!(trial.contains("version 0\n") && !trial.contains("version 6.8"), "{trial}");
    assert!(tree.read("grubenv").contains("next_entry=quietcore-trial\n"));
    assert_eq!(tree.read("entries/id-6.8.4.conf"), ENTRY.replace("6.8.5", "6.8.4"));
    tree.environment("next_entry=");
    assert_eq!(tree.roll_back(), None);
    assert_eq!(tree.picture(), picture);
}

#[test]
#[ignore = "needs grub-common: cargo test -p quietcore-host --lib boot -- --ignored"]
fn root_what_is_kept_is_in_every_entry_but_the_rescue_and_for_kernels_to_come() {
    let mut tree = Tree::new();
    let picture = tree.picture();
    tree.stage(false, WANTED).unwrap();
    tree.stage(true, WANTED).unwrap();
    for name in ["entries/id-6.8.5.conf", "entries/id-6.8.4.conf"] {
        assert_eq!(tree.read(name).matches(&format!("kernelopts {WANTED}\n")).count(), 1);
    }
    assert!(!tree.read("entries/id-0-rescue.conf").contains("isolcpus"));
    assert_eq!(tree.read("etc/cmdline"), format!("root=UUID=1 ro quiet {WANTED}\n"));
    assert_eq!(compose::words(&tree.bls().own(&tree.host)), WANTED);
    let once = tree.picture();
    tree.stage(true, WANTED).unwrap();
    assert_eq!(tree.picture(), once, "a second time changes nothing");
    // A kernel that comes takes its parameters from /etc/kernel/cmdline.
    let new = ENTRY.replace("6.8.5", "6.9.0").replace("$kernelopts", &format!("quiet {WANTED}"));
    tree.put("entries/id-6.9.0.conf", &new);
    assert!(tree.roll_back().unwrap().done);
    assert_eq!(tree.read("entries/id-6.9.0.conf"), new.replace(&format!(" {WANTED}"), ""));
    fs::remove_file(tree.path("entries/id-6.9.0.conf")).unwrap();
    assert_eq!(tree.picture(), picture);
}

#[test]
#[ignore = "needs grub-common: cargo test -p quietcore-host --lib boot -- --ignored"]
fn root_a_trial_that_could_become_the_default_or_would_not_count_is_refused() {
    let mut tree = Tree::new();
    let refused = |tree: &mut Tree, says: &str| {
        let error = tree.stage(false, WANTED).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        tree.roll_back();
    };
    tree.environment("saved_entry=none");
    refused(&mut tree, "no default entry saved");
    tree.environment("saved_entry=id-6.8.5");
    tree.environment("kernelopts=quiet isolcpus=1");
    refused(&mut tree, "remove `isolcpus=1`");
    tree.environment("kernelopts=quiet");
    tree.put("entries/id-6.8.4.conf", &ENTRY.replace("ro", "ro nohz_full=1"));
    tree.put("entries/id-6.8.5.conf", ENTRY);
    refused(&mut tree, "no entry of");
    let name = "entries/id-6.8.4.conf";
    tree.put(name, &ENTRY.replace("6.8.5", "6.8.4").replace("ro ", "ro nohz_full=1 "));
    refused(&mut tree, "id-6.8.4.conf, line 5");
}

#[test]
fn words_go_into_the_first_options_and_out_again() {
    for text in ["options a b\noptions c\n", "linux /v\n", "options\tx\n", "linux /v\noptions x\n"]
    {
        let with = append(text, "isolcpus=2");
        assert_eq!(mark_of(&with), "isolcpus=2");
        assert_eq!(remove(&with, &compose::parameters("isolcpus=2")), text);
    }
    assert!(append("options a\noptions c\n", "x").starts_with("options a x\noptions c\n"));
    assert_eq!(of_key("options_x y", "options"), None);
}
