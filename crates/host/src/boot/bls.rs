//! Entries after the Boot Loader Specification, a file each: GRUB on Red Hat's kin, systemd-boot.
//!
//! On trial, the running kernel's entry is copied to one of ours that is booted once. Kept, the
//! parameters are added to the options of each entry, and to /etc/kernel/cmdline where it is there,
//! for the entries of kernels to come; where it is not, those take the running kernel's line.

use quietcore_sys::Host;
use quietcore_sys::lease::{self, Change, Lease, Slot, TakenBack, Value};

use super::compose::{self, Conflict};
use super::files::{content, like, line_of, settle};
use super::{BootError, Remade, systemd_boot};
use crate::knobs::Parameter;

/// The name of our entry.
const TRIAL: &str = "quietcore-trial";
/// Before the parameters in an entry of the distribution's that we have added to.
const MARK: &str = "# quietcore: ";

/// The entries and who reads them.
#[derive(Clone, Debug)]
pub(super) struct Bls {
    /// `/boot/loader/entries`.
    pub folder: String,
    /// `/etc/kernel/cmdline`.
    pub cmdline: String,
    /// What the running kernel was loaded from, as the loader saw it.
    pub image: String,
    /// The running kernel.
    pub release: String,
    pub reader: Reader,
}

/// Who reads the entries.
#[derive(Clone, Debug)]
pub(super) enum Reader {
    /// GRUB's blscfg.
    Grub {
        /// `/boot/grub2/grubenv`.
        environment: String,
        /// The path of `grub2-probe`.
        probe: String,
    },
    SystemdBoot,
}

impl Bls {
    fn trial(&self) -> Slot {
        Slot::File { path: format!("{}/{TRIAL}.conf", self.folder) }
    }

    fn next(&self) -> Change {
        let (loader, id) = match &self.reader {
            Reader::Grub { environment, .. } => {
                (lease::Loader::Grub { environment: environment.clone() }, TRIAL.to_owned())
            }
            Reader::SystemdBoot => (lease::Loader::SystemdBoot, format!("{TRIAL}.conf")),
        };
        Change { slot: Slot::NextBoot { loader }, want: Value::text(id), optional: false }
    }

    /// What is written on trial.
    pub(super) fn places(&self) -> Vec<String> {
        vec![self.trial().to_string(), self.next().slot.to_string()]
    }

    /// What was added to the entries.
    pub(super) fn own(&self, host: &Host) -> Vec<Parameter> {
        let text = self.running(host).and_then(|path| content(host, &path)).map(|(text, _)| text);
        compose::parameters(mark_of(&text.unwrap_or_default()))
    }

    /// Offers the parameters as an entry that is booted once.
    pub(super) fn try_once(
        &self,
        lease: &mut Lease,
        host: &mut Host,
        wanted: &[Parameter],
    ) -> Result<(), BootError> {
        if let Reader::Grub { environment, probe } = &self.reader {
            super::can_be_cleared(probe, environment)?;
            self.has_default(host, environment)?;
        }
        let path = self.running(host)?;
        let (text, like_it) = content(host, &path)?;
        let text = self.add(host, &path, &text, wanted)?;
        let want = like(&like_it, as_trial(&text));
        lease.change(host, &[Change { slot: self.trial(), want, optional: false }])?;
        if matches!(self.reader, Reader::SystemdBoot) {
            systemd_boot::is_not_default(&format!("{TRIAL}.conf"))?;
        }
        lease.change(host, &[self.next()])?;
        Ok(())
    }

    /// Makes the parameters those of every entry.
    pub(super) fn keep(
        &self,
        lease: &mut Lease,
        host: &mut Host,
        wanted: &[Parameter],
    ) -> Result<(), BootError> {
        let mut changes = Vec::new();
        for path in self.entries(host)? {
            let slot = Slot::File { path: path.clone() };
            settle(lease, host, &slot)?;
            let (text, like_it) = content(host, &path)?;
            let text = self.add(host, &path, &text, wanted)?;
            changes.push(Change { slot, want: like(&like_it, text), optional: false });
        }
        if let Ok((line, like_it)) = content(host, &self.cmdline) {
            let slot = Slot::File { path: self.cmdline.clone() };
            settle(lease, host, &slot)?;
            let want = like(&like_it, compose::with(&line, wanted, "") + "\n");
            changes.push(Change { slot, want, optional: false });
        }
        lease.change(host, &changes)?;
        let ours = [self.trial(), self.next().slot];
        lease.take_back(host, |entry| ours.contains(&entry.slot))?;
        Ok(())
    }

    /// After everything was taken back: entries that have come since, or that somebody else has
    /// changed, lose what is ours.
    pub(super) fn clean(
        &self,
        lease: &mut Lease,
        host: &mut Host,
        wanted: &[Parameter],
        back: &[TakenBack],
    ) -> Result<Option<Remade>, BootError> {
        // On trial nothing was added to anybody's file.
        if back.iter().all(|place| place.slot == self.trial() || place.slot == self.next().slot) {
            return Ok(None);
        }
        let mut mended = Vec::new();
        let all = self.entries(host).unwrap_or_default();
        for path in all.into_iter().chain([self.cmdline.clone()]) {
            let is_back = back.iter().any(|place| {
                use quietcore_sys::lease::Outcome;
                place.slot.path() == Some(&path) && !matches!(place.outcome, Outcome::Kept { .. })
            });
            let Ok((text, like_it)) = content(host, &path) else { continue };
            let clean = remove(&text, wanted);
            if is_back || clean == text {
                continue;
            }
            let slot = Slot::File { path: path.clone() };
            let want = like(&like_it, clean);
            lease.change(host, &[Change { slot: slot.clone(), want, optional: false }])?;
            lease.release(|entry| entry.slot == slot)?;
            mended.push(path);
        }
        let what = || format!("{} had our parameters, too: removed", mended.join(", "));
        Ok((!mended.is_empty()).then(|| Remade { what: what(), done: true }))
    }

    /// The ordinary entries' files.
    fn entries(&self, host: &Host) -> Result<Vec<String>, BootError> {
        let names = host.list(&self.folder).map_err(|e| BootError::Unfit(e.to_string()))?;
        let ordinary = |name: &&String| {
            name.ends_with(".conf") && !name.contains("rescue") && !name.starts_with(TRIAL)
        };
        Ok(names.iter().filter(ordinary).map(|name| format!("{}/{name}", self.folder)).collect())
    }

    /// The entry of the kernel that runs.
    fn running(&self, host: &Host) -> Result<String, BootError> {
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let entries = self.entries(host)?;
        let boots = |path: &&String| {
            let text = content(host, path).map(|(text, _)| text).unwrap_or_default();
            let kernel = field(&text, "linux").unwrap_or_default();
            !self.image.is_empty() && name(kernel) == name(&self.image)
                || field(&text, "version") == Some(self.release.as_str())
        };
        let found = entries.iter().find(boots).cloned();
        found.ok_or_else(|| {
            let (folder, release) = (&self.folder, &self.release);
            BootError::Unfit(format!("no entry of {folder} boots {release}, which runs now"))
        })
    }

    /// An entry's text with what it lacks; the kernel must take all of it.
    fn add(
        &self,
        host: &Host,
        path: &str,
        text: &str,
        wanted: &[Parameter],
    ) -> Result<String, BootError> {
        let text = remove(text, &compose::parameters(mark_of(text)));
        let line = self.line(host, &text);
        let added = compose::lacking(&line, wanted);
        if let Some(conflict) = compose::conflict(&compose::with(&line, &added, ""), wanted) {
            let Conflict { wanted, taken } = conflict;
            let files = [path.to_owned(), self.cmdline.clone()];
            let place = line_of(host, &files, &taken).unwrap_or_else(|| path.to_owned());
            return Err(BootError::Conflict { wanted, taken, place });
        }
        Ok(if added.is_empty() { text } else { append(&text, &compose::words(&added)) })
    }

    /// An entry's parameters, GRUB's variables put in.
    fn line(&self, host: &Host, text: &str) -> String {
        let mut line = options(text).join(" ");
        if let Reader::Grub { environment, .. } = &self.reader {
            let block = host.read(environment).unwrap_or_default();
            for (name, value) in block.lines().filter_map(|line| line.split_once('=')) {
                line = line.replace(&format!("${{{name}}}"), value);
                line = line.replace(&format!("${name}"), value);
            }
        }
        line
    }

    /// Without a saved default GRUB boots the first entry in its order, which ours could become.
    fn has_default(&self, host: &Host, environment: &str) -> Result<(), BootError> {
        let block = host.read(environment).unwrap_or_default();
        let saved = block.lines().find_map(|line| line.strip_prefix("saved_entry="));
        let is_there = |id: &str| content(host, &format!("{}/{id}.conf", self.folder)).is_ok();
        match saved {
            Some(id) if id != TRIAL && is_there(id) => Ok(()),
            _ => Err(BootError::Unfit(
                "GRUB has no default entry saved, so it might take the one on trial for it: grubby --set-default KERNEL first".to_owned(),
            )),
        }
    }
}

/// The values of an entry's options, in order.
fn options(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| of_key(line, "options")).collect()
}

fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| of_key(line, key))
}

fn of_key<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line.trim_start().strip_prefix(key)?;
    rest.starts_with(char::is_whitespace).then(|| rest.trim())
}

fn mark_of(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix(MARK)).unwrap_or_default()
}

/// Adds words to an entry's first options, the only ones that GRUB reads, and says so.
fn append(text: &str, words: &str) -> String {
    let mut new = String::new();
    let mut done = false;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches('\n');
        new.push_str(bare);
        if !done && of_key(&format!("{bare} "), "options").is_some() {
            new.push_str(&format!(" {words}"));
            done = true;
        }
        new.push('\n');
    }
    if !done {
        new.push_str(&format!("options {words}\n"));
    }
    new + MARK + words + "\n"
}

/// A text without our mark and without these words where they stand together, as we put them.
fn remove(text: &str, own: &[Parameter]) -> String {
    if own.is_empty() {
        return text.to_owned();
    }
    let words = match mark_of(text) {
        "" => compose::words(own),
        words => words.to_owned(),
    };
    let lines = text.split_inclusive('\n').filter(|line| !line.starts_with(MARK));
    let cut = lines.map(|line| line.replace(&format!(" {words}"), ""));
    cut.filter(|line| line.trim() != "options").collect()
}

/// A title of its own, and what sorts behind all others.
fn as_trial(text: &str) -> String {
    let kept = |line: &&str| {
        let own = ["title", "id", "sort-key", "version"];
        !line.starts_with('#') && own.iter().all(|key| of_key(line, key).is_none())
    };
    let rest: Vec<&str> = text.lines().filter(kept).collect();
    let title = field(text, "title").unwrap_or("Linux");
    format!("title {title} (quietcore: on trial)\nversion 0\n{}\n", rest.join("\n"))
}

#[cfg(test)]
mod tests;
