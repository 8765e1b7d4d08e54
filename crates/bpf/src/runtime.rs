//! Where a language runtime begins and ends to stop its whole process.
//!
//! The JVM has static probes for its safepoints (`safepoint__begin`, in the notes of its
//! library), Go has functions (`runtime.stopTheWorldWithSema`). Both are found by what a mapped file
//! holds, never by its name.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use object::read::elf::{ElfFile64, NoteIterator, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol};
use serde::Serialize;

/// A runtime that can stop a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// HotSpot.
    Jvm,
    /// Go.
    Go,
}

impl Runtime {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jvm => "the JVM",
            Self::Go => "Go's runtime",
        }
    }
}

/// Where to attach, as offsets into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stops {
    pub runtime: Runtime,
    pub file: PathBuf,
    pub begin: u64,
    pub end: u64,
}

/// The runtimes in a process.
pub(crate) fn of_process(pid: u32) -> io::Result<Vec<Stops>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    // As the process sees them, for it may live in a container.
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let files: BTreeSet<&str> = maps.lines().filter_map(executable).collect();
    let stops =
        files.into_iter().filter_map(|file| of_file(&root.join(file.trim_start_matches('/'))));
    Ok(stops.collect())
}

/// The file of a line of /proc/PID/maps, if code is mapped from it.
fn executable(line: &str) -> Option<&str> {
    let mut fields = line.splitn(6, ' ');
    let (_, rights) = (fields.next()?, fields.next()?);
    let file = fields.nth(3)?.trim_start();
    (rights.contains('x') && file.starts_with('/')).then_some(file)
}

fn of_file(path: &Path) -> Option<Stops> {
    let file = File::open(path).ok()?;
    // SAFETY: the file is mapped by a running process; should somebody truncate it, we die of
    // SIGBUS as that process would.
    let bytes = unsafe { Mmap::map(&file) }.ok()?;
    let (runtime, begin, end) = find(&bytes)?;
    Some(Stops { runtime, file: path.to_owned(), begin, end })
}

/// The runtime in an ELF file, and the file's offsets of the beginning and the end of a stop.
fn find(bytes: &[u8]) -> Option<(Runtime, u64, u64)> {
    let elf = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let offset = |address: u64| {
        elf.elf_program_headers().iter().find_map(|segment| {
            let e = Endianness::default();
            let inside = address.checked_sub(segment.p_vaddr(e))?;
            (inside < segment.p_filesz(e)).then(|| segment.p_offset(e) + inside)
        })
    };
    if elf.section_by_name(".note.stapsdt").is_some() {
        let begin = probe(&elf, "safepoint__begin").and_then(offset)?;
        return Some((Runtime::Jvm, begin, probe(&elf, "safepoint__end").and_then(offset)?));
    }
    elf.section_by_name(".gopclntab")?;
    let function = |name: &str| {
        let found = elf.symbols().find(|symbol| symbol.name() == Ok(name))?;
        offset(found.address())
    };
    let begin = function("runtime.stopTheWorldWithSema")?;
    Some((Runtime::Go, begin, function("runtime.startTheWorldWithSema")?))
}

/// The address of a static probe of HotSpot's.
fn probe(elf: &ElfFile64<'_, Endianness>, name: &str) -> Option<u64> {
    let section = elf.section_by_name(".note.stapsdt")?;
    let mut notes: NoteIterator<'_, object::elf::FileHeader64<Endianness>> =
        NoteIterator::new(Endianness::default(), 4, section.data().ok()?).ok()?;
    // The linker may have moved the code since the note was written.
    let base = elf.section_by_name(".stapsdt.base").map(|base| base.address());
    while let Ok(Some(note)) = notes.next() {
        let desc = note.desc();
        let word =
            |i: usize| Some(u64::from_le_bytes(desc.get(8 * i..8 * i + 8)?.try_into().ok()?));
        let mut texts = desc.get(24..).unwrap_or_default().split(|&b| b == 0);
        let provider = texts.next();
        let ours = [&b"hotspot"[..], b"hs_private"].map(Some).contains(&provider);
        if ours && texts.next() == Some(name.as_bytes()) {
            let moved = base.map_or(0, |base| base.wrapping_sub(word(1).unwrap_or(base)));
            return Some(word(0)?.wrapping_add(moved));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_told_from_data_in_the_maps() {
        let code = "7f1-7f2 r-xp 00001000 fe:00 1234                       /usr/lib/a b.so";
        assert_eq!(executable(code), Some("/usr/lib/a b.so"));
        assert_eq!(executable("7f1-7f2 r--p 00001000 fe:00 1234   /usr/lib/a.so"), None);
        assert_eq!(executable("7f1-7f2 r-xp 00000000 00:00 0   [vdso]"), None);
        assert_eq!(executable("7f1-7f2 r-xp 00000000 00:00 0"), None);
        assert_eq!(executable(""), None);
    }

    #[test]
    fn what_is_no_program_has_no_runtime() {
        assert_eq!(find(b""), None);
        assert_eq!(find(b"\x7fELF"), None);
        let own = fs::read("/proc/self/exe").unwrap();
        assert_eq!(find(&own), None);
    }
}
