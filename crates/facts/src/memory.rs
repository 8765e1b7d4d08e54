//! Memory: huge pages, swap, what the kernel did to find free pages, and how it is set.

use std::collections::BTreeMap;

use quietcore_measure::Reading;
use quietcore_sys::Host;
use quietcore_sys::host::reading;

use crate::Facts;

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// The memory of a host.
#[derive(Clone, Debug)]
pub struct Memory {
    /// `/proc/meminfo` in KiB (counts of huge pages as they are).
    pub info: BTreeMap<String, u64>,
    /// `/proc/vmstat`: counters since boot.
    pub vmstat: Reading<BTreeMap<String, u64>>,
    /// When the kernel assembles huge pages unasked: `always`, `madvise`, `never`.
    pub thp: Reading<String>,
    /// Sizes that are switched on by themselves, as `64kB always`.
    pub thp_sizes: Reading<Vec<String>>,
    /// What a page fault does to get one: `always` … `never`.
    pub thp_defrag: Reading<String>,
    /// Reserved huge pages by node and size.
    pub pools: Vec<Pool>,
    /// Swap areas.
    pub swaps: Reading<Vec<Swap>>,
    /// `numastat` of each node: allocations since boot by where they were wanted and ended up.
    pub numastat: BTreeMap<usize, BTreeMap<String, u64>>,
}

/// Reserved huge pages of one size on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The node.
    pub node: usize,
    /// Size of a page in KiB.
    pub size_kib: u64,
    /// Pages reserved.
    pub total: u64,
    /// Pages nobody uses.
    pub free: u64,
}

/// A swap area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// The device or file.
    pub name: String,
    /// Size in KiB.
    pub size_kib: u64,
    /// Used, in KiB.
    pub used_kib: u64,
}

/// Share of the last seconds, in percent, in which tasks waited for a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// At least one task waited, over 10 s.
    pub some_avg10: f64,
    /// At least one task waited, over 60 s.
    pub some_avg60: f64,
    /// All of them waited, over 60 s.
    pub full_avg60: f64,
}

impl Memory {
    pub(crate) fn read(facts: &Facts) -> Self {
        let host = facts.host();
        let choice = |name: &str| {
            reading(host.line(&format!("{THP}/{name}"))).and_then(|text| match chosen(&text) {
                Some(word) => Reading::Measured(word.to_owned()),
                None => Reading::Failed(format!(
                    "{THP}/{name}: expected a choice in brackets, found `{text}`"
                )),
            })
        };
        let nodes = nodes(host);
        let numastat = nodes.iter().filter_map(|&node| {
            let text = host.read(&format!("/sys/devices/system/node/node{node}/numastat")).ok()?;
            Some((node, pairs(&text)))
        });
        Self {
            info: pairs(&host.read("/proc/meminfo").unwrap_or_default()),
            vmstat: reading(host.read("/proc/vmstat")).map(|text| pairs(&text)),
            thp: choice("enabled"),
            thp_sizes: thp_sizes(host),
            thp_defrag: choice("defrag"),
            numastat: numastat.collect(),
            pools: nodes.iter().flat_map(|&node| pools(host, node)).collect(),
            swaps: reading(host.read("/proc/swaps")).and_then(|text| swaps(&text)),
        }
    }

    /// Sum of the counters of `/proc/vmstat` whose names begin so (`allocstall_`).
    pub fn counted(&self, prefix: &str) -> Option<u64> {
        sum(self.vmstat.value()?, prefix)
    }
}

/// Sum of the values whose names begin so; `None` if there is none.
pub fn sum(counters: &BTreeMap<String, u64>, prefix: &str) -> Option<u64> {
    let mut found = counters.iter().filter(|(name, _)| name.starts_with(prefix)).peekable();
    found.peek()?;
    Some(found.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count)))
}

/// Lines of `name value` or `name: value kB`; lines that are neither are left out.
pub fn pairs(text: &str) -> BTreeMap<String, u64> {
    let pair = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.trim_end_matches(':');
        Some((name.to_owned(), words.next()?.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// The word in brackets of `always [madvise] never`.
pub fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.trim()).filter(|word| !word.is_empty())
}

/// What PSI says of `memory`, `io` or `cpu`.
pub fn pressure(host: &Host, of: &str) -> Reading<Pressure> {
    let path = format!("/proc/pressure/{of}");
    reading(host.read(&path)).and_then(|text| match parse_pressure(&text) {
        Some(pressure) => Reading::Measured(pressure),
        None => Reading::Failed(format!("{path}: expected `some avg10=… avg60=…`")),
    })
}

fn parse_pressure(text: &str) -> Option<Pressure> {
    let value = |line: &str, name: &str| {
        let words = text.lines().find_map(|l| l.strip_prefix(line))?.split_whitespace();
        let mut named = words.filter_map(|word| word.split_once('='));
        let share: f64 = named.find(|(key, _)| *key == name)?.1.parse().ok()?;
        (0.0..=100.0).contains(&share).then_some(share)
    };
    Some(Pressure {
        some_avg10: value("some ", "avg10")?,
        some_avg60: value("some ", "avg60")?,
        full_avg60: value("full ", "avg60").unwrap_or_default(),
    })
}

fn nodes(host: &Host) -> Vec<usize> {
    let names = host.list("/sys/devices/system/node").unwrap_or_default();
    let mut nodes: Vec<usize> =
        names.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
    nodes.sort_unstable();
    nodes
}

fn pools(host: &Host, node: usize) -> Vec<Pool> {
    let folder = format!("/sys/devices/system/node/node{node}/hugepages");
    let names = host.list(&folder).unwrap_or_default();
    let pool = |name: &String| {
        let count = |file: &str| -> Option<u64> {
            host.number(&format!("{folder}/{name}/{file}")).ok()?.try_into().ok()
        };
        Some(Pool {
            node,
            size_kib: name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?,
            total: count("nr_hugepages")?,
            free: count("free_hugepages")?,
        })
    };
    names.iter().filter_map(pool).collect()
}

/// Since 6.8 each size has its own switch; `inherit` follows the common one.
fn thp_sizes(host: &Host) -> Reading<Vec<String>> {
    let mut sizes = Vec::new();
    let names = match host.list(THP) {
        Ok(names) => names,
        Err(error) => return error.into_reading(),
    };
    for name in names {
        let Some(size) = name.strip_prefix("hugepages-") else { continue };
        match reading(host.line(&format!("{THP}/{name}/enabled"))) {
            Reading::Measured(text) if chosen(&text) == Some("always") => {
                sizes.push(format!("{size} always"));
            }
            Reading::Failed(why) => return Reading::Failed(why),
            // A size only for files and shared memory has no such switch.
            Reading::Measured(_) | Reading::Unsupported(_) => {}
        }
    }
    Reading::Measured(sizes)
}

/// A heading, then a line per area; anything else is no answer, not "no swap".
fn swaps(text: &str) -> Reading<Vec<Swap>> {
    let swap = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, _, size, used, _] = words[..] else { return None };
        Some(Swap {
            name: name.to_owned(),
            size_kib: size.parse().ok()?,
            used_kib: used.parse().ok()?,
        })
    };
    let mut lines = text.lines();
    let heading = lines.next().is_some_and(|line| line.starts_with("Filename"));
    match lines.map(swap).collect() {
        Some(areas) if heading => Reading::Measured(areas),
        _ => Reading::Failed("/proc/swaps: expected a heading and a line per area".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_the_word_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("[defer+madvise]"), Some("defer+madvise"));
        for garbage in ["", "[", "]", "[]", "always", "][", "[ ]"] {
            assert_eq!(chosen(garbage), None, "{garbage}");
        }
    }

    #[test]
    fn counters_add_up_by_the_beginning_of_their_names() {
        let counters = pairs("allocstall_dma 1\nallocstall_normal 41\ncompact_stall x\nlonely\n");
        assert_eq!(sum(&counters, "allocstall"), Some(42));
        assert_eq!(sum(&counters, "compact_stall"), None);
        let huge = pairs("a_1 18446744073709551615\na_2 5\n");
        assert_eq!(sum(&huge, "a_"), Some(u64::MAX));
        assert_eq!(pairs("MemTotal:       16 kB\n")["MemTotal"], 16);
    }

    #[test]
    fn pressure_is_read_and_half_of_it_is_refused() {
        let text = "some avg10=78.54 avg60=32.18 avg300=37.27 total=440236934\nfull avg10=0.00 \
                    avg60=0.50 avg300=0.00 total=0\n";
        let read = parse_pressure(text).unwrap();
        assert_eq!((read.some_avg10, read.some_avg60, read.full_avg60), (78.54, 32.18, 0.5));
        for garbage in
            ["", "some\n", "some avg10=x avg60=1", "some avg10=1", "some avg10=inf avg60=1"]
        {
            assert_eq!(parse_pressure(garbage), None, "{garbage}");
        }
    }

    #[test]
    fn swap_areas_are_read_behind_their_heading_and_garbage_is_no_answer() {
        let heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        let area = "/dev/sda2                               partition\t2097148\t\t512\t\t-2\n";
        let read = swaps(&format!("{heading}{area}"));
        let [area] = &read.value().unwrap()[..] else { panic!("one area: {read:?}") };
        assert_eq!(
            (area.name.as_str(), area.size_kib, area.used_kib),
            ("/dev/sda2", 2_097_148, 512)
        );
        assert_eq!(swaps(heading), Reading::Measured(Vec::new()));
        for garbage in ["", "x\n", "/dev/sda2 partition 1 1 1\n", "Filename\ngarbage\n"] {
            assert!(matches!(swaps(garbage), Reading::Failed(_)), "{garbage}");
        }
    }
}
