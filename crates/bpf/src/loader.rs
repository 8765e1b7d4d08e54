//! Loading what the kernel takes, and keeping what it says of the rest.

use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{OpenObject, PrintLevel, set_print};

/// What libbpf had to say since it was last asked. It knows one listener for the whole process.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn said() -> MutexGuard<'static, Vec<String>> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes libbpf tell us instead of the terminal, and forgets what it said before.
pub(crate) fn listen() {
    set_print(Some((PrintLevel::Warn, |_, text| said().push(text))));
    said().clear();
}

/// The program that the kernel refused, and why, from what libbpf said.
pub(crate) fn refused() -> Option<(String, String)> {
    let said = said();
    let at = said.iter().position(|line| line.contains(": BPF program load failed"))?;
    let name = said[at].split('\'').nth(1)?.to_owned();
    Some((name, reason(&said[at..].concat())))
}

/// The line of the verifier's log that says what is wrong: the last before its statistics.
fn reason(log: &str) -> String {
    let lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let verdict = lines
        .clone()
        .take_while(|line| !line.starts_with("processed ") && !line.contains("END PROG LOAD LOG"))
        .last();
    verdict.or(lines.clone().next()).unwrap_or_default().to_owned()
}

/// Switches a program on or off before loading.
pub(crate) fn autoload(object: &mut OpenObject, program: &str, load: bool) {
    for mut candidate in object.progs_mut() {
        if candidate.name().to_str() == Some(program) {
            candidate.set_autoload(load);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_what_the_verifier_said_last() {
        let log = "libbpf: prog 'x': BPF program load failed: Invalid argument\n\
                   libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n0: (b7) r0 = 0\n\
                   invalid access to map value\nprocessed 12 insns (limit 1000000)\n\
                   -- END PROG LOAD LOG --\n";
        assert_eq!(reason(log), "invalid access to map value");
        assert_eq!(
            reason("libbpf: prog 'x': BPF program load failed: EPERM\n"),
            "libbpf: prog 'x': BPF program load failed: EPERM"
        );
    }
}
