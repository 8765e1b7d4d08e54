//! What two pictures differ in.

use std::collections::BTreeMap;
use std::fmt;

use super::text::{Class, Entry, Picture};

/// The class whose things come and go by themselves.
pub const FLEETING: &str = "task";

#[derive(Debug, Default)]
pub struct Verdict {
    differences: Vec<String>,
    /// Why the comparison proves nothing.
    missing: Vec<String>,
    /// How much was compared, a line per class.
    counts: Vec<String>,
    compared: usize,
}

impl Verdict {
    pub fn exit_code(&self) -> u8 {
        match (self.compared == 0 || !self.missing.is_empty(), self.differences.is_empty()) {
            (true, _) => 2,
            (false, false) => 1,
            (false, true) => 0,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [&self.differences, &self.missing, &self.counts];
        all.into_iter().flatten().try_for_each(|line| writeln!(f, "{line}"))?;
        let (compared, differ) = (self.compared, self.differences.len());
        match self.exit_code() {
            0 => writeln!(f, "identical: {compared} compared"),
            1 => writeln!(f, "different: {compared} compared, {differ} differ"),
            _ => writeln!(f, "nothing proved: {compared} compared, {differ} differ"),
        }
    }
}

pub fn compare(first: &Picture, second: &Picture) -> Verdict {
    let mut verdict = Verdict::default();
    for (name, class) in &first.classes {
        match (class, second.classes.get(name)) {
            (Class::Taken(a), Some(Class::Taken(b))) => verdict.class(name, a, b),
            (Class::Taken(_), Some(Class::Absent(why))) => {
                verdict.missing.push(format!("{name}: not in the second picture: {why}"));
            }
            (Class::Taken(_), None) => {
                verdict.missing.push(format!("{name}: not in the second picture"));
            }
            (Class::Absent(_), Some(Class::Taken(b))) => verdict.class(name, &BTreeMap::new(), b),
            (Class::Absent(why), _) => verdict.counts.push(format!("{name}: not taken: {why}")),
        }
    }
    verdict
}

impl Verdict {
    fn class(&mut self, name: &str, a: &BTreeMap<String, Entry>, b: &BTreeMap<String, Entry>) {
        let (mut compared, mut gone, mut new) = (0, 0, 0);
        let before = self.differences.len();
        let names = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
        for key in names {
            let difference = match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => {
                    compared += 1;
                    (a.value != b.value).then(|| format!("was {}, is {}", a.value, b.value))
                }
                (Some(a), None) => {
                    gone += 1;
                    Some(format!("was {}, is gone", a.value))
                }
                (None, b) => {
                    new += 1;
                    Some(format!("is new: {}", b.map_or("", |b| &b.value)))
                }
            };
            let in_both = a.contains_key(key) && b.contains_key(key);
            let Some(difference) = difference.filter(|_| in_both || name != FLEETING) else {
                continue;
            };
            let note = b.get(key).or(a.get(key)).map_or("", |entry| &entry.note);
            let space = if note.is_empty() { "" } else { " " };
            self.differences.push(format!("{name} {key}{space}{note}: {difference}"));
        }
        let differ = self.differences.len() - before;
        let mut count = format!("{name}: {compared} compared, {differ} differ");
        if name == FLEETING {
            count += &format!(", {gone} ended, {new} started");
            if compared == 0 && !a.is_empty() {
                self.missing.push(format!("{name}: none is in both pictures"));
            }
        }
        self.counts.push(count);
        self.compared += compared;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(text: &str) -> Picture {
        let mut picture = Picture::default();
        for line in text.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [class, key, value] = fields[..] else { panic!("{line}") };
            let class = picture
                .classes
                .entry(class.to_owned())
                .or_insert_with(|| Class::Taken(BTreeMap::new()));
            let Class::Taken(entries) = class else { panic!("{line}") };
            entries.insert(key.to_owned(), Entry::new(value.to_owned()));
        }
        picture
    }

    fn outcome(a: &str, b: &str) -> (u8, Vec<String>) {
        let verdict = compare(&picture(a), &picture(b));
        (verdict.exit_code(), verdict.differences)
    }

    #[test]
    fn every_difference_is_named() {
        let (code, differences) = outcome("k /a 1\nk /b 2\nk /c 3", "k /a 1\nk /b 4\nk /d 5");
        assert_eq!(code, 1);
        assert_eq!(differences, ["k /b: was 2, is 4", "k /c: was 3, is gone", "k /d: is new: 5"]);
        assert_eq!(outcome("k /a 1", "k /a 1"), (0, vec![]));
    }

    #[test]
    fn threads_that_come_and_go_are_no_difference_but_those_that_stay_are_compared() {
        assert_eq!(outcome("task 1 x\ntask 2 y", "task 2 y\ntask 3 z").0, 0);
        assert_eq!(outcome("task 1 x\ntask 2 y", "task 2 x").1, ["task 2: was y, is x"]);
    }

    #[test]
    fn a_comparison_of_nothing_does_not_pass() {
        assert_eq!(outcome("", "").0, 2);
        assert_eq!(outcome("", "k /a 1").0, 2);
        assert_eq!(outcome("k /a 1\nl /b 1", "k /a 1").0, 2);
        assert_eq!(outcome("k /a 1\ntask 1 x", "k /a 1\ntask 2 x").0, 2);
    }

    #[test]
    fn what_is_there_for_the_first_time_is_a_difference() {
        let mut a = picture("k /a 1");
        a.classes.insert("l".into(), Class::Absent("there is none".into()));
        let verdict = compare(&a, &picture("k /a 1\nl /b 1"));
        assert_eq!(verdict.differences, ["l /b: is new: 1"]);
        assert_eq!(verdict.exit_code(), 1);
    }
}
