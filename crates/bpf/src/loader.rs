//! Loading what the kernel takes, and keeping what it says of the rest.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{
    AsRawLibbpf, ErrorKind, Link, MapCore, MapFlags, Object, OpenObject, PrintLevel, libbpf_sys,
    set_print,
};

use crate::{BpfError, Health, State};

/// Programs that the kernel refused, and why.
pub(crate) type Broken = BTreeMap<String, String>;

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

/// Makes every atomic addition that hands back the old value one that does not. Kernels that do not know
/// the former (before 5.12) refuse it even where it is never reached.
pub(crate) fn without_fetch(object: &mut OpenObject) -> Result<(), libbpf_rs::Error> {
    const ATOMIC: u8 = 0xc3;
    const SIZE: u8 = 0x18;
    const ADD_AND_FETCH: i32 = 1;
    for program in object.progs_mut() {
        let mut instructions = program.insns().to_vec();
        for one in &mut instructions {
            if one.code & !SIZE == ATOMIC && one.imm == ADD_AND_FETCH {
                one.imm = 0;
            }
        }
        // SAFETY: the program is open and not loaded; libbpf copies the instructions.
        let done = unsafe {
            libbpf_sys::bpf_program__set_insns(
                program.as_libbpf_object().as_ptr(),
                instructions.as_mut_ptr(),
                instructions.len() as u64,
            )
        };
        if done < 0 {
            return Err(libbpf_rs::Error::from_raw_os_error(-done));
        }
    }
    Ok(())
}

/// Loads until the kernel takes what is left: a program that it refuses is left out next time,
/// unless everything rests on it.
pub(crate) fn load<T>(
    essential: impl Fn(&str) -> bool,
    mut load: impl FnMut(&Broken) -> Result<T, libbpf_rs::Error>,
) -> Result<(T, Broken), BpfError> {
    let mut broken = Broken::new();
    loop {
        listen();
        match load(&broken) {
            Ok(skeleton) => return Ok((skeleton, broken)),
            Err(error) => give_up_one(error, &essential, &mut broken)?,
        }
    }
}

fn give_up_one(
    error: libbpf_rs::Error,
    essential: impl Fn(&str) -> bool,
    broken: &mut Broken,
) -> Result<(), BpfError> {
    let Some((program, why)) = refused() else {
        return Err(match error.kind() {
            ErrorKind::PermissionDenied => BpfError::Privilege(error.to_string()),
            _ => BpfError::Libbpf { doing: "loading the programs", error },
        });
    };
    match error.kind() {
        ErrorKind::PermissionDenied => Err(BpfError::Privilege(why)),
        _ if essential(&program) || broken.contains_key(&program) => {
            Err(BpfError::Program { program, why })
        }
        _ => {
            broken.insert(program, why);
            Ok(())
        }
    }
}

/// Attaches programs in this order, but those of which it is said why they are left out.
pub(crate) fn attach(
    object: &mut Object,
    programs: impl Iterator<Item = (&'static str, Option<State>)>,
    essential: impl Fn(&str) -> bool,
    broken: &Broken,
) -> Result<(Vec<Link>, Vec<Health>), BpfError> {
    let (mut links, mut health) = (Vec::new(), Vec::new());
    for (program, left_out) in programs {
        let state = match (left_out, broken.get(program)) {
            (Some(state), _) => state,
            (None, Some(why)) => State::Broken(why.clone()),
            (None, None) => match attach_one(object, program) {
                Ok(link) => {
                    links.push(link);
                    State::Ok
                }
                Err(why) if essential(program) => {
                    return Err(BpfError::Program { program: program.to_owned(), why });
                }
                Err(why) => State::Broken(why),
            },
        };
        health.push(Health { program, state });
    }
    Ok((links, health))
}

fn attach_one(object: &mut Object, program: &str) -> Result<Link, String> {
    let mut programs = object.progs_mut();
    match programs.find(|candidate| candidate.name().to_str() == Some(program)) {
        Some(program) => program.attach().map_err(|error| error.to_string()),
        None => Err("it is not in the object".into()),
    }
}

/// A per-CPU entry's words, summed over all CPUs.
pub(crate) fn sums(map: &impl MapCore, key: u32) -> Result<Vec<u64>, BpfError> {
    let doing = "reading counters";
    let found = map
        .lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| BpfError::Libbpf { doing, error })?;
    let mut sums = Vec::new();
    for cpu in found.unwrap_or_default() {
        let words =
            cpu.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().unwrap_or_default()));
        for (i, word) in words.enumerate() {
            match sums.get_mut(i) {
                Some(sum) => *sum += word,
                None => sums.push(word),
            }
        }
    }
    Ok(sums)
}

/// How many CPUs there may ever be.
pub(crate) fn possible_cpus() -> Result<u32, BpfError> {
    let doing = "counting the CPUs";
    let count =
        libbpf_rs::num_possible_cpus().map_err(|error| BpfError::Libbpf { doing, error })?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
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
