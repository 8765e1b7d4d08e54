//! The names of an ELF file's sections: enough to tell how a program was made.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::host::Trouble;

/// More than any linker writes; a guard against garbage.
const MOST_SECTIONS: usize = 4096;
/// The same for the table of their names.
const LARGEST_NAMES: u64 = 1 << 20;

/// The section names of a 64-bit little-endian ELF file, in the order of the file.
pub(super) fn sections(file: &File) -> Result<Vec<String>, Trouble> {
    read(|length, at| {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    })
    .ok_or_else(|| Trouble::Other("not a 64-bit ELF program with section headers".to_owned()))
}

/// Reads through `bytes(length, offset)`, which gives `None` beyond the end.
fn read(bytes: impl Fn(usize, u64) -> Option<Vec<u8>>) -> Option<Vec<String>> {
    let header = bytes(64, 0)?;
    // Magic, ELFCLASS64, ELFDATA2LSB.
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size) = (u64_at(&header, 0x28)?, usize::from(u16_at(&header, 0x3a)?));
    let (count, names) = (usize::from(u16_at(&header, 0x3c)?), usize::from(u16_at(&header, 0x3e)?));
    if size < 64 || count == 0 || count > MOST_SECTIONS || names >= count {
        return None;
    }
    let headers = bytes(size * count, table)?;
    let section = |index: usize| headers.get(index * size..(index + 1) * size);
    let strings = section(names)?;
    let length = u64_at(strings, 0x20).filter(|length| *length <= LARGEST_NAMES)?;
    let strings = bytes(usize::try_from(length).ok()?, u64_at(strings, 0x18)?)?;
    let name = |index: usize| {
        let start = usize::try_from(u32_at(section(index)?, 0)?).ok()?;
        let rest = strings.get(start..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    Some((0..count).filter_map(name).collect())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(file: &[u8]) -> Option<Vec<String>> {
        read(|length, at| {
            let at = usize::try_from(at).ok()?;
            file.get(at..at.checked_add(length)?).map(<[u8]>::to_vec)
        })
    }

    /// A file of a header, the names, and a table of two sections.
    fn made() -> Vec<u8> {
        let names = b"\0.go.buildinfo\0.shstrtab\0";
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let table = 64 + names.len() as u64;
        file[0x28..0x30].copy_from_slice(&table.to_le_bytes());
        file[0x3a..0x40].copy_from_slice(&[64, 0, 2, 0, 1, 0]);
        file.extend_from_slice(names);
        let mut sections = [[0; 64]; 2];
        sections[0][0] = 1;
        sections[1][0] = 15;
        sections[1][0x18] = 64;
        sections[1][0x20] = names.len() as u8;
        sections.iter().for_each(|section| file.extend_from_slice(section));
        file
    }

    #[test]
    fn names_are_found_through_the_headers() {
        assert_eq!(of(&made()).unwrap(), [".go.buildinfo", ".shstrtab"]);
    }

    #[test]
    fn this_very_test_has_a_text_section() {
        let file = File::open("/proc/self/exe").unwrap();
        assert!(sections(&file).unwrap().iter().any(|name| name == ".text"));
        assert!(sections(&File::open("/dev/null").unwrap()).is_err());
    }

    proptest! {
        #[test]
        fn no_damage_makes_the_reader_panic(cut in 0usize..250, damage in proptest::collection::vec((0usize..250, any::<u8>()), 0..8)) {
            let mut file = made();
            for (at, byte) in damage {
                if let Some(there) = file.get_mut(at) {
                    *there = byte;
                }
            }
            file.truncate(cut);
            let _ = of(&file);
        }
    }
}
