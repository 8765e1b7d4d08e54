//! From what a user calls a function to where it begins.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use quietcore_bpf::Target;
use quietcore_sys::Host;
use quietcore_sys::host::Runtime;
use thiserror::Error;

use super::symbols::{Function, Symbols, Table};

/// Names that an error lists at most.
const LISTED: usize = 8;

/// Why a function cannot be probed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FunctionError {
    /// A probe on the return of a function replaces its return address, and Go's runtime walks and
    /// moves stacks.
    #[error(
        "process {0} is a Go program: a probe on a function's return changes the return address on \
         its stack, which Go's runtime moves and checks, and the program would crash"
    )]
    Go(u32),
    /// There is no such process, or it cannot be looked at.
    #[error("process {pid}: {error}")]
    Process {
        /// The process.
        pid: u32,
        /// The system's error.
        error: std::io::Error,
    },
    /// The file has no functions.
    #[error("{0} names no functions: it was stripped; name another by --binary")]
    Stripped(PathBuf),
    /// No function is called so.
    #[error("no function `{name}` in {path}{}", nearby(.near))]
    Missing {
        /// What was asked for.
        name: String,
        /// Where.
        path: PathBuf,
        /// Names that are like it.
        near: Vec<String>,
    },
    /// Several are.
    #[error("`{name}` is not one function of {path} but {}: {}", .candidates.len(), listed(.candidates))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// Where.
        path: PathBuf,
        /// Those that it could be.
        candidates: Vec<String>,
    },
}

fn nearby(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!("; near it are {}", listed(names)),
    }
}

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(LISTED);
    let mut text = names[..names.len().min(LISTED)].join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    text
}

/// Finds a function of a process by its name, or by an unambiguous part of it: in this file, or else
/// in the program and then in the libraries that it has mapped.
///
/// # Errors
/// [`FunctionError`].
pub fn find(
    host: &Host,
    pid: u32,
    name: &str,
    binary: Option<&Path>,
) -> Result<(Target, String), FunctionError> {
    let process = |error| FunctionError::Process { pid, error };
    let mut symbols = Symbols::of(pid).map_err(process)?;
    if host.runtime(pid).is_ok_and(|runtime| runtime == Runtime::Go) {
        return Err(FunctionError::Go(pid));
    }
    if let Some(path) = binary {
        let within = symbols.open_as(&path.to_string_lossy());
        let path = if within.exists() { within } else { path.to_owned() };
        let table = Table::read(&path).map_err(process)?;
        return target(pid, path, &table, name);
    }
    let exe = std::fs::read_link(format!("/proc/{pid}/exe")).map_err(process)?;
    let table = Table::read(Path::new(&format!("/proc/{pid}/exe"))).map_err(process)?;
    let in_program = target(pid, format!("/proc/{pid}/exe").into(), &table, name);
    let Err(not_in_program) = in_program else { return in_program };
    let libraries: BTreeSet<String> =
        symbols.mappings().iter().map(|mapping| mapping.path.clone()).collect();
    for library in libraries.iter().filter(|path| Path::new(path) != exe) {
        let path = symbols.open_as(library);
        // Only the whole name: a part of one is in some library nearly always.
        let table = symbols.table(library);
        if let Some(function) = table.functions().iter().find(|f| f.mangled == name) {
            return Ok((Target { pid, path, offset: function.offset }, function.name.clone()));
        }
    }
    Err(match not_in_program {
        FunctionError::Missing { name, near, .. } => {
            FunctionError::Missing { name, path: exe, near }
        }
        FunctionError::Ambiguous { name, candidates, .. } => {
            FunctionError::Ambiguous { name, path: exe, candidates }
        }
        FunctionError::Stripped(_) => FunctionError::Stripped(exe),
        other => other,
    })
}

fn target(
    pid: u32,
    path: PathBuf,
    table: &Table,
    name: &str,
) -> Result<(Target, String), FunctionError> {
    if table.functions().is_empty() {
        return Err(FunctionError::Stripped(path));
    }
    match choose(table.functions(), name) {
        Ok(function) => Ok((Target { pid, path, offset: function.offset }, function.name.clone())),
        Err(candidates) if candidates.is_empty() => Err(FunctionError::Missing {
            name: name.to_owned(),
            path,
            near: alike(table.functions(), name),
        }),
        Err(candidates) => {
            Err(FunctionError::Ambiguous { name: name.to_owned(), path, candidates })
        }
    }
}

/// The one function that is meant: of that name, else the only one whose last part is it, else the
/// only one that contains it. Otherwise those that it could be.
fn choose<'a>(functions: &'a [Function], name: &str) -> Result<&'a Function, Vec<String>> {
    let plain = |f: &Function| f.name.split('(').next().unwrap_or_default().to_owned();
    let rules: [&dyn Fn(&Function) -> bool; 4] = [
        &|f| f.mangled == name || f.name == name,
        &|f| plain(f) == name,
        &|f| plain(f).ends_with(&format!("::{name}")),
        &|f| f.name.contains(name),
    ];
    for rule in rules {
        let found: Vec<&Function> = functions.iter().filter(|f| rule(f)).collect();
        let places: BTreeSet<u64> = found.iter().map(|f| f.offset).collect();
        match (found.first(), places.len()) {
            (Some(function), 1) => return Ok(function),
            (Some(_), _) => {
                let names: BTreeSet<String> = found.iter().map(|f| f.name.clone()).collect();
                return Err(names.into_iter().collect());
            }
            _ => {}
        }
    }
    Err(Vec::new())
}

/// Names that one may have meant.
fn alike(functions: &[Function], name: &str) -> Vec<String> {
    let mut scored: Vec<(f64, &str)> = functions
        .iter()
        .map(|f| (strsim::jaro_winkler(&f.name, name), f.name.as_str()))
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(5).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(names: &[&str]) -> Vec<Function> {
        let one = |(i, name): (usize, &&str)| Function {
            offset: i as u64 * 16,
            size: 16,
            mangled: format!("_Z{i}"),
            name: (*name).to_owned(),
        };
        names.iter().enumerate().map(one).collect()
    }

    #[test]
    fn a_whole_name_goes_before_a_part_of_others() {
        let all = functions(&["handle", "handle_all", "Book::handle(int)"]);
        assert_eq!(choose(&all, "handle").unwrap().name, "handle");
        assert_eq!(choose(&all, "Book::handle").unwrap().name, "Book::handle(int)");
        assert_eq!(choose(&all, "_all").unwrap().name, "handle_all");
    }

    #[test]
    fn a_name_that_could_be_several_lists_them() {
        let all = functions(&["Book::on(int)", "Feed::on(int)", "other"]);
        assert_eq!(choose(&all, "on").unwrap_err(), ["Book::on(int)", "Feed::on(int)"]);
        assert!(choose(&all, "nowhere").unwrap_err().is_empty());
    }

    #[test]
    fn one_function_of_two_names_is_one() {
        let mut all = functions(&["a::f", "b::f"]);
        all[1].offset = all[0].offset;
        assert_eq!(choose(&all, "f").unwrap().offset, 0);
    }

    #[test]
    fn a_slip_of_the_pen_is_answered_by_what_is_near() {
        let all = functions(&["process_packet", "parse", "main"]);
        assert_eq!(alike(&all, "proces_packet"), ["process_packet"]);
        let error = FunctionError::Missing {
            name: "proces_packet".into(),
            path: "/bin/x".into(),
            near: alike(&all, "proces_packet"),
        };
        let text = "no function `proces_packet` in /bin/x; near it are process_packet";
        assert_eq!(error.to_string(), text);
    }
}
