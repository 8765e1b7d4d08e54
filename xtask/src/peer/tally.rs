//! Who found what: one row per bad host, and the sums.

use std::collections::BTreeMap;

use super::bad_host::BadHost;
use super::latency_audit::{Answers, NOT_CLAIMED, SUBJECTS, Subject, complains, on};

/// What a tool said of something that is wrong. Of a host with several wrongs the first counts:
/// to have found one of them is to have found the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    /// It complained, and not of the good host.
    Found(String),
    /// It judged the very thing and passed it.
    Passed(String),
    /// It complained, in the same words as of the good host.
    Always(String),
    /// It could not tell.
    Unknown(String),
    /// It has no check of that.
    NoCheck,
}

/// What [`Said::kind`] may say, in the order of the table.
const KINDS: [&str; 5] = [
    "detected",
    "passed (false pass)",
    "complains of the good host as well",
    "skipped or unknown",
    "no such check",
];

impl Said {
    fn kind(&self) -> &'static str {
        match self {
            Self::Found(_) => KINDS[0],
            Self::Passed(_) => KINDS[1],
            Self::Always(_) => KINDS[2],
            Self::Unknown(_) => KINDS[3],
            Self::NoCheck => KINDS[4],
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Found(what) => what.clone(),
            Self::Passed(what) => format!("**{what}**"),
            Self::Always(what) => format!("{what} (of the good host, too)"),
            Self::Unknown(what) => what.clone(),
            Self::NoCheck => "no such check".to_owned(),
        }
    }
}

/// A bad host and what was said of each of its wrongs.
pub struct Row {
    host: String,
    /// Finding, status that it must have, what quietcore said, what the other tool said.
    wrongs: Vec<(String, String, Said, Said)>,
}

impl Row {
    /// Judges both tools' answers; `good` is what the other one says of the host before.
    pub fn of(
        host: &BadHost,
        ours: &BTreeMap<String, String>,
        good: &Answers,
        theirs: &Answers,
    ) -> Self {
        let worse = theirs.worse_than(good);
        let judged = |(id, status): (&str, &str)| {
            let them = beside(on(&host.name, id), &worse, good, theirs);
            (id.to_owned(), status.to_owned(), of_quietcore(ours.get(id)), them)
        };
        Self { host: host.name.clone(), wrongs: host.wrongs().map(judged).collect() }
    }

    /// quietcore has named all that is wrong, or it has not.
    fn ours(&self) -> &Said {
        let all = || self.wrongs.iter().map(|(_, _, ours, _)| ours);
        let passed = all().find(|said| matches!(said, Said::Passed(_)));
        passed.or(all().max()).unwrap_or(&Said::NoCheck)
    }

    /// The other tool has named anything that is wrong, or it has not.
    fn theirs(&self) -> &Said {
        self.wrongs.iter().map(|(_, _, _, theirs)| theirs).min().unwrap_or(&Said::NoCheck)
    }
}

fn of_quietcore(status: Option<&String>) -> Said {
    match status.map(String::as_str) {
        Some(status @ ("fail" | "warn")) => Said::Found(status.to_owned()),
        Some("unknown") => Said::Unknown("unknown".to_owned()),
        Some(status) => Said::Passed(status.to_owned()),
        None => Said::NoCheck,
    }
}

fn beside(subject: Option<&Subject>, worse: &[&str], good: &Answers, theirs: &Answers) -> Said {
    if let Some(check) = worse.iter().find(|check| subject.is_some_and(|s| s.check == **check)) {
        return Said::Found(format!("{check} {}", theirs.status(check)));
    }
    // A complaint under another name is a complaint.
    if let Some(check) = worse.first() {
        return Said::Found(format!("{check} {}", theirs.status(check)));
    }
    let Some(subject) = subject else { return Said::NoCheck };
    let status = theirs.status(subject.check);
    let words = format!("{} {status}", subject.check);
    match status {
        "pass" => Said::Passed(words),
        status if complains(status) && complains(good.status(subject.check)) => Said::Always(words),
        _ => Said::Unknown(words),
    }
}

/// All bad hosts.
#[derive(Default)]
pub struct Tally(Vec<Row>);

impl Tally {
    /// One more.
    pub fn add(&mut self, row: Row) {
        self.0.push(row);
    }

    /// The rows, the sums and the reasons.
    pub fn print(&self) {
        println!("## The bad hosts\n");
        println!("A pass of what is wrong is **bold**.\n");
        println!("| bad host | what is wrong | quietcore | latency-audit |");
        println!("| --- | --- | --- | --- |");
        for row in &self.0 {
            for (id, _, ours, theirs) in &row.wrongs {
                println!("| {} | {id} | {} | {} |", row.host, ours.text(), theirs.text());
            }
        }
        println!();
        self.print_sums();
        self.print_reasons();
    }

    fn print_sums(&self) {
        let ours: Vec<&Said> = self.0.iter().map(Row::ours).collect();
        let theirs: Vec<&Said> = self.0.iter().map(Row::theirs).collect();
        let wrongs = || self.0.iter().flat_map(|row| &row.wrongs);
        let our_wrongs: Vec<&Said> = wrongs().map(|(_, _, ours, _)| ours).collect();
        let their_wrongs: Vec<&Said> = wrongs().map(|(_, _, _, theirs)| theirs).collect();
        println!("## Result\n");
        println!("| | quietcore: hosts | findings | latency-audit: hosts | findings |");
        println!("| --- | ---: | ---: | ---: | ---: |");
        for name in KINDS {
            let count = |all: &[&Said]| all.iter().filter(|said| said.kind() == name).count();
            let [a, b, c, d] = [&ours, &our_wrongs, &theirs, &their_wrongs].map(|all| count(all));
            println!("| {name} | {a} | {b} | {c} | {d} |");
        }
        println!("| all | {0} | {1} | {0} | {1} |\n", ours.len(), our_wrongs.len());
        println!(
            "quietcore detected a host if it made every finding that must be made; latency-audit, \
             if it made any.\n"
        );
    }

    fn print_reasons(&self) {
        println!("## What latency-audit passed, and on what grounds\n");
        for subject in SUBJECTS {
            let passed = self.0.iter().filter(|row| {
                row.wrongs.iter().any(|(id, _, _, theirs)| {
                    subject.ours.contains(&id.as_str()) && matches!(theirs, Said::Passed(_))
                })
            });
            let hosts: Vec<&str> = passed.map(|row| row.host.as_str()).collect();
            if !hosts.is_empty() {
                println!(
                    "- `{}` passes if {}: {}",
                    subject.check,
                    subject.passes_if,
                    hosts.join(", ")
                );
            }
        }
        println!("\nNot counted as passed, because the check does not claim to judge it:\n");
        for (host, finding, why) in NOT_CLAIMED {
            println!("- {host}, {finding}: {why}");
        }
        let only = SUBJECTS.iter().filter(|subject| subject.ours.is_empty());
        let only: Vec<String> = only.map(|subject| format!("`{}`", subject.check)).collect();
        println!("\nIt checks what quietcore does not: {}.\n", only.join(", "));
    }
}

/// As `2 fail, 1 warn, 5 pass`.
pub fn counts<S: AsRef<str>>(statuses: impl Iterator<Item = S>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for status in statuses {
        *counts.entry(status.as_ref().replace('_', " ")).or_default() += 1;
    }
    let texts: Vec<String> = counts.iter().map(|(status, n)| format!("{n} {status}")).collect();
    texts.join(", ")
}
