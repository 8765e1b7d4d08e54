//! One process: what its threads have counted, what it maps, and which groups limit it.
//!
//! Each question is answered as a whole and cut down to what checks read. The raw files of a large
//! process are megabytes, hold the paths of everything it has mapped, and would make a snapshot
//! both large and telling.

mod elf;
mod groups;
mod jvm;
mod options;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Host, HostError, Trouble, live};

pub use groups::CpuLimit;
pub use jvm::{Jvm, JvmCollector};
pub(super) use options::runtime_options;

/// Above this size of its page tables, walking a process' memory takes more than some ten
/// milliseconds, in which the process cannot change its memory map: 1 MiB maps 512 MiB in small
/// pages.
const LARGEST_WALK_KIB: u64 = 1024;

/// What a thread has counted since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCounters {
    /// Thread.
    pub tid: u32,
    /// Start, in clock ticks of 1/100 s since boot.
    pub started_ticks: u64,
    /// Times it gave up its CPU.
    pub voluntary: u64,
    /// Times it was pushed off its CPU.
    pub involuntary: u64,
    /// Time on a CPU in nanoseconds; `None` where the kernel does not count (`SCHED_INFO`).
    pub ran_ns: Option<u64>,
    /// Time it was runnable and waited for a CPU, in nanoseconds.
    pub waited_ns: Option<u64>,
    /// Times it got a CPU.
    pub slices: Option<u64>,
    /// Page faults that needed no I/O.
    pub minor_faults: u64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
    /// By how much its timed sleeps may be late; `None` where the caller may not ask.
    pub timer_slack_ns: Option<u64>,
}

/// What collects a program's garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// A Java virtual machine: `libjvm.so` is mapped.
    Jvm,
    /// Go: the program holds `.go.buildinfo` or `.note.go.buildid`.
    Go,
    /// .NET: `libcoreclr.so` or `libmonosgen` is mapped.
    DotNet,
    /// CPython: `libpython` is mapped, or the program holds `.PyRuntime`.
    Python,
    /// Node.js as a library (`libnode.so`); a program that was linked with it is not recognised.
    Node,
    /// None of these.
    Native,
}

impl Host {
    /// What the threads of a process have counted, in the order of [`Host::threads`].
    pub fn thread_counters(&self, pid: u32) -> Result<Vec<ThreadCounters>, HostError> {
        self.answer(format!("thread counters {pid}"), |root| {
            let tids = live::list(root, &format!("/proc/{pid}/task"))?;
            Ok(tids.iter().filter_map(|tid| counters(root, pid, tid.parse().ok()?)).collect())
        })
    }

    /// The base names of the shared libraries that a process has mapped, and of its program's own
    /// allocator or runtime where it is one of them.
    pub fn libraries(&self, pid: u32) -> Result<Vec<String>, HostError> {
        self.answer(format!("libraries {pid}"), |root| {
            Ok(libraries(&live::read(root, &format!("/proc/{pid}/maps"))?))
        })
    }

    /// KiB of the process' own memory (anonymous, shared, huge; not the pages of files) per node.
    ///
    /// # Errors
    /// Besides those of the file: a process whose memory is too large to be walked without being
    /// held up.
    pub fn node_memory_kib(&self, pid: u32) -> Result<BTreeMap<usize, u64>, HostError> {
        self.answer(format!("node memory {pid}"), |root| {
            walkable(root, pid)?;
            Ok(node_memory(&live::read(root, &format!("/proc/{pid}/numa_maps"))?))
        })
    }

    /// KiB by kind as `/proc/P/smaps_rollup` sums them up (`AnonHugePages`, `Rss`, …).
    ///
    /// # Errors
    /// As [`Host::node_memory_kib`].
    pub fn memory_kinds_kib(&self, pid: u32) -> Result<BTreeMap<String, u64>, HostError> {
        self.answer(format!("memory kinds {pid}"), |root| {
            walkable(root, pid)?;
            Ok(kinds(&live::read(root, &format!("/proc/{pid}/smaps_rollup"))?))
        })
    }

    /// What collects the garbage of a process, told by what is mapped and by the sections of its
    /// program, never by a name.
    pub fn runtime(&self, pid: u32) -> Result<Runtime, HostError> {
        self.answer(format!("runtime {pid}"), |root| {
            let mapped = libraries(&live::read(root, &format!("/proc/{pid}/maps"))?);
            if let Some(runtime) = mapped.iter().find_map(|name| of_library(name)) {
                return Ok(runtime);
            }
            let program = live::open(root, &format!("/proc/{pid}/exe"))?;
            let sections = elf::sections(&program)?;
            Ok(sections.iter().find_map(|name| of_section(name)).unwrap_or(Runtime::Native))
        })
    }

    /// The limits on CPU time of the process' control group and of every group above it.
    pub fn cpu_limits(&self, pid: u32) -> Result<Vec<CpuLimit>, HostError> {
        self.answer(format!("cpu limits {pid}"), |root| groups::read(root, pid))
    }

    /// What a Java virtual machine says of itself in its performance data.
    ///
    /// # Errors
    /// Missing where the process maps no such file (`-XX:-UsePerfData`,
    /// `-XX:+PerfDisableSharedMem`, or no virtual machine).
    pub fn jvm(&self, pid: u32) -> Result<Jvm, HostError> {
        self.answer(format!("jvm {pid}"), |root| jvm::read(root, pid))
    }
}

fn counters(root: &Path, pid: u32, tid: u32) -> Option<ThreadCounters> {
    let read = |name: &str| live::read(root, &format!("/proc/{pid}/task/{tid}/{name}"));
    let mut counters =
        ThreadCounters { tid, ..from_stat(&read("stat").ok()?, &read("status").ok()?)? };
    if let Some([ran, waited, slices]) = read("schedstat").ok().and_then(|text| schedstat(&text)) {
        (counters.ran_ns, counters.waited_ns, counters.slices) =
            (Some(ran), Some(waited), Some(slices));
    }
    // Any thread's number is a folder of /proc, though only the first thread's is listed.
    let slack = live::read(root, &format!("/proc/{tid}/timerslack_ns")).ok();
    counters.timer_slack_ns = slack.and_then(|text| text.trim().parse().ok());
    Some(counters)
}

/// Fields 10, 12 and 22 of proc(5), and the switches of `status`.
fn from_stat(stat: &str, status: &str) -> Option<ThreadCounters> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let switches = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse::<u64>().ok()
    };
    Some(ThreadCounters {
        minor_faults: field(10)?,
        major_faults: field(12)?,
        started_ticks: field(22)?,
        voluntary: switches("voluntary_ctxt_switches:")?,
        involuntary: switches("nonvoluntary_ctxt_switches:")?,
        ..ThreadCounters::default()
    })
}

/// A kernel without SCHED_INFO prints three zeros; a thread that can be read has run.
fn schedstat(text: &str) -> Option<[u64; 3]> {
    let numbers: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let numbers: [u64; 3] = numbers.try_into().ok()?;
    (numbers != [0; 3]).then_some(numbers)
}

/// Whether the process' memory is small enough to be walked.
fn walkable(root: &Path, pid: u32) -> Result<(), Trouble> {
    let status = live::read(root, &format!("/proc/{pid}/status"))?;
    let tables = status.lines().find_map(|line| line.strip_prefix("VmPTE:"));
    let kib: u64 = tables
        .and_then(|text| text.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or_default();
    match kib <= LARGEST_WALK_KIB {
        true => Ok(()),
        false => Err(Trouble::Other(format!(
            "not read: walking {kib} KiB of page tables would hold the process up"
        ))),
    }
}

/// The path is the sixth column of a mapping; a deleted library is still the one in use.
fn path_of(line: &str) -> Option<&str> {
    let at = line.find('/')?;
    Some(line[at..].trim_end().trim_end_matches(" (deleted)"))
}

fn libraries(maps: &str) -> Vec<String> {
    let name = |line| {
        let (_, name) = path_of(line)?.rsplit_once('/')?;
        (name.ends_with(".so") || name.contains(".so.")).then(|| name.to_owned())
    };
    let names: BTreeSet<String> = maps.lines().filter_map(name).collect();
    names.into_iter().collect()
}

fn of_library(name: &str) -> Option<Runtime> {
    let known = [
        ("libjvm.so", Runtime::Jvm),
        ("libcoreclr.so", Runtime::DotNet),
        ("libmonosgen-", Runtime::DotNet),
        ("libpython", Runtime::Python),
        ("libnode.so", Runtime::Node),
    ];
    known.iter().find(|(start, _)| name.starts_with(start)).map(|(_, runtime)| *runtime)
}

fn of_section(name: &str) -> Option<Runtime> {
    match name {
        ".go.buildinfo" | ".note.go.buildid" => Some(Runtime::Go),
        ".PyRuntime" => Some(Runtime::Python),
        _ => None,
    }
}

/// `7f00 default anon=10 dirty=10 N0=6 N1=4 kernelpagesize_kB=4`
fn node_memory(numa_maps: &str) -> BTreeMap<usize, u64> {
    let mut nodes = BTreeMap::new();
    for line in numa_maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let own = |file: &str| {
            ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"]
                .iter()
                .any(|start| file.starts_with(start))
        };
        let file = words.iter().find_map(|word| word.strip_prefix("file="));
        if file.is_some_and(|file| !own(file)) && !words.contains(&"huge") {
            continue;
        }
        let kib = words.iter().find_map(|word| word.strip_prefix("kernelpagesize_kB="));
        let kib: u64 = kib.and_then(|kib| kib.parse().ok()).unwrap_or(4);
        for (node, pages) in words.iter().filter_map(|word| word.strip_prefix('N')?.split_once('='))
        {
            let (Ok(node), Ok(pages)) = (node.parse::<usize>(), pages.parse::<u64>()) else {
                continue;
            };
            let sum: &mut u64 = nodes.entry(node).or_default();
            *sum = sum.saturating_add(pages.saturating_mul(kib));
        }
    }
    nodes
}

fn kinds(rollup: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_owned(), value.trim().strip_suffix(" kB")?.trim().parse().ok()?))
    };
    rollup.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_come_from_the_documented_fields() {
        let stat = "7 (a) b) S 1 7 7 0 -1 0 11 0 3 0 5 6 0 0 20 0 1 0 900 0 0 1 0";
        let status = "Name:\ta) b\nvoluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n";
        let read = from_stat(stat, status).unwrap();
        assert_eq!((read.minor_faults, read.major_faults, read.started_ticks), (11, 3, 900));
        assert_eq!((read.voluntary, read.involuntary), (40, 2));
        assert_eq!(schedstat("12 34 5\n"), Some([12, 34, 5]));
        for garbage in ["", "0 0 0\n", "1 2", "1 2 x", "1 2 3 4"] {
            assert_eq!(schedstat(garbage), None, "{garbage}");
        }
        for garbage in ["", "1 (x", "1 (x) S 1", ") "] {
            assert!(from_stat(garbage, status).is_none());
        }
        assert!(from_stat(stat, "").is_none());
    }

    #[test]
    fn libraries_are_kept_by_base_name_only() {
        let maps = "55d0-55d1 r-xp 0 08:01 1  /home/jane/secret-strategy/engine\n\
            7f00-7f01 r-xp 0 08:01 2  /opt/x y/libjemalloc.so.2 (deleted)\n\
            7f02-7f03 r-xp 0 08:01 3  /usr/lib/libc.so.6\n\
            7f03-7f04 r--p 0 08:01 3  /usr/lib/libc.so.6\n\
            7f04-7f05 rw-p 0 00:00 0  [heap]\n7f06-7f07 r--p 0 08:01 4  /data/book.sort\n";
        assert_eq!(libraries(maps), ["libc.so.6", "libjemalloc.so.2"]);
        assert!(libraries("\n/\n.so\n").is_empty());
    }

    #[test]
    fn memory_per_node_counts_what_the_process_made_itself() {
        let text = "7f00 default anon=10 dirty=10 N0=6 N1=4 kernelpagesize_kB=4\n\
            7f01 bind:0 file=/mnt/huge/map_0 huge dirty=2 N0=2 kernelpagesize_kB=2048\n\
            7f02 default file=/dev/shm/ring dirty=1 N1=1 kernelpagesize_kB=4\n\
            7f03 default file=/usr/lib/libc.so.6 mapped=9 N1=9 kernelpagesize_kB=4\n\
            7f04 default N0=x Nx=1 N=2\n";
        assert_eq!(node_memory(text), BTreeMap::from([(0, 24 + 4096), (1, 16 + 4)]));
        assert_eq!(
            node_memory("a anon=1 N0=18446744073709551615 kernelpagesize_kB=4"),
            BTreeMap::from([(0, u64::MAX)])
        );
    }

    #[test]
    fn the_kinds_of_memory_are_read_by_name() {
        let text = "55d0-7fff ---p 00000000 00:00 0 [rollup]\nRss:    3744 kB\nAnonHugePages:  2048 kB\nx\n";
        let read = kinds(text);
        assert_eq!((read["Rss"], read["AnonHugePages"]), (3744, 2048));
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn this_process_answers_and_one_that_is_gone_is_missing() {
        let (host, own) = (Host::live(), std::process::id());
        let counters = host.thread_counters(own).unwrap();
        assert!(counters.iter().any(|c| c.tid == own && c.started_ticks > 0));
        assert!(host.libraries(own).unwrap().iter().any(|name| name.starts_with("libc")));
        assert_eq!(host.runtime(own).unwrap(), Runtime::Native);
        assert!(host.memory_kinds_kib(own).unwrap()["Rss"] > 0);
        assert_eq!(host.jvm(own).unwrap_err().trouble, Trouble::Missing);
        for trouble in [
            host.thread_counters(u32::MAX).unwrap_err().trouble,
            host.libraries(u32::MAX).unwrap_err().trouble,
            host.runtime(u32::MAX).unwrap_err().trouble,
            host.node_memory_kib(u32::MAX).unwrap_err().trouble,
            host.cpu_limits(u32::MAX).unwrap_err().trouble,
        ] {
            assert_eq!(trouble, Trouble::Missing);
        }
    }
}
