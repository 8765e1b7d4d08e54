//! Where a result goes: stdout, or a file that appears whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use quietcore_measure::Run;
use quietcore_report::{Format, Options, RenderError, render};

use crate::Output;

/// Why a result could not be written.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The file, or one beside it, cannot be created.
    #[error("cannot write to {}", path.display())]
    Create {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Writing failed half-way; the old file, if there was one, is untouched.
    #[error("writing {} failed", path.display())]
    Write {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Stdout cannot be written.
    #[error("writing to stdout failed")]
    Stdout(#[source] io::Error),
    /// Whoever read stdout has closed it; [`run`](crate::run) takes that for a quiet end.
    #[error("the reader of stdout is gone")]
    ReaderGone,
    /// The run does not fit the format.
    #[error(transparent)]
    Render(#[from] RenderError),
}

/// A place that was found writable, and the format for it.
#[derive(Debug)]
pub struct Sink {
    place: Place,
    format: Format,
    options: Options,
}

/// A place that was found writable.
#[derive(Debug)]
pub struct Place(Kind);

#[derive(Debug)]
enum Kind {
    Stdout,
    /// A regular file: replaced by a rename. `real` is where symbolic links lead.
    File {
        asked: PathBuf,
        real: PathBuf,
    },
    /// A device or pipe, as /dev/null: renaming over it would destroy it.
    Special {
        asked: PathBuf,
        open: File,
    },
}

impl Sink {
    /// As [`Place::open`].
    pub fn open(path: Option<&Path>, format: Format, options: Options) -> Result<Self, SinkError> {
        Ok(Self { place: Place::open(path)?, format, options })
    }

    /// Renders the run and writes it.
    pub fn write(self, run: &Run) -> Result<(), SinkError> {
        self.place.write(render(run, self.format, &self.options)?.as_bytes())
    }
}

impl Place {
    /// Tries the place by creating (and removing) a file beside the one asked for, so that a typo
    /// in a path costs nothing instead of a measurement. `None` is stdout.
    pub fn open(path: Option<&Path>) -> Result<Self, SinkError> {
        let Some(path) = path else { return Ok(Self(Kind::Stdout)) };
        let kind =
            Kind::of(path).map_err(|source| SinkError::Create { path: path.to_owned(), source })?;
        Ok(Self(kind))
    }

    /// Writes it all; a file appears whole or not at all.
    pub fn write(self, bytes: &[u8]) -> Result<(), SinkError> {
        match self.0 {
            Kind::Stdout => to_stdout(bytes),
            Kind::File { asked, real } => {
                replace(&real, bytes).map_err(|source| SinkError::Write { path: asked, source })
            }
            Kind::Special { asked, mut open } => {
                open.write_all(bytes).map_err(|source| SinkError::Write { path: asked, source })
            }
        }
    }
}

impl Kind {
    fn of(path: &Path) -> io::Result<Self> {
        let asked = path.to_owned();
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) => {
                // A file that may not be written must not be replaced by way of its directory.
                let open = OpenOptions::new().write(true).open(path)?;
                if !found.is_file() {
                    return Ok(Self::Special { asked, open });
                }
                let real = fs::canonicalize(path)?;
                try_beside(&real)?;
                Ok(Self::File { asked, real })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                try_beside(path)?;
                Ok(Self::File { real: std::path::absolute(path)?, asked })
            }
            Err(error) => Err(error),
        }
    }
}

/// Creates and removes the file that [`replace`] will write first.
fn try_beside(path: &Path) -> io::Result<()> {
    let beside = beside(path)?;
    OpenOptions::new().write(true).create_new(true).open(&beside)?;
    fs::remove_file(&beside)
}

/// `run.json` → `.run.json.<pid>.part`, in the same directory and thus on the same file system.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.part", std::process::id()));
    Ok(path.with_file_name(hidden))
}

/// Writes `bytes` beside `path` and renames; what was there keeps its permissions.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(path)?;
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
        if let Ok(old) = fs::metadata(path) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Writes text to stdout and flushes; a reader that is gone is [`SinkError::ReaderGone`].
pub fn print(text: &str) -> Result<(), SinkError> {
    to_stdout(text.as_bytes())
}

fn to_stdout(bytes: &[u8]) -> Result<(), SinkError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(stdout_error)
}

fn stdout_error(error: io::Error) -> SinkError {
    match error.kind() {
        io::ErrorKind::BrokenPipe => SinkError::ReaderGone,
        _ => SinkError::Stdout(error),
    }
}

/// Writes a run that is at hand already. What measures calls [`Output::open`] first instead.
pub fn write(run: &Run, output: &Output) -> Result<(), SinkError> {
    output.open()?.write(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn open(path: &Path) -> Result<Sink, SinkError> {
        Sink::open(Some(path), Format::Json, Options::default())
    }

    fn run() -> Run {
        crate::new_run(vec!["quietcore".into(), "audit".into()], Default::default())
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_wrong_place_is_refused_before_anything_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("no/such/dir/run.json");
        let error = anyhow::Error::from(open(&missing).unwrap_err());
        assert!(format!("{error:#}").contains(missing.to_str().unwrap()), "{error:#}");
        assert!(matches!(open(dir.path()), Err(SinkError::Create { .. })));
        assert!(open(Path::new("/")).is_err());
    }

    #[test]
    fn an_opened_sink_leaves_nothing_until_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        let sink = open(&path).unwrap();
        assert!(names(dir.path()).is_empty());
        sink.write(&run()).unwrap();
        assert_eq!(names(dir.path()), ["run.json"]);
        assert!(fs::read_to_string(&path).unwrap().contains("\"schema\""));
    }

    #[test]
    fn an_old_file_stays_whole_until_the_end_and_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let sink = open(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        sink.write(&run()).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("\"schema\""));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn only_a_closed_pipe_means_that_the_reader_is_gone() {
        let of = |kind: io::ErrorKind| stdout_error(kind.into());
        assert!(matches!(of(io::ErrorKind::BrokenPipe), SinkError::ReaderGone));
        assert!(matches!(of(io::ErrorKind::StorageFull), SinkError::Stdout(_)));
    }

    #[test]
    fn a_symbolic_link_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real.json"), dir.path().join("latest.json"));
        fs::write(&real, "old").unwrap();
        symlink(&real, &link).unwrap();
        open(&link).unwrap().write(&run()).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&real).unwrap().contains("\"schema\""));
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        open(Path::new("/dev/null")).unwrap().write(&run()).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let full = open(Path::new("/dev/full")).unwrap().write(&run());
        assert!(matches!(full, Err(SinkError::Write { .. })));
    }
}
