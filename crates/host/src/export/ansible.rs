//! A profile as an Ansible playbook for a fleet: this program plans, applies and verifies on each
//! host, Ansible carries the profile there and reports.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::placement::Map;
use crate::plan::Reach;
use crate::profile::Profile;

/// What a fleet is to be given.
#[derive(Clone, Debug)]
pub struct Fleet<'a> {
    /// The profile, resolved.
    pub profile: &'a Profile,
    /// The CPUs, where they were asked for; each host's own choice otherwise.
    pub cpus: Option<String>,
    /// How much of it.
    pub reach: Reach,
}

/// The part that is the same for every profile.
const FRAME: &str = include_str!("playbook.yml");

/// The playbook.
pub fn ansible(fleet: &Fleet) -> String {
    let profile: String =
        toml(fleet.profile).lines().map(|line| format!("      {line}\n")).collect();
    let switches = match fleet.reach {
        Reach::Whole => "[]",
        Reach::Runtime => "[--runtime-only]",
    };
    FRAME
        .replace("@PROFILE@\n", &profile.replace("      \n", "\n"))
        .replace("@CPUS@", fleet.cpus.as_deref().unwrap_or_default())
        .replace("@SWITCHES@", switches)
}

/// The profile as a file that stands alone.
fn toml(profile: &Profile) -> String {
    #[derive(Serialize)]
    struct File<'a> {
        about: &'a str,
        isolates: bool,
        knobs: &'a BTreeMap<String, crate::knobs::Setting>,
        placement: &'a Map,
    }
    let Profile { name: _, about, isolates, knobs, placement } = profile;
    // Text, numbers and lists of text: there is nothing that TOML cannot hold.
    toml::to_string(&File { about, isolates: *isolates, knobs, placement }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_playbook_holds_the_profile_as_it_was_resolved() {
        let mut profile = Profile::load("trading").unwrap();
        profile.set("swappiness=3").unwrap();
        profile.about = "quotes \" ' and {{ braces }}\nlines".to_owned();
        let fleet =
            Fleet { profile: &profile, cpus: Some("2-5".to_owned()), reach: Reach::Runtime };
        let playbook = ansible(&fleet);
        let start = playbook.find("profile: !unsafe |\n").unwrap();
        let text = playbook[start..].lines().skip(1);
        let text: Vec<&str> =
            text.map_while(|l| l.strip_prefix("      ").or(l.is_empty().then_some(""))).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        std::fs::write(&path, text.join("\n")).unwrap();
        let again = Profile::load(&path.display().to_string()).unwrap();
        assert_eq!(Profile { name: profile.name.clone(), ..again }, profile);
        assert!(playbook.contains("cpus: \"2-5\"") && playbook.contains("[--runtime-only]"));
        assert!(!playbook.contains('@'), "{playbook}");
    }
}
