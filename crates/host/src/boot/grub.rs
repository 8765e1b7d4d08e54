//! GRUB with a menu that grub-mkconfig makes: Debian, Ubuntu and their kin.
//!
//! On trial, a script of ours in /etc/grub.d makes the entries of 10_linux a second time, with the
//! parameters, in a submenu; GRUB takes one of them at the next boot only. Kept, a drop-in of ours
//! for /etc/default/grub adds the parameters, so that the entries of kernels to come have them,
//! too. No file of the user is edited. The menu is made and checked first, then written whole.

use std::path::Path;

use quietcore_sys::Host;
use quietcore_sys::lease::{self, Change, Lease, Slot, TakenBack, Value};

use super::compose::{self, Conflict};
use super::program::{self, find};
use super::{BootError, Remade, content, files, menu, settle};
use crate::knobs::Parameter;

/// The id of our submenu.
pub(super) const TRIAL: &str = "quietcore-trial";
/// Our script's name: behind those of the distribution and of the user.
const SCRIPT: &str = "42_quietcore";
/// Our drop-in's name.
const DROP_IN: &str = "quietcore.cfg";
const DROP_IN_HEAD: &str = "# Made by quietcore; `quietcore rollback` removes it.\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX ";

/// GRUB's files and programs.
#[derive(Clone, Debug)]
pub(super) struct Grub {
    /// `/boot/grub/grub.cfg`.
    pub menu: String,
    /// `/etc/grub.d`.
    pub scripts: String,
    /// `/etc/default/grub`; drop-ins lie beside it, in `grub.d`.
    pub defaults: String,
    /// What the running kernel was loaded from, as GRUB saw it.
    pub image: String,
    pub mkconfig: String,
    pub script_check: String,
    pub probe: String,
}

impl Grub {
    /// GRUB whose menu is this file.
    pub(super) fn of(menu: &str, image: String) -> Result<Self, BootError> {
        let either = |name: &str| find(&[&format!("grub-{name}"), &format!("grub2-{name}")]);
        Ok(Self {
            menu: menu.to_owned(),
            image,
            scripts: "/etc/grub.d".to_owned(),
            defaults: "/etc/default/grub".to_owned(),
            mkconfig: either("mkconfig")?,
            script_check: either("script-check")?,
            probe: either("probe")?,
        })
    }

    fn script(&self) -> String {
        format!("{}/{SCRIPT}", self.scripts)
    }

    fn drop_ins(&self) -> String {
        format!("{}.d", self.defaults)
    }

    fn drop_in(&self) -> String {
        format!("{}/{DROP_IN}", self.drop_ins())
    }

    fn environment(&self) -> String {
        super::beside(&self.menu, "grubenv")
    }

    fn next(&self) -> Slot {
        Slot::NextBoot { loader: lease::Loader::Grub { environment: self.environment() } }
    }

    fn linux(&self) -> String {
        format!("{}/10_linux", self.scripts)
    }

    /// What is written on trial.
    pub(super) fn places(&self) -> Vec<String> {
        vec![self.script(), self.menu.clone(), self.environment()]
    }

    /// What our drop-in adds.
    pub(super) fn own(&self, host: &Host) -> Vec<Parameter> {
        let text = content(host, &self.drop_in()).map(|(text, _)| text).unwrap_or_default();
        let words = text.strip_prefix(DROP_IN_HEAD).and_then(|rest| rest.strip_suffix("\"\n"));
        compose::parameters(words.unwrap_or_default())
    }

    /// Offers the parameters as an entry that is booted once.
    pub(super) fn try_once(
        &self,
        lease: &mut Lease,
        host: &mut Host,
        wanted: &[Parameter],
    ) -> Result<(), BootError> {
        self.reads_drop_ins()?;
        super::can_be_cleared(&self.probe, &self.menu)?;
        settle(lease, host, &Slot::File { path: self.menu.clone() })?;
        let (old, _) = self.menu_now(host)?;
        let own = self.own(host);
        let added = compose::lacking(&self.users_line(&old, &own), wanted);
        let script = Slot::File { path: self.script() };
        let text = trial_script(&own, &added);
        lease.change(host, &[change(script, Value::file(text, 0o755))])?;
        let made = self.make()?;
        let section = menu::section(&made, &self.script())
            .ok_or_else(|| BootError::Unfit("grub-mkconfig made no entry on trial".to_owned()))?;
        let entries = menu::entries(section);
        let ordinary = || entries.iter().filter(|entry| !entry.is_recovery());
        // The kernel that runs now, so that one thing changes at a time.
        let entry = ordinary().find(|entry| entry.boots(&self.image)).or(ordinary().next());
        let entry = entry
            .ok_or_else(|| BootError::Unfit("10_linux makes no entry for a kernel".to_owned()))?;
        self.has_all(host, ordinary(), wanted)?;
        let new = menu::with(&old, &self.script(), section);
        // Ours lies within the submenu, which is the only entry of the section.
        let place = entry.place.split_once('>').map_or("0", |(_, within)| within);
        let next = Value::text(format!("{TRIAL}>{place}"));
        let next = Change { slot: self.next(), want: next, optional: false };
        self.write_menu(lease, host, new, Some(next))
    }

    /// Makes the parameters those of every boot.
    pub(super) fn keep(
        &self,
        lease: &mut Lease,
        host: &mut Host,
        wanted: &[Parameter],
    ) -> Result<(), BootError> {
        self.reads_drop_ins()?;
        settle(lease, host, &Slot::File { path: self.menu.clone() })?;
        let drop_in = Slot::File { path: self.drop_in() };
        let earlier = content(host, &self.drop_in()).ok();
        let done = self.keep_or_fail(lease, host, wanted);
        if done.is_err() {
            let live = earlier.filter(|_| lease.entries().any(|entry| entry.slot == drop_in));
            if let Some((text, _)) = live {
                lease.change(host, &[change(drop_in, Value::file(text, 0o644))])?;
            } else {
                let folder = self.drop_ins();
                lease.take_back(host, |entry| {
                    entry.slot == drop_in || entry.slot.path() == Some(&folder)
                })?;
            }
            return done;
        }
        let (script, next) = (self.script(), self.next());
        lease.take_back(host, |entry| entry.slot.path() == Some(&script) || entry.slot == next)?;
        Ok(())
    }

    fn keep_or_fail(
        &self,
        lease: &mut Lease,
        host: &mut Host,
        wanted: &[Parameter],
    ) -> Result<(), BootError> {
        let (old, _) = self.menu_now(host)?;
        let own = self.own(host);
        let added = compose::lacking(&self.users_line(&old, &own), wanted);
        let text = format!("{DROP_IN_HEAD}{}\"\n", compose::words(&added));
        let folder = Slot::Folder { path: self.drop_ins() };
        let drop_in = Slot::File { path: self.drop_in() };
        lease.change(
            host,
            &[change(folder, Value::folder()), change(drop_in, Value::file(text, 0o644))],
        )?;
        let made = self.make()?;
        let new = menu::without(&made, &self.script());
        let entries = menu::entries(menu::section(&new, &self.linux()).unwrap_or_default());
        self.has_all(host, entries.iter().filter(|entry| !entry.is_recovery()), wanted)?;
        let both: Vec<Parameter> = own.iter().chain(&added).cloned().collect();
        let old = menu::without(&old, &self.script());
        let plain = |line: &str| compose::without(line, &both);
        if let Some(line) = menu::difference(&old, &new, plain) {
            return Err(BootError::Stale { menu: self.menu.clone(), line });
        }
        self.write_menu(lease, host, new, None)
    }

    /// After everything was taken back: if what is left of us in the menu goes when it is made
    /// anew, it is.
    pub(super) fn clean(
        &self,
        lease: &mut Lease,
        host: &mut Host,
        wanted: &[Parameter],
        back: &[TakenBack],
    ) -> Result<Option<Remade>, BootError> {
        let slot = Slot::File { path: self.menu.clone() };
        let Ok((old, _)) = self.menu_now(host) else { return Ok(None) };
        let ours = menu::section(&old, &self.script()).is_some();
        let was_kept = back.iter().any(|place| place.slot.path() == Some(&self.drop_in()));
        let left = traces(&old, wanted);
        if !ours && (!was_kept || left.is_empty()) {
            return Ok(None);
        }
        let remade = |what, done| Ok(Some(Remade { what, done }));
        let hint = |why| {
            format!(
                "{} still has parameters of ours ({why}): make it anew with {}",
                self.menu, self.mkconfig
            )
        };
        let new = match self.make() {
            Ok(new) => new,
            Err(error) => return remade(hint(error.to_string()), false),
        };
        if !ours && traces(&new, wanted) == left {
            return Ok(None);
        }
        let live = lease.entries().any(|entry| entry.slot == slot);
        self.write_menu(lease, host, new, None)?;
        if !live {
            lease.release(|entry| entry.slot == slot)?;
        }
        let why = "somebody else had changed it since, with our parameters in it";
        remade(format!("{} was made anew: {why}", self.menu), true)
    }

    /// The parameters of the entries without ours, for those that are there already.
    fn users_line(&self, menu: &str, own: &[Parameter]) -> String {
        let part = menu::section(menu, &self.linux()).unwrap_or_default();
        let entries = menu::entries(part);
        let first = entries.iter().find(|entry| !entry.is_recovery());
        compose::without(first.map_or("", |entry| &entry.line), own)
    }

    fn has_all<'a>(
        &self,
        host: &Host,
        entries: impl Iterator<Item = &'a menu::Entry>,
        wanted: &[Parameter],
    ) -> Result<(), BootError> {
        let mut any = false;
        for entry in entries {
            any = true;
            if let Some(conflict) = compose::conflict(&entry.line, wanted) {
                return Err(self.refusal(host, &conflict));
            }
        }
        let none = || BootError::Unfit("10_linux makes no entry for a kernel".to_owned());
        any.then_some(()).ok_or_else(none)
    }

    fn refusal(&self, host: &Host, conflict: &Conflict) -> BootError {
        let place = self.stands(host, &conflict.taken);
        let Conflict { wanted, taken } = conflict.clone();
        BootError::Conflict { wanted, taken, place }
    }

    /// The file and line in which a word of the user stands.
    pub(super) fn stands(&self, host: &Host, word: &str) -> String {
        let folder = self.drop_ins();
        let mut all = vec![self.defaults.clone()];
        let names = host.list(&folder).unwrap_or_default();
        let others = names.iter().filter(|name| name.ends_with(".cfg") && *name != DROP_IN);
        all.extend(others.map(|name| format!("{folder}/{name}")));
        files::line_of(host, &all, word).unwrap_or_else(|| format!("{} or {folder}", self.defaults))
    }

    /// The menu, if grub-mkconfig made it.
    fn menu_now(&self, host: &Host) -> Result<(String, lease::Content), BootError> {
        let (text, content) = content(host, &self.menu)?;
        match menu::section(&text, &self.linux()) {
            Some(_) => Ok((text, content)),
            None => Err(BootError::Unfit(format!(
                "{} was not made by grub-mkconfig with {}",
                self.menu,
                self.linux()
            ))),
        }
    }

    /// What grub-mkconfig makes now; nothing is written.
    fn make(&self) -> Result<String, BootError> {
        let made = program::run(&self.mkconfig, &[], "")?;
        program::run(&self.script_check, &[], &made)?;
        Ok(made)
    }

    /// Writes a menu that was checked, with mode and owner of the old one.
    fn write_menu(
        &self,
        lease: &mut Lease,
        host: &mut Host,
        new: String,
        next: Option<Change>,
    ) -> Result<(), BootError> {
        program::run(&self.script_check, &[], &new)?;
        let (_, old) = content(host, &self.menu)?;
        let slot = Slot::File { path: self.menu.clone() };
        let mut changes = vec![change(slot, files::like(&old, new))];
        changes.extend(next);
        lease.change(host, &changes)?;
        Ok(())
    }

    /// Red Hat's and SUSE's grub-mkconfig read no drop-ins.
    fn reads_drop_ins(&self) -> Result<(), BootError> {
        let text = std::fs::read_to_string(&self.mkconfig).unwrap_or_default();
        let folder =
            Path::new(&self.drop_ins()).file_name().map(|n| n.to_string_lossy().into_owned());
        match text.contains(&format!("default/{}", folder.unwrap_or_default())) {
            true => Ok(()),
            false => Err(BootError::Unfit(format!(
                "{} reads no {}, so nothing could be kept without editing {}",
                self.mkconfig,
                self.drop_ins(),
                self.defaults
            ))),
        }
    }
}

/// The words of these names in the entries of a menu.
fn traces(menu: &str, wanted: &[Parameter]) -> Vec<String> {
    let is_named = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default();
        wanted.iter().any(|parameter| parameter.name == name)
    };
    let lines: Vec<menu::Entry> = menu::entries(menu);
    let words = lines.iter().flat_map(|entry| entry.line.split_whitespace());
    words.filter(is_named).map(str::to_owned).collect()
}

fn change(slot: Slot, want: Value) -> Change {
    Change { slot, want, optional: false }
}

/// 10_linux begins with a function, which GRUB takes at the top level only; the first 10_linux has
/// defined it there. Its output is kept in a variable, for in a pipe its failure would be lost.
/// `earlier`: what our drop-in adds, which this trial replaces.
fn trial_script(earlier: &[Parameter], added: &[Parameter]) -> String {
    let (earlier, added) = (compose::words(earlier), compose::words(added));
    format!(
        r#"#!/bin/sh
# Made by quietcore: entries that are on trial. `quietcore rollback` removes it.
set -ef
line=
for word in $GRUB_CMDLINE_LINUX; do
    case ' {earlier} ' in
    *" $word "*) ;;
    *) line="$line $word" ;;
    esac
done
GRUB_CMDLINE_LINUX="${{line# }} {added}"
export GRUB_CMDLINE_LINUX
entries=$("$(dirname "$0")/10_linux")
echo "submenu 'quietcore: on trial' \$menuentry_id_option '{TRIAL}' {{"
printf '%s\n' "$entries" | sed '/^[[:space:]]*function /,/^[[:space:]]*}}/d'
echo '}}'
"#
    )
}

/// Whether a file is one of ours.
pub(super) fn is_own(path: &str) -> bool {
    path.ends_with(&format!("/grub.d/{SCRIPT}")) || path.ends_with(&format!("/grub.d/{DROP_IN}"))
}

#[cfg(test)]
mod tests;
