//! Two runs side by side: which findings changed, and which percentiles did so beyond chance.
//!
//! Lower is better in every distribution: they hold delays. Tables are not compared, because a
//! table does not say which direction is better.

use std::collections::BTreeMap;

use crate::{
    Cell, Comparison, ComparisonRow, Distribution, Finding, HdrError, Run, Section, Status,
    Validity, Verdict, difference,
};

/// What came of comparing two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// A row for each finding that changed and for each percentile.
    pub comparison: Comparison,
    /// What spoiled either run.
    pub validity: Validity,
}

/// Why two runs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// They were written to different schemas.
    #[error("{a} has schema {a_schema}, {b} has schema {b_schema}: make both with one version")]
    Schema {
        /// What A is called.
        a: String,
        /// Its schema.
        a_schema: u32,
        /// What B is called.
        b: String,
        /// Its schema.
        b_schema: u32,
    },
    /// Neither holds what could be compared with the other.
    #[error(
        "{a} and {b} have nothing in common that could be compared (findings or distributions): \
         {a} holds {a_holds}, {b} holds {b_holds}"
    )]
    Nothing {
        /// What A is called.
        a: String,
        /// The names of its sections.
        a_holds: String,
        /// What B is called.
        b: String,
        /// The names of its sections.
        b_holds: String,
    },
    /// A histogram is damaged.
    #[error("{run}: the distribution `{name}` cannot be read")]
    Hist {
        /// What the run is called.
        run: String,
        /// The distribution.
        name: String,
        /// What is wrong.
        #[source]
        source: HdrError,
    },
}

impl Compared {
    /// Whether anything is worse in B.
    pub fn is_worse(&self) -> bool {
        self.comparison.rows.iter().any(|row| row.verdict == WORSE)
    }
}

const BETTER: &str = "better";
const WORSE: &str = "worse";
const SAME: &str = "same";
const CHANGED: &str = "changed";
const NOT_PROVABLE: &str = "not provable";

/// Compares run `b` with run `a`; the names are what errors and the comparison call them.
///
/// # Errors
/// [`CompareError`]; runs of different hosts or commands are compared as far as they hold the same.
pub fn compare(a: &Run, b: &Run, names: [&str; 2]) -> Result<Compared, CompareError> {
    let [a_name, b_name] = names.map(str::to_owned);
    if a.schema != b.schema {
        let (a_schema, b_schema) = (a.schema, b.schema);
        return Err(CompareError::Schema { a: a_name, a_schema, b: b_name, b_schema });
    }
    let mut rows = Vec::new();
    let mut in_common = false;
    for (name, [before, after]) in pairs(findings_of(a), findings_of(b)) {
        let (Some(before), Some(after)) = (before, after) else { continue };
        in_common = true;
        let pairs = pairs(by_id(before), by_id(after));
        rows.extend(pairs.into_iter().filter_map(|(id, pair)| finding(&name, &id, pair)));
    }
    for (what, pair) in pairs(distributions_of(a), distributions_of(b)) {
        in_common |= pair.iter().all(Option::is_some);
        rows.extend(distribution(&what, pair, names)?);
    }
    if !in_common {
        let (a_holds, b_holds) = (holds(a), holds(b));
        return Err(CompareError::Nothing { a: a_name, a_holds, b: b_name, b_holds });
    }
    let mut validity = Validity::default();
    for (run, name) in [(a, &a_name), (b, &b_name)] {
        inherit(&mut validity, run, name);
    }
    let comparison =
        Comparison { name: "compare".to_owned(), a: title(a, &a_name), b: title(b, &b_name), rows };
    Ok(Compared { comparison, validity })
}

/// `before.json (host-1, 6.1.0-50-amd64)`
fn title(run: &Run, name: &str) -> String {
    let host = [&run.host.name, &run.host.kernel];
    let host: Vec<&str> = host.into_iter().map(String::as_str).filter(|s| !s.is_empty()).collect();
    match host.is_empty() {
        true => name.to_owned(),
        false => format!("{name} ({})", host.join(", ")),
    }
}

/// A comparison is as good as the worse of the two.
fn inherit(validity: &mut Validity, run: &Run, name: &str) {
    validity.lost_events = validity.lost_events.saturating_add(run.validity.lost_events);
    let state = match run.validity.verdict {
        Verdict::Valid => return,
        Verdict::Disturbed => "disturbed",
        Verdict::Incomplete => "incomplete",
    };
    let why = run.validity.notes.join("; ");
    let colon = if why.is_empty() { "" } else { ": " };
    validity.note(run.validity.verdict, format!("{name} is {state}{colon}{why}"));
}

fn holds(run: &Run) -> String {
    let names: Vec<&str> = run.sections.iter().map(Section::name).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// Both sides of every key that either has.
fn pairs<T>(a: BTreeMap<String, T>, b: BTreeMap<String, T>) -> BTreeMap<String, [Option<T>; 2]> {
    let mut pairs: BTreeMap<String, [Option<T>; 2]> = BTreeMap::new();
    for (side, map) in [a, b].into_iter().enumerate() {
        for (key, value) in map {
            pairs.entry(key).or_insert([None, None])[side] = Some(value);
        }
    }
    pairs
}

fn findings_of(run: &Run) -> BTreeMap<String, &[Finding]> {
    let findings = run.sections.iter().filter_map(|section| match section {
        Section::Findings(s) => Some((s.name.clone(), s.findings.as_slice())),
        _ => None,
    });
    findings.collect()
}

fn by_id(findings: &[Finding]) -> BTreeMap<String, &Finding> {
    findings.iter().map(|finding| (finding.id.clone(), finding)).collect()
}

/// By `name{label=value} unit`.
fn distributions_of(run: &Run) -> BTreeMap<String, &Distribution> {
    let distributions = run.sections.iter().filter_map(|section| match section {
        Section::Distribution(d) => Some((described(d), d)),
        _ => None,
    });
    distributions.collect()
}

fn described(d: &Distribution) -> String {
    let labels: Vec<String> =
        d.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let labels = match labels.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", labels.join(",")),
    };
    format!("{}{labels} {}", d.name, d.unit)
}

fn finding(section: &str, id: &str, pair: [Option<&Finding>; 2]) -> Option<ComparisonRow> {
    let status = |side: Option<&Finding>| side.map(|finding| finding.status);
    let [before, after] = pair.map(status);
    if before == after {
        return None;
    }
    let cell = |status: Option<Status>| status.map_or(Cell::Empty, |s| Cell::Text(s.name().into()));
    Some(ComparisonRow {
        what: format!("{section} {id}"),
        a: cell(before),
        b: cell(after),
        change_pct: None,
        ci95_pct: None,
        verdict: changed(before, after).to_owned(),
    })
}

/// What a change of status means. A failure that was not known to be there before counts as worse:
/// whoever lets a comparison decide must not be let down by an audit that could not tell. Of all
/// else, what is unknown on one side, accepted, or not asked, proves no direction.
fn changed(before: Option<Status>, after: Option<Status>) -> &'static str {
    use Status::{Fail, NotApplicable, Pass, Unknown, Waived, Warn};
    match (before, after) {
        (None, _) | (_, None) => CHANGED,
        (Some(_), Some(Fail)) => WORSE,
        (Some(Unknown), _) | (_, Some(Unknown | Waived)) => CHANGED,
        (Some(Fail), _) | (Some(Warn | Waived), Some(Pass | NotApplicable)) => BETTER,
        (Some(Pass | NotApplicable), Some(Warn)) => WORSE,
        _ => CHANGED,
    }
}

fn distribution(
    what: &str,
    [a, b]: [Option<&Distribution>; 2],
    names: [&str; 2],
) -> Result<Vec<ComparisonRow>, CompareError> {
    let (Some(a), Some(b)) = (a, b) else {
        let count = |d: Option<&Distribution>| d.map_or(Cell::Empty, |d| Cell::from(d.count));
        return Ok(vec![ComparisonRow {
            what: format!("{what}, values"),
            a: count(a),
            b: count(b),
            change_pct: None,
            ci95_pct: None,
            verdict: CHANGED.to_owned(),
        }]);
    };
    let hist = |d: &Distribution, run: &str| {
        d.hist().map_err(|source| CompareError::Hist {
            run: run.to_owned(),
            name: d.name.clone(),
            source,
        })
    };
    let (before, after) = (hist(a, names[0])?, hist(b, names[1])?);
    let quantiles = [
        ("p50", 0.5, a.p50, b.p50),
        ("p90", 0.9, a.p90, b.p90),
        ("p99", 0.99, a.p99, b.p99),
        ("p99_9", 0.999, a.p99_9, b.p99_9),
        ("p99_99", 0.9999, a.p99_99, b.p99_99),
    ];
    let cell = |value: Option<u64>| value.map_or(Cell::Empty, Cell::from);
    let mut rows: Vec<ComparisonRow> = quantiles
        .into_iter()
        .map(|(name, q, a, b)| {
            let found = difference(&before, &after, q);
            ComparisonRow {
                what: format!("{what} {name}"),
                a: cell(a),
                b: cell(b),
                change_pct: found.pct,
                ci95_pct: found.interval_pct,
                verdict: found.change.name().to_owned(),
            }
        })
        .collect();
    // No sample says how far the largest value could have been: there is no interval.
    let change = a.max.zip(b.max).filter(|(a, _)| *a > 0);
    rows.push(ComparisonRow {
        what: format!("{what} max"),
        a: cell(a.max),
        b: cell(b.max),
        change_pct: change.map(|(a, b)| (b as f64 - a as f64) / a as f64 * 100.0),
        ci95_pct: None,
        verdict: if a.max == b.max { SAME } else { NOT_PROVABLE }.to_owned(),
    });
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cause, Findings, Hist, HistConfig, HostSummary, Impact, Nanos, SCHEMA};

    fn run(sections: Vec<Section>) -> Run {
        Run {
            schema: SCHEMA,
            quietcore: "0".into(),
            command: vec![],
            started_unix_ms: 0,
            took_ns: Nanos(0),
            host: HostSummary { name: "h".into(), kernel: "6.1".into(), ..HostSummary::default() },
            validity: Validity::default(),
            sections,
        }
    }

    fn findings(list: &[(&str, Status)]) -> Section {
        let one = |(id, status): &(&str, Status)| Finding {
            id: (*id).to_owned(),
            cause: Cause::Irq,
            status: *status,
            title: String::new(),
            evidence: vec![],
            impact: Impact { us: 1.0, text: String::new(), origin: String::new() },
            fix: None,
            knob: None,
            waiver: None,
        };
        Section::Findings(Findings::new("audit", list.iter().map(one).collect()))
    }

    fn gaps(cpu: &str, values: impl Iterator<Item = u64>) -> Section {
        let mut hist = Hist::new(HistConfig::default());
        values.for_each(|value| hist.record(value));
        Section::Distribution(Distribution::of("jitter_gap", "ns", &[("cpu", cpu)], &hist))
    }

    fn rows(a: Vec<Section>, b: Vec<Section>) -> BTreeMap<String, String> {
        let compared = compare(&run(a), &run(b), ["a", "b"]).unwrap();
        compared.comparison.rows.into_iter().map(|row| (row.what, row.verdict)).collect()
    }

    #[test]
    fn a_change_of_status_has_a_direction_only_where_it_is_proven() {
        use Status::{Fail, NotApplicable, Pass, Unknown, Waived, Warn};
        for (before, after, verdict) in [
            (Pass, Fail, "worse"),
            (Unknown, Fail, "worse"),
            (Waived, Fail, "worse"),
            (NotApplicable, Warn, "worse"),
            (Fail, Warn, "better"),
            (Warn, Pass, "better"),
            (Waived, Pass, "better"),
            (Fail, Unknown, "changed"),
            (Pass, Unknown, "changed"),
            (Unknown, Pass, "changed"),
            (Fail, Waived, "changed"),
            (Pass, NotApplicable, "changed"),
        ] {
            let of = |status| vec![findings(&[("irq.x", status), ("irq.same", Fail)])];
            let found = rows(of(before), of(after));
            assert_eq!(found.len(), 1, "{before} {after}");
            assert_eq!(found["audit irq.x"], verdict, "{before} {after}");
        }
    }

    #[test]
    fn checks_that_only_one_run_made_prove_nothing() {
        let a = vec![findings(&[("irq.gone", Status::Fail)])];
        let b = vec![findings(&[("irq.new", Status::Fail)])];
        let found = rows(a, b);
        assert_eq!(found["audit irq.gone"], "changed");
        assert_eq!(found["audit irq.new"], "changed");
    }

    #[test]
    fn distributions_are_compared_with_confidence_and_by_their_labels() {
        let a = vec![gaps("2", 1000..11_000), gaps("3", 1000..1010)];
        let b = vec![gaps("2", 2000..22_000), gaps("3", 1000..1010), gaps("4", 1..2)];
        let found = rows(a.clone(), b);
        assert_eq!(found["jitter_gap{cpu=2} ns p50"], "worse");
        assert_eq!(found["jitter_gap{cpu=2} ns p99_99"], "not provable");
        assert_eq!(found["jitter_gap{cpu=2} ns max"], "not provable");
        assert_eq!(found["jitter_gap{cpu=3} ns p99"], "not provable");
        assert_eq!(found["jitter_gap{cpu=3} ns max"], "same");
        assert_eq!(found["jitter_gap{cpu=4} ns, values"], "changed");
        let same = compare(&run(a.clone()), &run(a), ["a", "b"]).unwrap();
        assert!(!same.is_worse());
        assert_eq!(same.comparison.a, "a (h, 6.1)");
    }

    #[test]
    fn a_spoiled_run_spoils_the_comparison_and_is_named() {
        let good = run(vec![findings(&[])]);
        let mut bad = good.clone();
        bad.validity.note(Verdict::Disturbed, "steal on CPU 2");
        bad.validity.lost_events = 3;
        let validity = compare(&good, &bad, ["a", "b"]).unwrap().validity;
        assert_eq!((validity.verdict, validity.lost_events), (Verdict::Disturbed, 3));
        assert_eq!(validity.notes, ["b is disturbed: steal on CPU 2"]);
    }

    #[test]
    fn what_cannot_be_compared_is_refused_with_the_reason() {
        let a = run(vec![findings(&[])]);
        let nothing = compare(&a, &run(vec![gaps("2", 1..2)]), ["a", "b"]).unwrap_err();
        assert!(nothing.to_string().contains("a holds audit, b holds jitter_gap"), "{nothing}");
        let newer = Run { schema: SCHEMA + 1, ..a.clone() };
        let schema = compare(&a, &newer, ["a", "b"]).unwrap_err();
        assert!(schema.to_string().contains("b has schema"), "{schema}");
        let mut damaged = run(vec![gaps("2", 1..9)]);
        if let Some(Section::Distribution(d)) = damaged.sections.first_mut() {
            d.hist = "x".into();
        }
        let hist = compare(&damaged, &damaged, ["a", "b"]).unwrap_err();
        assert!(hist.to_string().contains("a: the distribution `jitter_gap`"), "{hist}");
    }
}
