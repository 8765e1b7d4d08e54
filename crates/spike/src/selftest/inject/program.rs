//! A program of another language that speaks an injector's lines itself.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, io};

use quietcore_measure::CpuSet;
use quietcore_sys::sched;

use crate::selftest::protocol::Line;
use crate::selftest::stage::{NotHere, Stage, random};

/// A directory that goes away with what is in it.
pub struct Workshop(PathBuf);

impl Workshop {
    pub fn open() -> io::Result<Self> {
        let path = env::temp_dir().join(format!("{:x}", random()));
        fs::create_dir(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o700))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a source file.
    pub fn source(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        // It lies among the temporary files; nothing depends on it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running program, ended with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program that prints lines of an injector, and whatever `read` makes lines of.
pub fn play(
    stage: &Stage,
    command: &mut Command,
    read: impl Fn(&str) -> Option<Line>,
) -> Result<(), NotHere> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    // The program's other threads go where they like.
    let name = child.get_program().to_string_lossy().into_owned();
    child = child.env_remove("JAVA_TOOL_OPTIONS");
    let mut running = Running(child.spawn().map_err(|error| NotHere(format!("{name}: {error}")))?);
    let (Some(mut stdin), Some(stdout)) = (running.0.stdin.take(), running.0.stdout.take()) else {
        return Err(NotHere(format!("{name}: no pipes")));
    };
    let mut log = None;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        match read(&line).or_else(|| line.parse().ok()) {
            Some(Line::Victim { tid, .. }) => {
                let only: CpuSet = [stage.cpu].into_iter().collect();
                sched::place(i32::try_from(tid).unwrap_or(i32::MAX), &only)?;
                log = Some(stage.present(tid)?);
                stdin.write_all(b"go\n")?;
            }
            Some(Line::Span(what, span)) => {
                if let Some(log) = &log {
                    log.say(what, span);
                }
            }
            _ => {}
        }
        if log.is_some() && stage.over() {
            break;
        }
    }
    match log {
        Some(_) => Ok(()),
        None => Err(NotHere(format!("{name} ended before it began"))),
    }
}
