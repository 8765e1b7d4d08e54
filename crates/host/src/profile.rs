//! Profiles: which knob gets which value.
//!
//! ```toml
//! about = "our matching hosts"
//! base = "trading"             # optional: a shipped profile, or a file beside this one
//! isolates = true              # CPUs are set apart, so they must be named
//!
//! [knobs]
//! swappiness = 1
//! irq-affinity = "untouched"   # leave it to somebody else
//!
//! [placement]
//! btc = 4
//! encoder = 7
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::knobs::{self, Knob, Setting};
use crate::placement::Map;

/// What ships with quietcore: name and text.
pub const SHIPPED: [(&str, &str); 2] = [
    ("low-latency", include_str!("../profiles/low-latency.toml")),
    ("trading", include_str!("../profiles/trading.toml")),
];

/// The word that takes a knob out of a profile.
const UNTOUCHED: &str = "untouched";

/// A chain of profiles longer than this is a circle.
const DEEPEST: usize = 8;

/// Which knob gets which value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Name, or the file it is from.
    pub name: String,
    /// What it is for.
    pub about: String,
    /// Whether it sets CPUs apart, so that they must be named.
    #[serde(default)]
    pub isolates: bool,
    /// Values by knob; a knob that is not named is left alone.
    pub knobs: BTreeMap<String, Setting>,
    /// Threads and their CPUs, for `place`.
    #[serde(default)]
    pub placement: Map,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    about: String,
    base: Option<String>,
    isolates: Option<bool>,
    #[serde(default)]
    knobs: BTreeMap<String, Setting>,
    #[serde(default)]
    placement: Map,
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// There is no such profile.
    #[error(
        "no profile is called {name}: shipped are {}; a file is named by a path, as ./{name}.toml",
        shipped()
    )]
    Unknown {
        /// As asked for.
        name: String,
    },
    /// The file cannot be read.
    #[error("{}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's words.
        source: std::io::Error,
    },
    /// The file makes no sense.
    #[error("{name}: {why}")]
    Format {
        /// Profile or file.
        name: String,
        /// What was expected, and where.
        why: String,
    },
    /// A knob that does not exist or a value that it does not take.
    #[error(transparent)]
    Knob(#[from] KnobError),
}

/// A knob that does not exist or a value that it does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KnobError(String);

impl Profile {
    /// A shipped profile by its name, or a file by its path (with a `/` or ending in `.toml`).
    pub fn load(name: &str) -> Result<Self, ProfileError> {
        Self::load_from(Path::new(""), name, 0)
    }

    /// `base` of a file is looked for beside it.
    fn load_from(folder: &Path, name: &str, depth: usize) -> Result<Self, ProfileError> {
        if depth > DEEPEST {
            let why = "its bases lead in a circle".to_owned();
            return Err(ProfileError::Format { name: name.to_owned(), why });
        }
        if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Self::resolve(name, text, folder, depth);
        }
        if !name.contains('/') && !name.ends_with(".toml") {
            return Err(ProfileError::Unknown { name: name.to_owned() });
        }
        let path = folder.join(name);
        let text = fs::read_to_string(&path)
            .map_err(|source| ProfileError::Io { path: path.clone(), source })?;
        let beside = path.parent().unwrap_or(Path::new("")).to_owned();
        Self::resolve(&path.display().to_string(), &text, &beside, depth)
    }

    fn resolve(name: &str, text: &str, folder: &Path, depth: usize) -> Result<Self, ProfileError> {
        let file: File =
            parse(text).map_err(|why| ProfileError::Format { name: name.to_owned(), why })?;
        let mut profile = match &file.base {
            Some(base) => Self::load_from(folder, base, depth + 1)?,
            None => Self::default(),
        };
        for (id, setting) in file.knobs {
            profile.give(&id, setting).map_err(|e| KnobError(format!("{name}: {e}")))?;
        }
        profile.placement.extend(file.placement);
        profile.isolates = file.isolates.unwrap_or(profile.isolates);
        (profile.name, profile.about) = (name.to_owned(), file.about);
        Ok(profile)
    }

    /// Sets a knob from the command line: `swappiness=1`, `irq-affinity=untouched`.
    pub fn set(&mut self, assignment: &str) -> Result<(), KnobError> {
        let (id, text) = assignment.split_once('=').ok_or_else(|| {
            KnobError(format!("`{assignment}`: write KNOB=VALUE, as swappiness=1"))
        })?;
        let setting = match text {
            UNTOUCHED => Setting::Word(text.to_owned()),
            _ => {
                Setting::parse(known(id)?.takes, text).map_err(|expects| bad(id, text, &expects))?
            }
        };
        self.give(id, setting)
    }

    fn give(&mut self, id: &str, setting: Setting) -> Result<(), KnobError> {
        let knob = known(id)?;
        if setting.word() == UNTOUCHED {
            self.knobs.remove(id);
            return Ok(());
        }
        knob.takes.check(&setting).map_err(|expects| bad(id, &setting.to_string(), &expects))?;
        self.knobs.insert(id.to_owned(), setting);
        Ok(())
    }

    /// The knobs that get a value, in the order in which they are applied.
    pub fn chosen(&self) -> impl Iterator<Item = (&'static Knob, &Setting)> {
        knobs::ALL.iter().filter_map(|knob| Some((*knob, self.knobs.get(knob.id)?)))
    }
}

fn parse(text: &str) -> Result<File, String> {
    toml::from_str(text).map_err(|e| {
        let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!("line {line}: {}", e.message().replace('\n', " "))
    })
}

fn known(id: &str) -> Result<&'static Knob, KnobError> {
    knobs::named(id).ok_or_else(|| {
        let all: Vec<&str> = knobs::ALL.iter().map(|knob| knob.id).collect();
        KnobError(format!("there is no knob `{id}`; there are {}", all.join(", ")))
    })
}

fn bad(id: &str, value: &str, expects: &str) -> KnobError {
    KnobError(format!("{id} = {value}: expected {expects}, or \"{UNTOUCHED}\""))
}

fn shipped() -> String {
    SHIPPED.map(|(name, _)| name).join(", ")
}

/// Reads the text of a profile without its base: for fuzzing.
pub fn check(text: &str) -> Result<(), String> {
    parse(text).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_profile_is_whole_and_says_what_it_is_for() {
        for (name, _) in SHIPPED {
            let profile = Profile::load(name).unwrap();
            assert!(!profile.about.is_empty() && !profile.knobs.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_profile_builds_on_its_base_and_leaves_out_what_is_untouched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.toml");
        let text = "base = \"trading\"\n[knobs]\nswappiness = 3\nirq-affinity = \"untouched\"\n";
        fs::write(&path, text).unwrap();
        let own = Profile::load(&path.display().to_string()).unwrap();
        assert_eq!(own.knobs["swappiness"], Setting::Number(3));
        assert!(!own.knobs.contains_key("irq-affinity"));
        assert!(own.knobs.contains_key("governor"), "from the base of the base");
        fs::write(folder.path().join("more.toml"), "base = \"own.toml\"").unwrap();
        let more = Profile::load(&folder.path().join("more.toml").display().to_string()).unwrap();
        assert_eq!(more.knobs, own.knobs);
        fs::write(&path, "base = \"own.toml\"").unwrap();
        let circle = Profile::load(&path.display().to_string()).unwrap_err();
        assert!(circle.to_string().contains("circle"), "{circle}");
    }

    #[test]
    fn every_mistake_is_named_with_its_place() {
        let error = |text: &str| {
            Profile::resolve("p.toml", text, Path::new(""), 0).unwrap_err().to_string()
        };
        assert!(error("[knobs]\nswapiness = 1").contains("p.toml: there is no knob `swapiness`"));
        let value = error("[knobs]\nswappiness = 900");
        assert!(value.contains("swappiness = 900: expected a number from 0 to 200"), "{value}");
        assert!(error("about = 1").contains("line 1"));
        assert!(error("\n\nknob = 1").contains("line 3: unknown field `knob`"));
        assert!(error("base = \"nothing\"").contains("shipped are low-latency, trading"));
        assert!(Profile::load("/nonexistent/a.toml").is_err());
    }

    #[test]
    fn a_knob_is_set_from_the_command_line() {
        let mut profile = Profile::load("low-latency").unwrap();
        profile.set("swappiness=1").unwrap();
        profile.set("governor=untouched").unwrap();
        assert_eq!(profile.knobs["swappiness"], Setting::Number(1));
        assert!(!profile.knobs.contains_key("governor"));
        for wrong in ["swappiness", "swappiness=x", "none=1"] {
            assert!(profile.set(wrong).is_err(), "{wrong}");
        }
    }
}
