//! The text of a picture.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// Everything that was seen, by class.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Picture {
    pub classes: BTreeMap<String, Class>,
}

impl Picture {
    pub fn entry(&self, class: &str, key: &str) -> Option<&Entry> {
        match self.classes.get(class)? {
            Class::Taken(entries) => entries.get(key),
            Class::Absent(_) => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Class {
    Taken(BTreeMap<String, Entry>),
    /// It could not be taken, and why.
    Absent(String),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    pub value: String,
    /// Says who it is, for people; not compared.
    pub note: String,
}

impl Entry {
    pub fn new(value: String) -> Self {
        Self { value, note: String::new() }
    }
}

impl Class {
    /// What was found of a class; nothing found is nothing taken.
    pub fn found(entries: BTreeMap<String, Entry>) -> Self {
        match entries.is_empty() {
            true => Self::Absent("there is none".into()),
            false => Self::Taken(entries),
        }
    }
}

/// Bytes as text of one line without tabs, from which they can be told apart.
pub fn escaped(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// What starts the line of a class.
const CLASS: &str = "#";

impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, class) in &self.classes {
            match class {
                Class::Taken(entries) => writeln!(f, "{CLASS}{name}\ttaken\t{}", entries.len())?,
                Class::Absent(why) => writeln!(f, "{CLASS}{name}\tabsent\t{why}")?,
            }
        }
        for (name, class) in &self.classes {
            let Class::Taken(entries) = class else { continue };
            for (key, Entry { value, note }) in entries {
                writeln!(f, "{name}\t{key}\t{value}\t{note}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Picture {
    type Err = anyhow::Error;

    /// Refuses a picture that was cut off: the number of things of each class must be right.
    fn from_str(text: &str) -> Result<Self> {
        let mut classes = BTreeMap::new();
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            let mut fields = line.split('\t');
            let mut field = || fields.next().with_context(|| format!("a damaged line: {line}"));
            let (first, second, third) = (field()?, field()?, field()?);
            let Some(name) = first.strip_prefix(CLASS) else {
                let Some(Class::Taken(entries)) = classes.get_mut(first) else {
                    bail!("class {first} was not announced");
                };
                let entry = Entry { value: third.into(), note: field()?.into() };
                entries.insert(second.to_owned(), entry);
                continue;
            };
            let class = match second {
                "taken" => {
                    let count: usize = third.parse().context("a class's number of things")?;
                    counts.insert(name.to_owned(), count);
                    Class::Taken(BTreeMap::new())
                }
                _ => Class::Absent(third.into()),
            };
            classes.insert(name.to_owned(), class);
        }
        for (name, class) in &classes {
            let Class::Taken(entries) = class else { continue };
            let expected = counts.get(name).copied().unwrap_or_default();
            if entries.len() != expected {
                bail!("class {name} has {} of {expected} things", entries.len());
            }
        }
        Ok(Self { classes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Picture {
        let entry = Entry { value: escaped(b"1\t2\n\xff"), note: "a note".into() };
        let taken = Class::Taken(BTreeMap::from([("/a b".to_owned(), entry)]));
        let absent = Class::Absent("no reason".into());
        Picture { classes: BTreeMap::from([("x".into(), taken), ("y".into(), absent)]) }
    }

    #[test]
    fn a_picture_is_read_as_it_was_written() {
        assert_eq!(picture().to_string().parse::<Picture>().unwrap(), picture());
    }

    #[test]
    fn a_picture_that_lost_a_line_is_refused() {
        let text = picture().to_string();
        let cut = text.lines().take(2).collect::<Vec<_>>().join("\n");
        assert!(cut.parse::<Picture>().is_err());
        assert!("x\t/a\t1\t".parse::<Picture>().is_err());
        assert!("x".parse::<Picture>().is_err());
    }
}
