//! Threads: where they may run and how.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::knobs::list;
use super::text::{Class, Entry, escaped};

/// Every thread, by process id, thread id and start time: ids are used again.
pub fn take(root: &Path) -> Class {
    let mut found = BTreeMap::new();
    for process in list(&root.join("proc")).iter().filter(|path| is_number(path)) {
        for thread in list(&process.join("task")) {
            found.extend(task(&thread));
        }
    }
    Class::found(found)
}

fn is_number(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.iter().all(u8::is_ascii_digit)
}

/// `None` for a thread that ended while it was looked at.
fn task(folder: &Path) -> Option<(String, Entry)> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let (stat, status, cgroup) = (read("stat")?, read("status")?, read("cgroup")?);
    let line = |key: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        value.map(|value| value.trim().to_owned())
    };
    // Fields are counted from the third one on, after a name that may contain anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let value = format!(
        "cpus {} mems {} policy {} priority {} nice {} cgroup {}",
        line("Cpus_allowed_list")?,
        line("Mems_allowed_list").unwrap_or_default(),
        field(41)?,
        field(40)?,
        field(19)?,
        escaped(cgroup.as_bytes()),
    );
    let key = format!("{}/{}@{}", line("Tgid")?, line("Pid")?, field(22)?);
    Some((key, Entry { value, note: escaped(line("Name")?.as_bytes()) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_thread_is_found() {
        let Class::Taken(tasks) = take(Path::new("/")) else { panic!("no tasks") };
        let own = format!("{}/", std::process::id());
        let (_, entry) = tasks.iter().find(|(key, _)| key.starts_with(&own)).unwrap();
        assert!(entry.value.contains("cpus ") && entry.value.contains("policy 0"), "{entry:?}");
    }
}
