//! Whole files: replaced at once or not at all, with mode and owner.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::Trouble;
use crate::lease::value::{Bytes, Content, Value};

/// A boot menu of a machine with many kernels has 100 kB.
const LARGEST: u64 = 16 << 20;

pub(super) fn read(path: &str) -> Result<Value, Trouble> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Value::Absent),
        Err(error) => return Err(error.into()),
    };
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(Trouble::Other("not a regular file".to_owned()));
    }
    if about.len() > LARGEST {
        return Err(Trouble::Other(format!("larger than {} MiB", LARGEST >> 20)));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let mode = about.mode() & 0o7777;
    Ok(Value::File(Content { bytes: Bytes(bytes), mode, uid: about.uid(), gid: about.gid() }))
}

/// A new file beside the old one takes its place in one step. Its name begins with a dot: whoever
/// reads every file of the folder (`/etc/grub.d/*`) does not see one that is half-written.
pub(super) fn write(path: &str, value: &Value) -> Result<(), Trouble> {
    let path = Path::new(path);
    match value {
        Value::Absent => fs::remove_file(path)?,
        Value::File(content) => {
            let beside = leftover(path);
            remove_if_there(&beside)?;
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
            file.write_all(&content.bytes.0)?;
            fchown(&file, Some(content.uid), Some(content.gid))?;
            file.set_permissions(Permissions::from_mode(content.mode))?;
            file.sync_all()?;
            fs::rename(&beside, path)?;
        }
        Value::Text(_) => return Err(Trouble::Other("a file is written whole".to_owned())),
    }
    sync_folder(path)?;
    super::unit::file_changed(path)
}

/// Removes what an interrupted write left beside the file.
pub(crate) fn remove_leftover(path: &str) -> io::Result<()> {
    remove_if_there(&leftover(Path::new(path)))
}

fn leftover(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".quietcore");
    path.with_file_name(name)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A rename or a removal is on the disk when its folder is; for a boot loader not yet: it reads the
/// disk without the file system's journal, in which all of this still is.
pub(super) fn sync_folder(path: &Path) -> Result<(), Trouble> {
    let folder = File::open(path.parent().unwrap_or(Path::new("/")))?;
    folder.sync_all()?;
    if path.starts_with("/boot") {
        rustix::fs::syncfs(&folder).map_err(io::Error::from)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_and_goes_with_its_mode_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.cfg");
        let name = path.display().to_string();
        let own = fs::metadata(folder.path()).unwrap();
        let content = |text: &str, mode| {
            let bytes = Bytes(text.as_bytes().to_vec());
            Value::File(Content { bytes, mode, uid: own.uid(), gid: own.gid() })
        };
        assert_eq!(read(&name), Ok(Value::Absent));
        fs::write(leftover(&path), "of an interrupted write").unwrap();
        for value in [content("one\n", 0o755), content("two\n", 0o444)] {
            write(&name, &value).unwrap();
            assert_eq!(read(&name).unwrap(), value);
        }
        write(&name, &Value::Absent).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_is_not_taken_for_a_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(&folder.path().display().to_string()).is_err());
    }
}
