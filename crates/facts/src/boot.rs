//! What the boot line asks for.

use quietcore_measure::CpuSet;

use crate::Facts;

/// The kernel command line, taken apart as the kernel does.
#[derive(Clone, Debug, Default)]
pub struct Boot {
    /// Whether the command line could be read.
    pub known: bool,
    /// Every parameter in order.
    pub tokens: Vec<Token>,
    /// `isolcpus=`, the one the kernel takes: the first that is a list.
    pub isolcpus: Option<Isolcpus>,
    /// `nohz_full=`, the one the kernel takes: the first that is a list.
    pub nohz_full: Option<Request>,
    /// `rcu_nocbs=`.
    pub rcu_nocbs: Option<Request>,
    /// `irqaffinity=`.
    pub irqaffinity: Option<Request>,
}

/// One parameter: `name` or `name=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The name; the kernel takes `-` and `_` for the same.
    pub name: String,
    /// What follows the `=`.
    pub value: Option<String>,
}

/// A CPU list of the boot line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// As written.
    pub text: String,
    /// The CPUs, or what is wrong with the list.
    pub cpus: Result<CpuSet, String>,
}

/// `isolcpus=[flags,]cpus`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolcpus {
    /// `domain` is what the parameter means without flags.
    pub flags: Vec<String>,
    /// The list behind the flags.
    pub request: Request,
}

impl Isolcpus {
    /// As written.
    pub fn text(&self) -> String {
        let parts = self.flags.iter().map(String::as_str).chain([self.request.text.as_str()]);
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        format!("isolcpus={}", parts.join(","))
    }
}

impl Boot {
    pub(crate) fn read(facts: &Facts) -> Self {
        let last = facts.cpus().possible.highest().unwrap_or_default();
        match facts.host().command_line() {
            Ok(line) => Self::parse(&line, last),
            Err(_) => Self::default(),
        }
    }

    /// Takes a command line apart; `last` is the highest possible CPU, what `N` stands for.
    pub fn parse(line: &str, last: usize) -> Self {
        let tokens = tokens(line);
        let values = |name: &'static str| {
            tokens.iter().filter(move |t| t.name == name).filter_map(|t| t.value.as_deref())
        };
        // A second isolcpus= or nohz_full= that differs is dropped with a warning ("must match"),
        // once a list was taken (kernel/sched/isolation.c, housekeeping_setup). The others are
        // overwritten each time.
        let isolated: Vec<Isolcpus> = values("isolcpus").map(|v| isolcpus(v, last)).collect();
        let tickless: Vec<Request> = values("nohz_full").map(|v| request(v, last)).collect();
        let taken = |request: &Request| request.cpus.as_ref().is_ok_and(|cpus| !cpus.is_empty());
        let last_request = |name| values(name).next_back().map(|v| request(v, last));
        Self {
            known: true,
            isolcpus: isolated.iter().find(|i| taken(&i.request)).or(isolated.last()).cloned(),
            nohz_full: tickless.iter().find(|r| taken(r)).or(tickless.last()).cloned(),
            rcu_nocbs: last_request("rcu_nocbs"),
            irqaffinity: last_request("irqaffinity"),
            tokens,
        }
    }

    /// The value of a parameter, the last one given; `Some("")` for a parameter without one.
    pub fn value(&self, name: &str) -> Option<&str> {
        let name = name.replace('-', "_");
        let token = self.tokens.iter().rev().find(|t| t.name == name)?;
        Some(token.value.as_deref().unwrap_or_default())
    }

    /// Every value of a parameter that may be given more than once.
    pub fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let name = name.replace('-', "_");
        let same = move |t: &&Token| t.name == name;
        self.tokens.iter().filter(same).map(|t| t.value.as_deref().unwrap_or_default())
    }

    /// The CPUs that the boot line means to keep for latency, whether or not that worked.
    pub fn intended(&self) -> CpuSet {
        let requests = [self.isolcpus.as_ref().map(|i| &i.request), self.nohz_full.as_ref()];
        let sets = requests.into_iter().flatten().filter_map(|r| r.cpus.as_ref().ok());
        sets.fold(CpuSet::new(), |all, set| all.or(set))
    }

    /// Whether the boot line asks for isolation in any form, well-formed or not.
    pub fn has_intent(&self) -> bool {
        self.isolcpus.is_some() || self.nohz_full.is_some()
    }
}

/// Parameters are separated by white space outside double quotes; everything behind `--` is for
/// the init process. (kernel: lib/cmdline.c, next_arg)
pub(crate) fn tokens(line: &str) -> Vec<Token> {
    let mut raw: Vec<String> = Vec::new();
    let (mut quoted, mut open) = (false, false);
    for c in line.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                if !open {
                    raw.push(String::new());
                    open = true;
                }
            }
            c if c.is_whitespace() && !quoted => open = false,
            c => {
                if !open {
                    raw.push(String::new());
                    open = true;
                }
                if let Some(token) = raw.last_mut() {
                    token.push(c);
                }
            }
        }
    }
    raw.iter().take_while(|token| *token != "--").map(|token| Token::of(token)).collect()
}

impl Token {
    fn of(text: &str) -> Self {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        Self { name: name.replace('-', "_"), value }
    }

    /// As written.
    pub fn text(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={value}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Whatever starts with a letter is a flag, `all` and `N` as well: one that is not known is
/// skipped, and one with other characters in it makes the kernel drop the whole parameter.
/// (kernel/sched/isolation.c, housekeeping_isolcpus_setup)
fn isolcpus(value: &str, last: usize) -> Isolcpus {
    let mut flags: Vec<String> = Vec::new();
    let mut rest = value;
    while rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
        let (flag, tail) = rest.split_once(',').unwrap_or((rest, ""));
        flags.push(flag.to_owned());
        rest = tail;
    }
    let illegal = |flag: &&String| !flag.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
    let mut request = request(rest, last);
    if let Some(flag) = flags.iter().find(illegal) {
        request.cpus = Err(format!("the kernel refuses the flag `{flag}`"));
    } else if let (Some(flag), true) = (flags.last(), rest.is_empty()) {
        request.cpus = Err(format!("the kernel takes `{flag}` for a flag, and no list follows"));
    }
    Isolcpus { flags, request }
}

fn request(text: &str, last: usize) -> Request {
    let expanded = text.replace("all", &format!("0-{last}")).replace('N', &last.to_string());
    let cpus = CpuSet::parse_list(&expanded).map_err(|e| e.to_string());
    Request { text: text.to_owned(), cpus }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &str) -> Result<CpuSet, String> {
        Ok(CpuSet::parse_list(list).unwrap())
    }

    #[test]
    fn parameters_are_taken_apart_as_the_kernel_does() {
        let boot = Boot::parse(
            r#"quiet isolcpus=managed_irq,domain,2-N nohz-full=all dyndbg="file a.c +p" rcu_nocbs=2,x irqaffinity=0 isolate -- isolcpus=9"#,
            3,
        );
        let isol = boot.isolcpus.as_ref().unwrap();
        assert_eq!(isol.flags, ["managed_irq", "domain"]);
        assert_eq!(isol.request.cpus, cpus("2-3"));
        assert_eq!(boot.nohz_full.as_ref().unwrap().cpus, cpus("0-3"));
        assert!(boot.rcu_nocbs.as_ref().unwrap().cpus.is_err());
        assert_eq!(boot.value("dyndbg"), Some("file a.c +p"));
        assert_eq!(boot.value("quiet"), Some(""));
        assert_eq!(boot.value("isolat"), None);
        assert_eq!(boot.intended(), CpuSet::first(4));
    }

    #[test]
    fn of_several_values_the_one_the_kernel_takes_counts_and_all_are_kept() {
        let boot = Boot::parse("nohz_full=1 nohz_full=2-3 rcu_nocbs=1 rcu_nocbs=2", 3);
        assert_eq!(boot.nohz_full.as_ref().unwrap().cpus, cpus("1"));
        assert_eq!(boot.rcu_nocbs.as_ref().unwrap().cpus, cpus("2"));
        let garbage_first = Boot::parse("isolcpus=x isolcpus=2-3", 3);
        assert_eq!(garbage_first.isolcpus.unwrap().request.cpus, cpus("2-3"));
        assert_eq!(boot.values("nohz_full").collect::<Vec<_>>(), ["1", "2-3"]);
    }

    #[test]
    fn isolcpus_takes_what_starts_with_a_letter_for_a_flag() {
        for line in ["isolcpus=all", "isolcpus=N", "isolcpus=all,N", "isolcpus=N-3,2"] {
            let isolcpus = Boot::parse(line, 3).isolcpus.unwrap();
            assert!(isolcpus.request.cpus.is_err(), "{line}: {isolcpus:?}");
        }
        let skipped = Boot::parse("isolcpus=all,2-N", 3).isolcpus.unwrap();
        assert_eq!(skipped.flags, ["all"]);
        assert_eq!(skipped.request.cpus, cpus("2-3"));
        assert!(Boot::parse("isolcpus=all", 3).intended().is_empty());
    }

    #[test]
    fn values_are_found_under_either_spelling_as_one_value_is() {
        let boot = Boot::parse("a-b=1 a_b=2", 3);
        assert_eq!(boot.value("a-b"), Some("2"));
        assert_eq!(boot.values("a-b").collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn garbage_is_kept_as_text() {
        for line in ["", "\"", "==", "isolcpus=", "isolcpus=,", "isolcpus=domain", "nohz_full=NNN"]
        {
            let _ = Boot::parse(line, 3);
        }
        assert!(Boot::parse("isolcpus=domain", 3).isolcpus.unwrap().request.cpus.is_err());
    }
}
