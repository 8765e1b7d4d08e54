//! The functions of a process: where one begins, and which one an address lies in.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{fmt, io};

use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};

/// A function in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// How long it is; 0 where the file does not say.
    pub size: u64,
    /// Its name as the linker knows it.
    pub mangled: String,
    /// Its name as people know it.
    pub name: String,
}

/// The functions of one file, by offset.
#[derive(Clone, Debug, Default)]
pub struct Table {
    functions: Vec<Function>,
}

/// A part of a file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Addresses.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file, as the process knows it.
    pub path: String,
}

impl Table {
    /// Reads the symbols of a file: `.symtab` where it has one, and what it exports.
    ///
    /// # Errors
    /// Where the file cannot be read or is no program.
    pub fn read(path: &Path) -> io::Result<Self> {
        let cache = ReadCache::new(File::open(path)?);
        let file = object::File::parse(&cache).map_err(io::Error::other)?;
        let segments: Vec<(u64, u64, u64)> = file
            .segments()
            .map(|segment| (segment.address(), segment.size(), segment.file_range().0))
            .collect();
        let offset = |address: u64| {
            let found = segments.iter().find(|(at, size, _)| (*at..at + size).contains(&address));
            found.map(|(at, _, offset)| address - at + offset)
        };
        let mut functions: Vec<Function> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
            .filter_map(|symbol| {
                let mangled = symbol.name().ok().filter(|name| !name.is_empty())?.to_owned();
                let name = demangled(&mangled);
                let offset = offset(symbol.address())?;
                Some(Function { offset, size: symbol.size(), mangled, name })
            })
            .collect();
        functions.sort_by(|a, b| a.offset.cmp(&b.offset).then_with(|| a.mangled.cmp(&b.mangled)));
        functions.dedup();
        Ok(Self { functions })
    }

    /// All of them.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The function that a place in the file lies in.
    pub fn at(&self, offset: u64) -> Option<&Function> {
        let after = self.functions.partition_point(|function| function.offset <= offset);
        let candidates = self.functions.get(..after)?.iter().rev().take(8);
        candidates.into_iter().find(|f| offset - f.offset < f.size)
    }
}

/// The names of addresses of a process.
pub struct Symbols {
    root: PathBuf,
    mappings: Vec<Mapping>,
    tables: BTreeMap<String, Table>,
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols").field("mappings", &self.mappings.len()).finish_non_exhaustive()
    }
}

impl Symbols {
    /// What a process has mapped now.
    ///
    /// # Errors
    /// Where /proc does not tell.
    pub fn of(pid: u32) -> io::Result<Self> {
        let mappings = mappings(&fs::read_to_string(format!("/proc/{pid}/maps"))?);
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        Ok(Self { root, mappings, tables: BTreeMap::new() })
    }

    /// The executable parts of files.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// A file of the process, as we can open it.
    pub fn open_as(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The functions of a file of the process.
    pub fn table(&mut self, path: &str) -> &Table {
        if !self.tables.contains_key(path) {
            let table = Table::read(&self.open_as(path)).unwrap_or_default();
            self.tables.insert(path.to_owned(), table);
        }
        &self.tables[path]
    }

    /// The function at an address, or else the file and where in it.
    pub fn name(&mut self, address: u64) -> String {
        let found = self.mappings.iter().find(|m| (m.start..m.end).contains(&address)).cloned();
        let Some(Mapping { start, offset, path, .. }) = found else {
            return format!("{address:#x}");
        };
        let at = address - start + offset;
        match self.table(&path).at(at) {
            Some(function) => function.name.clone(),
            None => format!("{}+{at:#x}", path.rsplit('/').next().unwrap_or(&path)),
        }
    }
}

/// The executable mappings of files in /proc/PID/maps.
fn mappings(maps: &str) -> Vec<Mapping> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mapping = |line: &str| {
        let path = line.get(line.find('/')?..)?.trim_end_matches(" (deleted)").to_owned();
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let executable = words.next()?.contains('x');
        let offset = hex(words.next()?)?;
        executable.then_some(Mapping { start: hex(start)?, end: hex(end)?, offset, path })
    };
    maps.lines().filter_map(mapping).collect()
}

/// A name as people know it.
fn demangled(mangled: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(mangled) {
        return format!("{name:#}");
    }
    let cpp = mangled.starts_with("_Z").then(|| cpp_demangle::Symbol::new(mangled).ok()).flatten();
    cpp.and_then(|name| name.demangle(&Default::default()).ok())
        .unwrap_or_else(|| mangled.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_parts_of_files_are_kept() {
        let maps = "55d0-55e0 r--p 00000000 fe:00 12   /usr/bin/a\n\
                    55e0-55f0 r-xp 00010000 fe:00 12   /usr/bin/a b (deleted)\n\
                    7f00-7f10 rw-p 00000000 00:00 0 \n";
        let found = mappings(maps);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].start, found[0].offset), (0x55e0, 0x10000));
        assert_eq!(found[0].path, "/usr/bin/a b");
    }

    #[test]
    fn names_are_demangled_without_the_hash_that_rust_adds() {
        assert_eq!(demangled("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangled("_ZN6Engine6handleEi"), "Engine::handle(int)");
        assert_eq!(demangled("process_packet"), "process_packet");
    }

    #[test]
    fn a_place_behind_the_end_of_a_function_is_in_none() {
        let function = |offset, size, name: &str| Function {
            offset,
            size,
            mangled: name.to_owned(),
            name: name.to_owned(),
        };
        let table = Table { functions: vec![function(16, 8, "a"), function(32, 4, "b")] };
        assert_eq!(table.at(23).unwrap().name, "a");
        assert!(table.at(24).is_none() && table.at(15).is_none());
        assert_eq!(table.at(35).unwrap().name, "b");
    }

    #[test]
    fn our_own_functions_are_found_by_their_address() {
        let mut symbols = Symbols::of(std::process::id()).unwrap();
        let address = demangled as *const () as usize as u64;
        assert!(symbols.name(address).ends_with("::demangled"), "{}", symbols.name(address));
    }
}
