//! Values in words, the same in text and HTML: units, dates, names of percentiles and columns.

use std::collections::BTreeMap;
use std::fmt::Write;

use quietcore_measure::{
    Cell, ComparisonRow, Distribution, Evidence, Finding, HostSummary, Nanos, Status, Table,
    Verdict,
};

/// A percentile of a [`Distribution`]: its key in the record, the fraction, the value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Percentile {
    pub key: &'static str,
    pub q: f64,
    pub value: Option<u64>,
}

impl Percentile {
    pub(crate) const KEYS: [&'static str; 5] = ["p50", "p90", "p99", "p99_9", "p99_99"];

    /// The percentiles that every distribution holds, lowest first.
    pub(crate) fn of(d: &Distribution) -> [Self; 5] {
        let values = [d.p50, d.p90, d.p99, d.p99_9, d.p99_99];
        let fractions = [0.5, 0.9, 0.99, 0.999, 0.9999];
        std::array::from_fn(|i| Self { key: Self::KEYS[i], q: fractions[i], value: values[i] })
    }
}

/// `p99_9` → `P99.9`.
pub(crate) fn percentile_name(key: &str) -> String {
    key.replacen('p', "P", 1).replace('_', ".")
}

/// A value with its unit: `4.82 µs`, `1.5 MiB`, `12 packets`.
pub(crate) fn value(v: f64, unit: &str) -> String {
    let nanos = match unit {
        "ns" => Some(v),
        "us" | "µs" => Some(v * 1e3),
        "ms" => Some(v * 1e6),
        "s" => Some(v * 1e9),
        _ => None,
    };
    match (nanos, unit) {
        (Some(ns), _) if ns >= 0.0 => Nanos(ns.round() as u64).to_string(),
        (_, "bytes") => bytes(v),
        (_, "pct" | "%") => format!("{} %", number(v)),
        (_, "") => number(v),
        _ => format!("{} {unit}", number(v)),
    }
}

/// Bounds with their unit, once where it is the same: `12.6 to 13.6 µs`.
pub(crate) fn bounds([low, high]: [u64; 2], unit: &str) -> String {
    let (low, high) = (value(low as f64, unit), value(high as f64, unit));
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, a)), Some((_, b))) if a == b => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// Four significant digits, thousands set apart: `0.3333`, `12.5`, `29,956`.
pub(crate) fn number(v: f64) -> String {
    if !v.is_finite() {
        return v.to_string();
    }
    let magnitude = v.abs();
    if magnitude >= 1e15 || (magnitude > 0.0 && magnitude < 1e-4) {
        return format!("{v:.3e}");
    }
    if magnitude >= 1000.0 || v.fract() == 0.0 {
        let sign = if v < 0.0 { "-" } else { "" };
        return format!("{sign}{}", grouped(magnitude.round() as u64));
    }
    let digits = match magnitude {
        m if m >= 100.0 => 1,
        m if m >= 10.0 => 2,
        m if m >= 1.0 => 3,
        _ => 4,
    };
    let text = format!("{v:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `29956` → `29,956`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn bytes(v: f64) -> String {
    let mut v = v;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if v.abs() < 1024.0 {
            return format!("{} {unit}", number((v * 10.0).round() / 10.0));
        }
        v /= 1024.0;
    }
    format!("{} TiB", number((v * 10.0).round() / 10.0))
}

/// The unit that a column's name ends in, and the name without it: `exit_latency_us` →
/// (`exit latency`, `us`).
pub(crate) fn column(name: &str) -> (String, &'static str) {
    let units =
        ["ns", "us", "ms", "s", "bytes", "pct", "ppm", "khz", "mhz", "ghz", "hz", "w", "uw"];
    if let Some(stem) = name.strip_suffix("_per_s") {
        // `gaps` alone would be the name of a count.
        return (format!("{}/s", stem.replace('_', " ")), "per_s");
    }
    let found = name.rsplit_once('_').and_then(|(stem, suffix)| {
        let unit = units.into_iter().find(|&unit| unit == suffix)?;
        Some((stem.replace('_', " "), unit))
    });
    found.unwrap_or_else(|| (name.replace('_', " "), ""))
}

/// A cell in words, in a column of this unit. Reasons are given apart: see [`reason`].
pub(crate) fn cell(cell: &Cell, unit: &str) -> String {
    match cell {
        Cell::Bool(true) => "yes".to_owned(),
        Cell::Bool(false) => "no".to_owned(),
        // Without a unit it may be a CPU, a pid or a port: such numbers are not set apart.
        Cell::Int(v) if unit.is_empty() => v.to_string(),
        Cell::Int(v) => in_unit(*v as f64, unit),
        Cell::Number(v) => in_unit(*v, unit),
        Cell::Text(text) => text.clone(),
        Cell::Unsupported { .. } => "unsupported".to_owned(),
        Cell::Failed { .. } => "failed".to_owned(),
        Cell::Empty => String::new(),
    }
}

/// Nanoseconds are humanised; coarser units stay as the source gave them, since `2 µs` from a
/// driver's table is not `2.00 µs`.
fn in_unit(v: f64, unit: &str) -> String {
    match unit {
        "us" => format!("{} µs", number(v)),
        "ms" | "s" => format!("{} {unit}", number(v)),
        "per_s" => number(v),
        "ppm" => format!("{} ppm", number(v)),
        "khz" => format!("{} kHz", number(v)),
        "mhz" => format!("{} MHz", number(v)),
        "ghz" => format!("{} GHz", number(v)),
        "hz" => format!("{} Hz", number(v)),
        "w" => format!("{} W", number(v)),
        "uw" => format!("{} µW", number(v)),
        _ => value(v, unit),
    }
}

/// Why cells of a table hold no value: kind, reason, number of cells; each reason once.
pub(crate) fn reasons(table: &Table) -> Vec<(String, &str, usize)> {
    let mut reasons: Vec<(String, &str, usize)> = Vec::new();
    for value in table.rows.iter().flatten() {
        let Some(reason) = reason(value) else { continue };
        match reasons.iter_mut().find(|(_, known, _)| *known == reason) {
            Some((.., count)) => *count += 1,
            None => reasons.push((cell(value, ""), reason, 1)),
        }
    }
    reasons
}

/// Why a cell holds no value.
pub(crate) fn reason(cell: &Cell) -> Option<&str> {
    match cell {
        Cell::Unsupported { unsupported } => Some(unsupported),
        Cell::Failed { failed } => Some(failed),
        _ => None,
    }
}

/// Whether a cell is best aligned to the right.
pub(crate) fn is_numeric(cell: &Cell) -> bool {
    matches!(cell, Cell::Int(_) | Cell::Number(_))
}

/// `cpu=2 arm=tuned`; empty without labels.
pub(crate) fn labels(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
}

/// A name as a heading: `power_idle_states` → `Power idle states`.
pub(crate) fn heading(name: &str) -> String {
    let spaced = name.replace('_', " ");
    let mut chars = spaced.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// What a finding is expected to cost: nothing is said where there is nothing to mend, and only a
/// bound where it is not known whether there is.
pub(crate) fn cost(finding: &Finding) -> String {
    let cost = impact(finding.impact.us);
    match finding.status {
        Status::Pass | Status::NotApplicable => String::new(),
        Status::Unknown if !cost.is_empty() => format!("at most {cost}"),
        _ => cost,
    }
}

/// An expected cost in microseconds, with no more digits than were given; empty where there is
/// none.
pub(crate) fn impact(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", number(us / 1e6)),
        us if us >= 1e3 => format!("{} ms", number(us / 1e3)),
        us if us >= 1.0 => format!("{} µs", number(us)),
        us if us > 0.0 => format!("{} ns", number(us * 1e3)),
        _ => String::new(),
    }
}

/// What was read; a file that is there and holds nothing is a thing to see, too.
pub(crate) fn evidence(evidence: &Evidence) -> &str {
    if evidence.value.trim().is_empty() { "(empty)" } else { &evidence.value }
}

/// A cell of a comparison, whose unit is not known: numbers are set apart.
pub(crate) fn compared(value: &Cell) -> String {
    match value {
        Cell::Int(v) => number(*v as f64),
        Cell::Empty => "–".to_owned(),
        other => cell(other, ""),
    }
}

/// `+12.3 % (+8.1 to +16.9)`; empty where no change can be given.
pub(crate) fn change(pct: Option<f64>, ci95: Option<[f64; 2]>) -> String {
    // Two digits after the point are more than any tail can keep.
    let signed = |v: f64| if v.abs() < 10.0 { format!("{v:+.1}") } else { format!("{v:+.0}") };
    match (pct, ci95) {
        (Some(pct), Some([low, high])) => {
            format!("{} % ({} to {})", signed(pct), signed(low), signed(high))
        }
        (Some(pct), None) => format!("{} %", signed(pct)),
        (None, Some([low, high])) => format!("{} to {} %", signed(low), signed(high)),
        (None, None) => String::new(),
    }
}

/// The sign of a comparison's verdict, for those who do not see its colour.
pub(crate) fn verdict_symbol(verdict: &str) -> char {
    match verdict {
        "better" => '▼',
        "worse" => '▲',
        "same" => '=',
        "changed" => '≠',
        _ => '?',
    }
}

/// How often each verdict occurs, worst first.
pub(crate) fn verdict_counts(rows: &[ComparisonRow]) -> Vec<(&str, usize)> {
    let mut counts: Vec<(&str, usize)> =
        ["worse", "better", "changed", "same", "not provable"].map(|known| (known, 0)).to_vec();
    for row in rows {
        match counts.iter_mut().find(|(verdict, _)| *verdict == row.verdict) {
            Some((_, count)) => *count += 1,
            None => counts.push((&row.verdict, 1)),
        }
    }
    counts.retain(|&(_, count)| count > 0);
    counts
}

/// What a verdict means for the reader.
pub(crate) fn verdict(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Valid => ("Valid", "Nothing is known to have spoiled these figures."),
        Verdict::Disturbed => {
            ("Disturbed", "Something other than the subject shaped the tail: do not quote it.")
        }
        Verdict::Incomplete => {
            ("Incomplete", "Events were lost or the run ended early: counts are lower bounds.")
        }
    }
}

/// What is known of the machine, in the order in which people ask.
pub(crate) fn host(host: &HostSummary) -> Vec<(&'static str, String)> {
    let memory = if host.memory_bytes == 0 {
        String::new()
    } else {
        value(host.memory_bytes as f64, "bytes")
    };
    let hypervisor = match host.hypervisor.as_str() {
        "none" => "none (bare metal)".to_owned(),
        other => other.to_owned(),
    };
    let all = [
        ("Kernel", host.kernel.clone()),
        ("CPU", host.cpu.clone()),
        ("Online", host.online.clone()),
        ("Hypervisor", hypervisor),
        ("Memory", memory),
    ];
    all.into_iter().map(|(k, v)| (k, if v.is_empty() { "unknown".to_owned() } else { v })).collect()
}

/// `2026-03-14 09:26:53 UTC`.
pub(crate) fn date(unix_ms: u64) -> String {
    let (days, second) = (unix_ms / 86_400_000, unix_ms / 1000 % 86_400);
    // Howard Hinnant's civil_from_days, for dates from 1970 on: years begin in March so that the
    // leap day is a year's last.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// A command line as a shell would take it.
pub(crate) fn command(args: &[String]) -> String {
    let mut line = String::new();
    for arg in args {
        let plain =
            !arg.is_empty() && arg.chars().all(|c| c.is_alphanumeric() || "-_=.,:/@%+".contains(c));
        let separator = if line.is_empty() { "" } else { " " };
        // Writing to a String cannot fail.
        let _ = if plain {
            write!(line, "{separator}{arg}")
        } else {
            write!(line, "{separator}'{}'", arg.replace('\'', r"'\''"))
        };
    }
    line
}

/// Text from outside, made harmless for a terminal: no control character gets through to move
/// the cursor, change colours or ring the bell.
pub(crate) fn tame(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_carry_their_units() {
        for (v, unit, text) in [
            (4823.0, "ns", "4.82 µs"),
            (0.0, "ns", "0 ns"),
            (20.0, "us", "20.0 µs"),
            (1.5 * 1024.0 * 1024.0, "bytes", "1.5 MiB"),
            (12.5, "pct", "12.5 %"),
            (29956.0, "packets", "29,956 packets"),
            (-3.0, "ns", "-3 ns"),
        ] {
            assert_eq!(value(v, unit), text);
        }
    }

    #[test]
    fn bounds_name_a_common_unit_once() {
        assert_eq!(bounds([12_600, 13_600], "ns"), "12.6 to 13.6 µs");
        assert_eq!(bounds([990, 1_010], "ns"), "990 ns to 1.01 µs");
        assert_eq!(bounds([1, 2], ""), "1 to 2");
    }

    #[test]
    fn an_expected_cost_is_as_precise_as_it_was_given() {
        for (us, text) in
            [(0.25, "250 ns"), (4.0, "4 µs"), (133.0, "133 µs"), (50_000.0, "50 ms"), (0.0, "")]
        {
            assert_eq!(impact(us), text);
        }
        assert_eq!(impact(f64::NAN), "");
    }

    #[test]
    fn numbers_have_four_digits_and_no_idle_zeros() {
        for (v, text) in [
            (0.0, "0"),
            (1.0 / 3.0, "0.3333"),
            (12.5, "12.5"),
            (999.96, "1000"),
            (-1234.4, "-1,234"),
            (1e-7, "1.000e-7"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(v), text);
        }
    }

    #[test]
    fn columns_speak_their_unit_in_the_cells() {
        assert_eq!(column("exit_latency_us"), ("exit latency".to_owned(), "us"));
        assert_eq!(column("gaps_per_s"), ("gaps/s".to_owned(), "per_s"));
        assert_eq!(cell(&Cell::Number(20394.2), "per_s"), "20,394");
        assert_eq!(column("cpu"), ("cpu".to_owned(), ""));
        assert_eq!(column("irq_counts"), ("irq counts".to_owned(), ""));
        assert_eq!(cell(&Cell::Int(2), "us"), "2 µs");
        assert_eq!(cell(&Cell::Int(4823), "ns"), "4.82 µs");
        assert_eq!(cell(&Cell::Int(12345), ""), "12345");
        assert_eq!(cell(&Cell::Unsupported { unsupported: "no PMU".into() }, "ns"), "unsupported");
    }

    #[test]
    fn changes_carry_sign_and_bounds() {
        assert_eq!(change(Some(-62.31), Some([-70.0, -51.04])), "-62 % (-70 to -51)");
        assert_eq!(change(Some(1.25), None), "+1.2 %");
        assert_eq!(change(None, None), "");
    }

    #[test]
    fn dates_are_civil_also_around_leap_days() {
        for (ms, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (951_868_799_999, "2000-02-29 23:59:59 UTC"),
            (1_709_251_200_000, "2024-03-01 00:00:00 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(date(ms), text);
        }
    }

    #[test]
    fn command_lines_can_be_pasted() {
        let args = ["quietcore", "exec", "--cpus", "2-3", "a b", "it's", ""].map(str::to_owned);
        assert_eq!(command(&args), r"quietcore exec --cpus 2-3 'a b' 'it'\''s' ''");
    }

    #[test]
    fn escape_sequences_from_outside_are_tamed() {
        assert_eq!(tame("eth0\x1b[31m\n\u{9b}"), "eth0\u{fffd}[31m\u{fffd}\u{fffd}");
    }
}
