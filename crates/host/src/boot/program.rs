//! The boot loader's own programs: run to their end, their words kept for errors.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use quietcore_sys::lease::dies_with_us;

use super::BootError;

/// Where programs of the system may lie that a user's PATH leaves out.
const MORE: &str = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin";

/// The path of the first of these programs that is there.
pub(super) fn find(names: &[&str]) -> Result<String, BootError> {
    let path = std::env::var("PATH").unwrap_or_default() + ":" + MORE;
    let folders = || path.split(':').filter(|folder| folder.starts_with('/'));
    let all = names.iter().flat_map(|name| folders().map(move |f| format!("{f}/{name}")));
    let mut there = all.filter(|file| Path::new(file).is_file());
    there.next().ok_or_else(|| BootError::Unfit(format!("{} is not installed", names.join(" or "))))
}

/// Runs a program, gives it `input`, and returns what it prints.
pub(super) fn run(program: &str, args: &[&str], input: &str) -> Result<String, BootError> {
    let failed = |why: String| BootError::Program { program: program.to_owned(), why };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = dies_with_us(&mut command).spawn().map_err(|e| failed(e.to_string()))?;
    if let Some(mut pipe) = child.stdin.take() {
        // Who does not read it has said why.
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(failed(format!("{}: {words}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(|_| failed("its output is no text".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_is_kept_for_the_error() {
        let shell = find(&["no-such-program", "sh"]).unwrap();
        assert_eq!(run(&shell, &["-c", "cat"], "a\n").unwrap(), "a\n");
        let error = run(&shell, &["-c", "echo why >&2; exit 3"], "").unwrap_err().to_string();
        assert!(error.contains("exit status: 3: why"), "{error}");
        assert!(find(&["no-such-program"]).unwrap_err().to_string().contains("no-such-program"));
    }
}
