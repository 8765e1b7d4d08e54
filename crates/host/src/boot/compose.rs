//! The new boot line, from the line there is and the parameters of a profile. Pure.

use quietcore_facts::Boot;

use crate::knobs::Parameter;

/// May be given more than once; each counts.
const REPEATABLE: [&str; 3] = ["hugepages", "hugepagesz", "mce"];

/// A parameter that would not count, because another value of it stands on the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// What the profile wants.
    pub wanted: Parameter,
    /// What the kernel would take instead; that of the user.
    pub taken: String,
}

/// The value of a parameter that the kernel takes from this line: the first list of `isolcpus=`
/// and `nohz_full=`, the last of all others. Empty for a parameter without a value.
fn taken(boot: &Boot, name: &str) -> Option<String> {
    match name {
        "isolcpus" => {
            boot.isolcpus.as_ref().map(|i| i.text().trim_start_matches("isolcpus=").to_owned())
        }
        "nohz_full" => boot.nohz_full.as_ref().map(|request| request.text.clone()),
        _ => boot.value(name).map(str::to_owned),
    }
}

/// Whether the kernel takes a parameter from this line as wanted.
pub(crate) fn is_taken(boot: &Boot, wanted: &Parameter) -> bool {
    let value = wanted.value.as_deref().unwrap_or_default();
    match REPEATABLE.contains(&wanted.name.as_str()) {
        true => boot.values(&wanted.name).any(|given| given == value),
        false => taken(boot, &wanted.name).is_some_and(|given| given == value),
    }
}

/// The first parameter that the kernel would not take from this line, or that is given twice.
pub(super) fn conflict(line: &str, wanted: &[Parameter]) -> Option<Conflict> {
    let boot = parse(line);
    let lost = |parameter: &&Parameter| !is_taken(&boot, parameter) || is_twice(&boot, parameter);
    let wanted = wanted.iter().find(lost)?.clone();
    let value = taken(&boot, &wanted.name);
    let taken = value.map_or(String::new(), |value| text(&wanted.name, &value));
    Some(Conflict { wanted, taken })
}

fn is_twice(boot: &Boot, wanted: &Parameter) -> bool {
    let value = wanted.value.as_deref().unwrap_or_default();
    let repeatable = REPEATABLE.contains(&wanted.name.as_str());
    !repeatable && boot.values(&wanted.name).filter(|given| *given == value).count() > 1
}

/// Those parameters that a line does not have yet: what is to be added to it.
pub(super) fn lacking(line: &str, wanted: &[Parameter]) -> Vec<Parameter> {
    let boot = parse(line);
    wanted.iter().filter(|parameter| !is_taken(&boot, parameter)).cloned().collect()
}

/// A line without these words; each is taken out as often as it is named.
pub(super) fn without(line: &str, own: &[Parameter]) -> String {
    let mut own: Vec<String> = own.iter().map(Parameter::to_string).collect();
    let kept = line.split_whitespace().filter(|word| match own.iter().position(|o| o == word) {
        Some(at) => {
            own.remove(at);
            false
        }
        None => true,
    });
    kept.collect::<Vec<_>>().join(" ")
}

/// The line with what it lacks. `behind`: words at its end that stay there (GRUB puts those of
/// `GRUB_CMDLINE_LINUX_DEFAULT` behind all others).
pub(super) fn with(line: &str, wanted: &[Parameter], behind: &str) -> String {
    let added = words(&lacking(line, wanted));
    let line = line.trim();
    let head = line.strip_suffix(behind.trim()).filter(|_| !behind.trim().is_empty());
    let parts = match head {
        Some(head) => [head.trim(), &added, behind.trim()],
        None => [line, &added, ""],
    };
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// As on the line.
pub(super) fn words(parameters: &[Parameter]) -> String {
    parameters.iter().map(Parameter::to_string).collect::<Vec<_>>().join(" ")
}

/// From a line of ours.
pub(super) fn parameters(words: &str) -> Vec<Parameter> {
    let parameter = |word: &str| match word.split_once('=') {
        Some((name, value)) => Parameter { name: name.to_owned(), value: Some(value.to_owned()) },
        None => Parameter { name: word.to_owned(), value: None },
    };
    words.split_whitespace().map(parameter).collect()
}

/// Whether a parameter means the same to a shell, to GRUB and to the kernel, unquoted.
pub(super) fn is_plain(parameter: &Parameter) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.,:=+-/@%".contains(c);
    !parameter.name.is_empty() && parameter.to_string().chars().all(plain)
}

fn text(name: &str, value: &str) -> String {
    match value {
        "" => name.to_owned(),
        value => format!("{name}={value}"),
    }
}

/// Lists are compared as texts: what `N` stands for does not matter.
fn parse(line: &str) -> Boot {
    Boot::parse(line, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Vec<Parameter> {
        parameters("isolcpus=managed_irq,domain,2-3 skew_tick=1 nosoftlockup")
    }

    #[test]
    fn only_what_a_line_lacks_is_added_before_what_stands_behind() {
        let line = "root=/dev/a ro skew_tick=1 quiet splash";
        assert_eq!(
            with(line, &wanted(), "quiet splash"),
            "root=/dev/a ro skew_tick=1 isolcpus=managed_irq,domain,2-3 nosoftlockup quiet splash"
        );
        let whole = with("ro", &wanted(), "");
        assert_eq!(with(&whole, &wanted(), ""), whole, "a second time changes nothing");
        assert_eq!(without(&whole, &wanted()), "ro");
        assert_eq!(with("", &wanted(), ""), words(&wanted()));
    }

    #[test]
    fn another_value_counts_by_its_place_on_the_line() {
        let conflict = |line: &str, wanted: &str| {
            conflict(line, &parameters(wanted)).map(|conflict| conflict.taken)
        };
        assert_eq!(conflict("isolcpus=1 isolcpus=2-3", "isolcpus=2-3"), Some("isolcpus=1".into()));
        assert_eq!(conflict("isolcpus=2-3 isolcpus=1", "isolcpus=2-3"), None);
        assert_eq!(conflict("isolcpus=x,2- isolcpus=2-3", "isolcpus=2-3"), None);
        assert_eq!(conflict("nohz_full=1 nohz-full=2", "nohz_full=2"), Some("nohz_full=1".into()));
        assert_eq!(conflict("rcu_nocbs=1 rcu_nocbs=2", "rcu_nocbs=2"), None);
        assert_eq!(conflict("rcu_nocbs=2 rcu_nocbs=1", "rcu_nocbs=2"), Some("rcu_nocbs=1".into()));
        assert_eq!(conflict("quiet", "skew_tick=1"), Some(String::new()));
        assert_eq!(conflict("skew_tick=1 skew_tick=1", "skew_tick=1"), Some("skew_tick=1".into()));
        let pages = "hugepagesz=1G hugepages=4";
        assert_eq!(conflict(&format!("{pages} hugepagesz=2M hugepages=8"), pages), None);
    }

    #[test]
    fn nothing_that_a_shell_or_grub_would_read_otherwise_is_plain() {
        assert!(wanted().iter().all(is_plain));
        for word in ["a=$(x)", "a=`x`", "a='x'", "a=\"x\"", "a=\\", "a=;b", "a={}", "a=#", "=é"] {
            assert!(!is_plain(&parameters(word)[0]), "{word}");
        }
    }
}
