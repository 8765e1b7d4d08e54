//! Who called whom, from a copy of a stack. Most libraries keep no frame pointers; what they keep is
//! `.eh_frame`, the tables that exceptions need.

use std::fmt;
use std::fs;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use object::{Object, ObjectSection, ObjectSegment};
use quietcore_bpf::UserPath;

use super::symbols::{Mapping, Symbols};

/// More frames than these say nothing new.
const FRAMES: usize = 64;

/// What unwinds the stacks of one process.
#[derive(Default)]
pub struct Stacks {
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
}

impl fmt::Debug for Stacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stacks").finish_non_exhaustive()
    }
}

impl Stacks {
    /// With the tables of every file that a process has mapped; one that cannot be read cuts the
    /// stacks that lead through it.
    pub fn of(symbols: &Symbols) -> Self {
        let mut stacks = Self::default();
        for mapping in symbols.mappings() {
            if let Some(module) = module(mapping, symbols) {
                stacks.unwinder.add_module(module);
            }
        }
        stacks
    }

    /// The addresses of a path, innermost first; each lies in its function, also where it is one
    /// that is returned to. Whether that is all of it: a stack that was not copied or has no tables
    /// is cut.
    pub fn walk(&mut self, path: &UserPath) -> (Vec<u64>, bool) {
        let regs = path.regs;
        let mut read = |address: u64| {
            let at = usize::try_from(address.checked_sub(regs.sp).ok_or(())?).map_err(|_| ())?;
            let word = path.stack.get(at..).and_then(|rest| rest.first_chunk()).ok_or(())?;
            Ok(u64::from_ne_bytes(*word))
        };
        let start = UnwindRegsX86_64::new(regs.ip, regs.sp, regs.bp);
        let mut frames = self.unwinder.iter_frames(regs.ip, start, &mut self.cache, &mut read);
        let mut addresses = Vec::new();
        while addresses.len() < FRAMES {
            match frames.next() {
                Ok(Some(frame)) => addresses.push(frame.address_for_lookup()),
                Ok(None) => return (addresses, true),
                Err(_) => break,
            }
        }
        (addresses, false)
    }
}

fn module(mapping: &Mapping, symbols: &Symbols) -> Option<Module<Vec<u8>>> {
    let data = fs::read(symbols.open_as(&mapping.path)).ok()?;
    let file = object::File::parse(&*data).ok()?;
    // Where address 0 of the file would be.
    let segment = file.segments().find(|segment| {
        let (offset, size) = segment.file_range();
        (offset..offset + size).contains(&mapping.offset)
            || (mapping.offset..mapping.offset + (mapping.end - mapping.start)).contains(&offset)
    })?;
    let in_file = segment.address().wrapping_sub(segment.file_range().0);
    let base = mapping.start.wrapping_sub(mapping.offset.wrapping_add(in_file));
    let range = |name: &str| {
        let section = file.section_by_name(name)?;
        Some(section.address()..section.address() + section.size())
    };
    let bytes =
        |name: &str| Some(file.section_by_name(name)?.uncompressed_data().ok()?.into_owned());
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        text: bytes(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: bytes(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: bytes(".eh_frame_hdr"),
        debug_frame: bytes(".debug_frame"),
        ..ExplicitModuleSectionInfo::default()
    };
    let avma = mapping.start..mapping.end;
    Some(Module::new(mapping.path.clone(), avma, base, sections))
}

#[cfg(test)]
mod tests {
    use quietcore_bpf::UserRegs;

    use super::*;

    #[test]
    fn a_stack_that_was_not_copied_is_cut_after_its_first_frame() {
        let symbols = Symbols::of(std::process::id()).unwrap();
        let mut stacks = Stacks::of(&symbols);
        let ip = module as *const () as usize as u64;
        let regs = UserRegs { ip, sp: 0x7000, bp: 0x7100 };
        let path = UserPath { tid: 1, out_ts: 0, of_waker: false, regs, stack: Vec::new() };
        let (addresses, whole) = stacks.walk(&path);
        assert_eq!(addresses, [ip]);
        assert!(!whole);
    }

    #[test]
    fn garbage_for_a_stack_ends() {
        let symbols = Symbols::of(std::process::id()).unwrap();
        let mut stacks = Stacks::of(&symbols);
        for byte in [0, 0x5a, 0xff] {
            let regs = UserRegs { ip: 0x1234, sp: 0x7000, bp: 0x7100 };
            let path =
                UserPath { tid: 1, out_ts: 0, of_waker: false, regs, stack: vec![byte; 8192] };
            assert!(stacks.walk(&path).0.len() <= FRAMES);
        }
    }
}
