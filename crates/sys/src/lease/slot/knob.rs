//! Files of the kernel: one `write` gives a value, and reading back tells what became of it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use quietcore_measure::CpuSet;
use serde::{Deserialize, Serialize};

use super::Trouble;
use crate::host::read_file;
use crate::lease::value::Value;

/// How two texts of a kernel file are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A word or a number, or words with one in brackets that is in force.
    Word,
    /// CPUs or memory nodes as a list, `0,2-5`.
    CpuList,
    /// CPUs as a mask, `ff,ffffffff`.
    CpuMask,
    /// Words in any order, each switched by `+word` and `-word`: a control group's controllers.
    Controllers,
}

impl Form {
    /// What a text says: of `always [madvise] never` the word in force.
    pub(crate) fn value(self, text: &str) -> Value {
        match self {
            Self::Word => Value::text(chosen(text)),
            _ => Value::text(text),
        }
    }

    /// Whether two texts mean the same.
    pub fn same(self, a: &str, b: &str) -> bool {
        let sets = |parse: fn(&str) -> Option<CpuSet>| match (parse(a), parse(b)) {
            (Some(a), Some(b)) => a == b,
            _ => a.trim() == b.trim(),
        };
        match self {
            Self::Word => chosen(a) == chosen(b),
            Self::CpuList => sets(|text| CpuSet::parse_list(text).ok()),
            Self::CpuMask => sets(|text| CpuSet::parse_mask(text).ok()),
            Self::Controllers => words(a) == words(b),
        }
    }
}

pub(super) fn read(path: &str, form: Form) -> Result<Value, Trouble> {
    read_file(Path::new("/"), path).map(|text| form.value(&text))
}

pub(super) fn write(path: &str, form: Form, value: &Value) -> Result<(), Trouble> {
    let Value::Text(text) = value else {
        return Err(Trouble::Other("only a text can be written to a kernel file".to_owned()));
    };
    if form == Form::Controllers {
        let now = read(path, form)?;
        let now = now.as_text().unwrap_or_default();
        return switches(now, text).iter().try_for_each(|switch| put(path, switch));
    }
    put(path, chosen(text))?;
    settle(std::thread::sleep, || read(path, form).is_ok_and(|now| is(form, &now, text)));
    Ok(())
}

fn is(form: Form, now: &Value, text: &str) -> bool {
    now.as_text().is_some_and(|now| form.same(now, text))
}

/// Some settings are taken at once and put in force a moment later, in a thread of the kernel
/// (the limits of cpufreq): up to 31 ms are waited for one that does not read as written.
fn settle(sleep: impl Fn(Duration), reads_so: impl Fn() -> bool) {
    for ms in [1, 2, 4, 8, 16] {
        if reads_so() {
            return;
        }
        sleep(Duration::from_millis(ms));
    }
}

/// One `write(2)`: the kernel takes a value whole or not at all. It is not created: a knob that
/// is not there must not become a file.
fn put(path: &str, text: &str) -> Result<(), Trouble> {
    let open = OpenOptions::new().write(true).open(path);
    let mut file = open.map_err(|error| refusal(path, error))?;
    let line = format!("{text}\n");
    match file.write(line.as_bytes()) {
        // Where a plain file stands for one of the kernel's, what is left of a longer text goes. Not
        // before the write: a process that is killed between the two would leave nothing.
        Ok(n) if n == line.len() => {
            if file.metadata().is_ok_and(|about| about.len() > n as u64) {
                let _ = file.set_len(n as u64);
            }
            Ok(())
        }
        Ok(n) => Err(Trouble::Other(format!("the kernel took {n} of {} bytes", line.len()))),
        Err(error) => Err(refusal(path, error)),
    }
}

/// EPERM and EACCES are the kernel's no to a value as often as to a caller.
fn refusal(path: &str, error: io::Error) -> Trouble {
    match error.raw_os_error() {
        // EIO up to Linux 6.10, EPERM since.
        Some(libc::EIO | libc::EPERM) if path.starts_with("/proc/irq/") => Trouble::Other(
            "the kernel does not let it be moved: it manages it itself, or every CPU has its own"
                .to_owned(),
        ),
        Some(libc::EROFS) => Trouble::Other("read-only file system".to_owned()),
        Some(libc::EBUSY) => Trouble::Other("busy: the kernel does not let go of it".to_owned()),
        Some(libc::EINVAL) => Trouble::Other("the kernel refuses this value".to_owned()),
        Some(libc::EIO) => Trouble::Other("an error of the device".to_owned()),
        _ => error.into(),
    }
}

/// The word in brackets where there is exactly one, else the whole text.
fn chosen(text: &str) -> &str {
    let mut bracketed =
        text.split_whitespace().filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match (bracketed.next(), bracketed.next()) {
        (Some(word), None) => word,
        _ => text.trim(),
    }
}

fn words(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// What to write so that `now` becomes `wanted`.
fn switches(now: &str, wanted: &str) -> Vec<String> {
    let (now, wanted) = (words(now), words(wanted));
    let on = wanted.iter().filter(|word| !now.contains(word)).map(|word| format!("+{word}"));
    let off = now.iter().filter(|word| !wanted.contains(word)).map(|word| format!("-{word}"));
    on.chain(off).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_by_what_they_mean() {
        assert!(Form::Word.same("always [madvise] never", "madvise"));
        assert!(!Form::Word.same("always [madvise] never", "always"));
        assert!(Form::CpuList.same("0-2", "0,1,2\n") && !Form::CpuList.same("0-2", "0-3"));
        assert!(Form::CpuMask.same("00000000,0000000f", "f") && !Form::CpuMask.same("f", "7"));
        assert!(Form::CpuList.same("", "") && !Form::CpuList.same("", "0"));
        assert!(Form::Controllers.same("cpu memory", "memory cpu"));
    }

    #[test]
    fn controllers_are_switched_one_by_one() {
        assert_eq!(switches("cpu io", "cpu cpuset"), ["+cpuset", "-io"]);
        assert!(switches("cpu", "cpu").is_empty());
    }

    #[test]
    fn a_setting_that_comes_into_force_later_is_waited_for_and_not_for_ever() {
        let slept = std::cell::Cell::new(0);
        let sleep = |time: Duration| slept.set(slept.get() + time.as_millis());
        settle(sleep, || true);
        assert_eq!(slept.get(), 0);
        settle(sleep, || slept.get() > 2);
        assert_eq!(slept.get(), 3);
        settle(sleep, || false);
        assert_eq!(slept.get(), 3 + 31);
    }

    #[test]
    fn a_knob_that_is_not_there_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("knob").display().to_string();
        assert_eq!(write(&path, Form::Word, &Value::text("1")), Err(Trouble::Missing));
        assert!(!Path::new(&path).exists());
    }
}
