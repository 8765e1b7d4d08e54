//! A set of CPUs, read and written in both of the kernel's formats.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Linux's largest `NR_CPUS` is 8192; twice that is a garbage guard, not a limit anyone meets.
const LIMIT: usize = 16_384;

/// A set of CPU numbers.
///
/// Serialised as the kernel's list format, `"0,2-5"`: the syntax of `isolcpus=`, of
/// `/sys/devices/system/cpu/online` and of every `--cpus` flag.
#[derive(
    Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct CpuSet {
    /// 64 CPUs per word, lowest first, without trailing zero words, so that `Eq` is set equality.
    words: Vec<u64>,
}

/// Why a text is not a set of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuSetError {
    /// A part of a list is neither a number nor a range.
    #[error("`{part}` in CPU list `{list}` is neither a number nor a range: write 0,2-5")]
    Part {
        /// The part that could not be read.
        part: String,
        /// The whole list.
        list: String,
    },
    /// A range that runs backwards.
    #[error("range `{part}` in CPU list `{list}` runs backwards")]
    Backwards {
        /// The range.
        part: String,
        /// The whole list.
        list: String,
    },
    /// A CPU number that no kernel can have.
    #[error("CPU {cpu} is beyond any kernel's limit (Linux has at most 8192)")]
    TooLarge {
        /// The number found.
        cpu: usize,
    },
    /// A mask that is not comma-separated hexadecimal words.
    #[error(
        "`{0}` is not a CPU mask: expected comma-separated 32-bit hexadecimal words, as ff,ffffffff"
    )]
    Mask(String),
}

impl CpuSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// The CPUs `0..count`.
    pub fn first(count: usize) -> Self {
        (0..count).collect()
    }

    /// Reads the kernel's list format: `0,2-5`, and its strided form `0-31:2/8` ("2 of every 8").
    /// Empty text (and the `(null)` that some sysfs files print for it) is the empty set.
    pub fn parse_list(list: &str) -> Result<Self, CpuSetError> {
        let mut set = Self::new();
        let trimmed = list.trim();
        if trimmed.is_empty() || trimmed == "(null)" {
            return Ok(set);
        }
        for part in trimmed.split(',') {
            let wrong = || CpuSetError::Part { part: part.to_owned(), list: trimmed.to_owned() };
            let (range, stride) = match part.split_once(':') {
                Some((range, stride)) => (range, Some(stride)),
                None => (part, None),
            };
            let (low, high) = match range.split_once('-') {
                Some((low, high)) => (cpu(low).ok_or_else(wrong)?, cpu(high).ok_or_else(wrong)?),
                None => {
                    let only = cpu(range).ok_or_else(wrong)?;
                    (only, only)
                }
            };
            if low > high {
                return Err(CpuSetError::Backwards {
                    part: part.to_owned(),
                    list: trimmed.to_owned(),
                });
            }
            if high >= LIMIT {
                return Err(CpuSetError::TooLarge { cpu: high });
            }
            let (used, group) = match stride {
                None => (1, 1),
                Some(stride) => stride
                    .split_once('/')
                    .and_then(|(used, group)| Some((cpu(used)?, cpu(group)?)))
                    .filter(|(used, group)| (1..=*group).contains(used))
                    .ok_or_else(wrong)?,
            };
            for cpu in (low..=high).filter(|cpu| (cpu - low) % group < used) {
                set.insert(cpu);
            }
        }
        Ok(set)
    }

    /// Reads the kernel's mask format: `f`, `0f`, `ff,ffffffff` (32-bit words, highest first).
    pub fn parse_mask(mask: &str) -> Result<Self, CpuSetError> {
        let wrong = || CpuSetError::Mask(mask.trim().to_owned());
        let mut set = Self::new();
        let words: Vec<&str> = mask.trim().trim_start_matches("0x").split(',').collect();
        if words.len() * 32 > LIMIT {
            return Err(wrong());
        }
        for (index, word) in words.iter().rev().enumerate() {
            // Only the highest word of the kernel's own output may be shorter than 8 digits, but
            // people write `1,0` as well: each word counts 32 bits either way.
            if word.is_empty() || word.len() > 8 || !word.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            let bits = u32::from_str_radix(word, 16).map_err(|_| wrong())?;
            for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
                set.insert(index * 32 + bit);
            }
        }
        Ok(set)
    }

    /// Adds a CPU. Numbers beyond any kernel's limit are ignored; the parsers refuse them aloud.
    pub fn insert(&mut self, cpu: usize) {
        if cpu >= LIMIT {
            return;
        }
        let word = cpu / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % 64);
    }

    /// Whether the set holds `cpu`.
    pub fn contains(&self, cpu: usize) -> bool {
        self.words.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// How many CPUs the set holds.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set holds none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest CPU.
    pub fn lowest(&self) -> Option<usize> {
        self.iter().next()
    }

    /// The highest CPU.
    pub fn highest(&self) -> Option<usize> {
        let top = self.words.last()?;
        Some(self.words.len() * 64 - 1 - top.leading_zeros() as usize)
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 64 + bit)
        })
    }

    /// CPUs in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self::trimmed(self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect())
    }

    /// CPUs in either set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// CPUs in this set and not in the other.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let without = |(index, word): (usize, &u64)| {
            word & !other.words.get(index).copied().unwrap_or_default()
        };
        Self::trimmed(self.words.iter().enumerate().map(without).collect())
    }

    /// Whether the two sets share a CPU.
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether every CPU of this set is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.minus(other).is_empty()
    }

    /// The kernel's mask format for a machine with `cpus` possible CPUs: 32-bit words joined by
    /// commas, the highest first and only as wide as needed (`f` for 4 CPUs, `ff,ffffffff` for 40).
    pub fn to_mask(&self, cpus: usize) -> String {
        let cpus = cpus.max(self.highest().map_or(1, |top| top + 1));
        let mut out = String::new();
        for index in (0..cpus.div_ceil(32)).rev() {
            let word = self.words.get(index / 2).copied().unwrap_or_default() >> (index % 2 * 32);
            let width = match cpus - index * 32 {
                rest if rest < 32 => rest.div_ceil(4),
                _ => 8,
            };
            out.push_str(&format!("{:0width$x}", word as u32));
            if index > 0 {
                out.push(',');
            }
        }
        out
    }

    fn trimmed(mut words: Vec<u64>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        Self { words }
    }
}

fn cpu(text: &str) -> Option<usize> {
    // `parse` alone would take "+3".
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut set = Self::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(low) = cpus.next() {
            let mut high = low;
            while cpus.next_if_eq(&(high + 1)).is_some() {
                high += 1;
            }
            match low == high {
                true => write!(f, "{separator}{low}")?,
                false => write!(f, "{separator}{low}-{high}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;
    fn from_str(list: &str) -> Result<Self, Self::Err> {
        Self::parse_list(list)
    }
}

impl TryFrom<String> for CpuSet {
    type Error = CpuSetError;
    fn try_from(list: String) -> Result<Self, Self::Error> {
        Self::parse_list(&list)
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> Self {
        set.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> CpuSet {
        CpuSet::parse_list(text).unwrap()
    }

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(list("0,2-5").iter().collect::<Vec<_>>(), [0, 2, 3, 4, 5]);
        assert_eq!(list("0-31:2/8"), list("0-1,8-9,16-17,24-25"));
        assert_eq!(list(" 3\n"), list("3"));
        assert!(list("").is_empty() && list("(null)").is_empty());
        for bad in ["a", "1-", "-1", "1,,2", "3-1", "1-2:0/4", "1-2:5/4", "99999999", "+3", "1 2"] {
            assert!(CpuSet::parse_list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn masks_of_more_than_32_cpus_use_commas() {
        assert_eq!(CpuSet::parse_mask("ff,00000001").unwrap(), list("0,32-39"));
        assert_eq!(list("0-3").to_mask(4), "f");
        assert_eq!(list("0-39").to_mask(40), "ff,ffffffff");
        assert_eq!(list("2-3").to_mask(128), "00000000,00000000,00000000,0000000c");
        for bad in ["", "g", "fffffffff", "f,,f", "-1", "+f"] {
            assert!(CpuSet::parse_mask(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mask_of_4096_cpus_is_read() {
        let mask = vec!["ffffffff"; 128].join(",");
        assert_eq!(CpuSet::parse_mask(&mask).unwrap().len(), 4096);
        assert!(CpuSet::parse_mask(&vec!["ffffffff"; 1000].join(",")).is_err());
    }

    proptest! {
        #[test]
        fn both_formats_are_inverses(cpus in proptest::collection::btree_set(0usize..700, 0..80), spare in 0usize..100) {
            let set: CpuSet = cpus.iter().copied().collect();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), cpus.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(&CpuSet::parse_list(&set.to_string()).unwrap(), &set);
            let width = set.highest().map_or(1, |top| top + 1) + spare;
            prop_assert_eq!(&CpuSet::parse_mask(&set.to_mask(width)).unwrap(), &set);
            prop_assert_eq!(set.len(), cpus.len());
        }

        #[test]
        fn set_algebra_agrees_with_btreeset(
            a in proptest::collection::btree_set(0usize..300, 0..60),
            b in proptest::collection::btree_set(0usize..300, 0..60),
        ) {
            let (x, y): (CpuSet, CpuSet) = (a.iter().copied().collect(), b.iter().copied().collect());
            prop_assert_eq!(x.and(&y), a.intersection(&b).copied().collect());
            prop_assert_eq!(x.or(&y), a.union(&b).copied().collect());
            prop_assert_eq!(x.minus(&y), a.difference(&b).copied().collect());
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "[0-9a-fA-F,:/x -]{0,60}") {
            let _ = CpuSet::parse_list(&text);
            let _ = CpuSet::parse_mask(&text);
        }
    }
}
