//! Names of addresses: the kernel's and those of processes, while they live.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use blazesym::symbolize::source::{Kernel, Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use blazesym::{MaybeDefault, Pid};

/// Names of functions. What was named once is remembered, also when the process is gone.
pub struct Symbols {
    symbolizer: Symbolizer,
    kernel: HashMap<u64, String>,
    user: HashMap<(u32, u64), String>,
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols").field("known", &(self.kernel.len() + self.user.len())).finish()
    }
}

impl Default for Symbols {
    fn default() -> Self {
        Self::new()
    }
}

impl Symbols {
    /// Knows nothing yet.
    pub fn new() -> Self {
        let symbolizer = Symbolizer::builder().enable_code_info(true).enable_inlined_fns(true);
        Self { symbolizer: symbolizer.build(), kernel: HashMap::new(), user: HashMap::new() }
    }

    /// Names of the kernel's functions, one per address; `[kernel]` where it tells nobody.
    pub fn kernel(&mut self, addresses: &[u64]) -> Vec<String> {
        let unknown: Vec<u64> =
            addresses.iter().copied().filter(|a| !self.kernel.contains_key(a)).collect();
        if !unknown.is_empty() {
            // The image on disk would give lines at the price of reading hundreds of megabytes.
            let kernel = Kernel { vmlinux: MaybeDefault::None, ..Kernel::default() };
            let named =
                self.symbolizer.symbolize(&Source::Kernel(kernel), Input::AbsAddr(&unknown));
            let mut named = named.unwrap_or_default().into_iter();
            for address in unknown {
                let name = match named.next() {
                    Some(Symbolized::Sym(sym)) => sym.name.into_owned(),
                    _ => "[kernel]".to_owned(),
                };
                self.kernel.insert(address, name);
            }
        }
        addresses.iter().filter_map(|address| self.kernel.get(address).cloned()).collect()
    }

    /// Names of a process's functions, one per address. The first address is where the thread was,
    /// the others are where its callers go on. A function into which others were inlined is named
    /// with them: `outer;inner`. What has no name is given as its module and offset in the file,
    /// `[libfoo.so+0x1234]`.
    pub fn user(&mut self, pid: u32, addresses: &[u64]) -> Vec<String> {
        // A caller goes on behind its call, which may be another line or even another function.
        let calls = addresses.iter().enumerate().map(|(i, &a)| a - u64::from(i > 0 && a > 0));
        let calls: Vec<u64> = calls.collect();
        let unknown: Vec<u64> =
            calls.iter().copied().filter(|&a| !self.user.contains_key(&(pid, a))).collect();
        if !unknown.is_empty() {
            let names = self.user_names(pid, &unknown);
            self.user.extend(unknown.into_iter().map(|address| (pid, address)).zip(names));
        }
        calls.iter().filter_map(|&address| self.user.get(&(pid, address)).cloned()).collect()
    }

    fn user_names(&self, pid: u32, addresses: &[u64]) -> Vec<String> {
        let source = Source::Process(Process::new(Pid::from(pid)));
        let named = self.symbolizer.symbolize(&source, Input::AbsAddr(addresses));
        let mut named = named.unwrap_or_default().into_iter();
        let mut modules = None;
        let name = |&address: &u64| match named.next() {
            Some(Symbolized::Sym(sym)) => {
                let mut name = sym.name.into_owned();
                for inlined in &sym.inlined {
                    name.push(';');
                    name.push_str(&inlined.name);
                }
                name
            }
            _ => modules.get_or_insert_with(|| Modules::of(pid)).name(address),
        };
        addresses.iter().map(name).collect()
    }
}

/// What a process has mapped, for addresses without a name.
#[derive(Debug, Default)]
struct Modules(Vec<Module>);

#[derive(Debug)]
struct Module {
    start: u64,
    end: u64,
    offset: u64,
    name: String,
}

impl Modules {
    fn of(pid: u32) -> Self {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default())
    }

    fn parse(maps: &str) -> Self {
        let module = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let (start, end) = words.next()?.split_once('-')?;
            let offset = words.nth(1)?;
            let path = words.nth(2).unwrap_or("anonymous");
            let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
            let hex = |text| u64::from_str_radix(text, 16).ok();
            Some(Module {
                start: hex(start)?,
                end: hex(end)?,
                offset: hex(offset)?,
                name: name.unwrap_or_default(),
            })
        };
        Self(maps.lines().filter_map(module).collect())
    }

    fn name(&self, address: u64) -> String {
        let module = self.0.iter().find(|module| (module.start..module.end).contains(&address));
        match module {
            Some(Module { start, offset, name, .. }) => {
                format!("[{}+{:#x}]", name.trim_matches(['[', ']']), address - start + offset)
            }
            None if self.0.is_empty() => format!("[gone+{address:#x}]"),
            None => "[unmapped]".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
5500-5600 r-xp 00001000 08:01 12 /usr/bin/some-server
7000-7100 rwxp 00000000 00:00 0 
7f00-7f10 r-xp 00000000 00:00 0 [vdso]
";

    #[test]
    fn an_address_without_a_name_is_told_by_its_module() {
        let modules = Modules::parse(MAPS);
        assert_eq!(modules.name(0x5510), "[some-server+0x1010]");
        assert_eq!(modules.name(0x7001), "[anonymous+0x1]");
        assert_eq!(modules.name(0x7f00), "[vdso+0x0]");
        assert_eq!(modules.name(0x9000), "[unmapped]");
        assert_eq!(Modules::default().name(0x10), "[gone+0x10]");
    }

    #[inline(never)]
    fn a_function_of_this_test() -> usize {
        std::hint::black_box(a_function_of_this_test as fn() -> usize as usize)
    }

    #[test]
    fn own_functions_have_their_names() {
        let address = a_function_of_this_test() as u64;
        let names = Symbols::new().user(std::process::id(), &[address]);
        assert!(names[0].contains("a_function_of_this_test"), "{names:?}");
    }

    #[test]
    fn code_made_at_run_time_is_named_by_its_perf_map() {
        let code = memmap2::MmapMut::map_anon(4096).unwrap().make_exec().unwrap();
        let (start, pid) = (code.as_ptr() as u64, std::process::id());
        let path = format!("/tmp/perf-{pid}.map");
        std::fs::write(&path, format!("{start:x} 40 Compiled::method\n")).unwrap();
        let names = Symbols::new().user(pid, &[start + 8]);
        std::fs::remove_file(path).unwrap();
        assert_eq!(names, ["Compiled::method"]);
    }
}
