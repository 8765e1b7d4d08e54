//! What the user writes: `btc=4,eth=5,tid:812=6,main=3,*=0-1`.

use std::fmt;
use std::str::FromStr;

use quietcore_measure::{CpuSet, CpuSetError};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Threads and the CPUs they belong on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    rules: Vec<Rule>,
}

/// One entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which thread.
    pub who: Who,
    /// The CPUs it may run on; never empty.
    pub cpus: CpuSet,
}

/// Which thread an entry means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// `main`: the thread that the process began with.
    Main,
    /// `tid:812`: by its number.
    Thread(u32),
    /// By its name, or by the beginning of it.
    Named(String),
    /// `*`: all that no other entry means.
    Others,
}

/// Why a text is no map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Nothing is in it.
    #[error("the map names no thread: write NAME=CPU, as btc=4,encoder=7")]
    Empty,
    /// A part is no entry.
    #[error("`{0}` is no entry of a map: write NAME=CPU, tid:NUMBER=CPU, main=CPU or *=CPUS")]
    Entry(String),
    /// The CPUs of an entry cannot be read.
    #[error("{who}: {error}")]
    Cpus {
        /// Whose.
        who: Who,
        /// Why.
        error: CpuSetError,
    },
    /// An entry without CPUs.
    #[error("{0} is given no CPU: write {0}=4")]
    NoCpu(Who),
    /// Two entries of the same thread.
    #[error("{0} is in the map twice")]
    Twice(Who),
}

impl Map {
    /// The entries, in the order of the text.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether it names no thread.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Takes the entries of another; its word counts where both name the same thread.
    pub fn extend(&mut self, other: Self) {
        self.rules.retain(|rule| other.rules.iter().all(|theirs| theirs.who != rule.who));
        self.rules.extend(other.rules);
    }

    fn add(&mut self, who: &str, cpus: &str) -> Result<(), MapError> {
        let who = Who::parse(who).ok_or_else(|| MapError::Entry(format!("{who}={cpus}")))?;
        let cpus =
            CpuSet::parse_list(cpus).map_err(|error| MapError::Cpus { who: who.clone(), error })?;
        if cpus.is_empty() {
            return Err(MapError::NoCpu(who));
        }
        if self.rules.iter().any(|rule| rule.who == who) {
            return Err(MapError::Twice(who));
        }
        self.rules.push(Rule { who, cpus });
        Ok(())
    }
}

impl Who {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text {
            "" => None,
            "main" => Some(Self::Main),
            "*" => Some(Self::Others),
            _ => match text.strip_prefix("tid:") {
                Some(tid) if tid.bytes().all(|b| b.is_ascii_digit()) => {
                    tid.parse().ok().filter(|tid| *tid > 0).map(Self::Thread)
                }
                Some(_) => None,
                None => (!text.contains(['=', ','])).then(|| Self::Named(text.to_owned())),
            },
        }
    }
}

impl FromStr for Map {
    type Err = MapError;

    /// A part without `=` goes on with the list of CPUs before it: `*=0,2-3`.
    fn from_str(text: &str) -> Result<Self, MapError> {
        let mut entries: Vec<(&str, String)> = Vec::new();
        for part in text.split(',') {
            match (part.split_once('='), entries.last_mut()) {
                (Some((who, cpus)), _) => entries.push((who, cpus.trim().to_owned())),
                (None, Some((_, cpus))) => *cpus = format!("{cpus},{}", part.trim()),
                (None, None) if text.trim().is_empty() => return Err(MapError::Empty),
                (None, None) => return Err(MapError::Entry(part.to_owned())),
            }
        }
        let mut map = Self::default();
        for (who, cpus) in entries {
            map.add(who, &cpus)?;
        }
        Ok(map)
    }
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Rule { who, cpus }) in self.rules.iter().enumerate() {
            let separator = if index > 0 { "," } else { "" };
            write!(f, "{separator}{who}={cpus}")?;
        }
        Ok(())
    }
}

/// As a table, `{"btc": "4"}`.
impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.rules.iter().map(|Rule { who, cpus }| (who.to_string(), cpus)))
    }
}

/// From a table of lists; a single CPU may stand there as a number: `btc = 4`.
impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Table)
    }
}

struct Table;

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a CPU or a list of CPUs, as 4 or \"2,4-5\"")]
enum Cpus {
    One(u32),
    List(String),
}

impl<'de> Visitor<'de> for Table {
    type Value = Map;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of threads and their CPUs, as btc = 4")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Map, A::Error> {
        let mut map = Map::default();
        while let Some((who, cpus)) = table.next_entry::<String, Cpus>()? {
            let cpus = match cpus {
                Cpus::One(cpu) => cpu.to_string(),
                Cpus::List(list) => list,
            };
            map.add(&who, &cpus).map_err(de::Error::custom)?;
        }
        Ok(map)
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Main => f.write_str("main"),
            Self::Thread(tid) => write!(f, "tid:{tid}"),
            Self::Named(name) => f.write_str(name),
            Self::Others => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map(text: &str) -> Result<Map, MapError> {
        text.parse()
    }

    #[test]
    fn a_map_is_read_as_people_write_it() {
        let read =
            map(" btc=4, eth = 5,GC Thread#0=6-7,tid:812=8,main=3,*=0,2-1024:1/512").unwrap();
        let written: Vec<String> =
            read.rules().iter().map(|rule| format!("{:?} {}", rule.who, rule.cpus)).collect();
        assert_eq!(
            written,
            [
                r#"Named("btc") 4"#,
                r#"Named("eth") 5"#,
                r#"Named("GC Thread#0") 6-7"#,
                "Thread(812) 8",
                "Main 3",
                "Others 0,2,514",
            ]
        );
    }

    #[test]
    fn what_is_no_map_is_refused_with_the_part_that_is_wrong() {
        for (text, why) in [
            ("", "names no thread"),
            ("btc", "`btc` is no entry"),
            ("=4", "`=4` is no entry"),
            ("tid:x=4", "`tid:x=4` is no entry"),
            ("tid:0=4", "`tid:0=4` is no entry"),
            ("btc=", "btc is given no CPU"),
            ("btc=four", "`four`"),
            ("btc=4,eth", "`eth`"),
            ("btc=4,,eth=5", "btc"),
            ("btc=4=5", "`4=5`"),
            ("btc=4,eth=5,btc=6", "btc is in the map twice"),
        ] {
            let error = map(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn the_table_of_a_profile_is_the_same_map() {
        let table = "btc = 4\n\"*\" = \"0-1,3\"\n\"tid:8\" = \"5\"\n";
        assert_eq!(toml::from_str::<Map>(table).ok(), map("*=0-1,3,btc=4,tid:8=5").ok());
        for (table, why) in [
            ("btc = -1", "a CPU or a list of CPUs"),
            ("btc = \"x\"", "btc: `x`"),
            ("btc = \"\"", "btc is given no CPU"),
            ("\"a=b\" = 1", "`a=b=1` is no entry"),
            ("\"tid:8\" = 1\n\"tid:08\" = 2", "tid:8 is in the map twice"),
        ] {
            let error = toml::from_str::<Map>(table).unwrap_err().to_string();
            assert!(error.contains(why), "{table}: {error}");
        }
    }

    #[test]
    fn of_two_maps_the_later_word_counts() {
        let mut both = map("btc=4,eth=5").unwrap();
        both.extend(map("xrp=6,btc=7").unwrap());
        assert_eq!(both.to_string(), "eth=5,xrp=6,btc=7");
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_as_the_same_map(
            entries in proptest::collection::btree_map(
                prop_oneof![
                    Just(Who::Main),
                    Just(Who::Others),
                    (1u32..).prop_map(Who::Thread),
                    // As kernels allow in names, but for what separates entries.
                    "[a-zA-Z][^=,\\p{White_Space}]{0,14}"
                        .prop_filter("its own word", |name| name != "main" && !name.starts_with("tid:"))
                        .prop_map(Who::Named),
                ],
                proptest::collection::btree_set(0usize..300, 1..20),
                1..8,
            ),
        ) {
            let rules = entries
                .into_iter()
                .map(|(who, cpus)| Rule { who, cpus: cpus.into_iter().collect() })
                .collect();
            let map = Map { rules };
            prop_assert_eq!(map.to_string().parse(), Ok(map.clone()));
            let json = serde_json::to_string(&map).unwrap();
            prop_assert_eq!(serde_json::from_str::<Map>(&json).unwrap(), map);
        }

        #[test]
        fn any_text_is_read_or_refused_and_what_is_read_can_be_printed(text in "\\PC{0,40}") {
            if let Ok(map) = text.parse::<Map>() {
                prop_assert_eq!(map.to_string().parse(), Ok(map));
            }
        }
    }
}
