//! Every section as a block of comma-separated values (RFC 4180), one `# section: name` line
//! before each. Values are raw: no humanised units, no thousands set apart.

use std::collections::{BTreeMap, BTreeSet};

use quietcore_measure::{Cell, Distribution, Finding, Run, Section, Spikes, Table, Timeline};

use crate::spikes;
use crate::words::{Percentile, labels};

pub(crate) fn render(run: &Run) -> String {
    let mut csv = Csv::default();
    head(run, &mut csv);
    let mut distributions: Vec<&str> = Vec::new();
    for section in &run.sections {
        match section {
            Section::Table(t) => table(t, &mut csv),
            Section::Spikes(s) => {
                table(&spikes::kinds(s), &mut csv);
                segments(s, &mut csv);
            }
            Section::Flame(f) => table(&spikes::stacks(f), &mut csv),
            Section::Findings(f) => findings(&f.name, &f.findings, &mut csv),
            // Siblings share a block: their rows are made to be compared.
            Section::Distribution(d) if distributions.contains(&d.name.as_str()) => {}
            Section::Distribution(d) => {
                distributions.push(&d.name);
                let siblings = run.sections.iter().filter_map(|s| match s {
                    Section::Distribution(other) if other.name == d.name => Some(other),
                    _ => None,
                });
                distribution(&d.name, &siblings.collect::<Vec<_>>(), &mut csv);
            }
            Section::Timeline(t) => timeline(t, &mut csv),
            Section::Comparison(c) => {
                csv.section(&c.name);
                csv.row(["what", &c.a, &c.b, "change_pct", "ci95_low", "ci95_high", "verdict"]);
                for row in &c.rows {
                    csv.row([
                        row.what.clone(),
                        cell(&row.a),
                        cell(&row.b),
                        optional(row.change_pct),
                        optional(row.ci95_pct.map(|ci| ci[0])),
                        optional(row.ci95_pct.map(|ci| ci[1])),
                        row.verdict.clone(),
                    ]);
                }
            }
        }
    }
    csv.text
}

fn table(table: &Table, csv: &mut Csv) {
    csv.section(&table.name);
    csv.row(&table.columns);
    for row in &table.rows {
        csv.row(row.iter().map(cell));
    }
}

fn head(run: &Run, csv: &mut Csv) {
    csv.section("run");
    csv.row(["key", "value"]);
    let verdict = serde_json::to_value(run.validity.verdict).unwrap_or_default();
    let rows = [
        ("schema", run.schema.to_string()),
        ("quietcore", run.quietcore.clone()),
        ("command", crate::words::command(&run.command)),
        ("started_unix_ms", run.started_unix_ms.to_string()),
        ("took_ns", run.took_ns.0.to_string()),
        ("host", run.host.name.clone()),
        ("kernel", run.host.kernel.clone()),
        ("cpu", run.host.cpu.clone()),
        ("online", run.host.online.clone()),
        ("hypervisor", run.host.hypervisor.clone()),
        ("memory_bytes", optional(Some(run.host.memory_bytes).filter(|&bytes| bytes > 0))),
        ("recorded", run.host.recorded.to_string()),
        ("validity", verdict.as_str().unwrap_or_default().to_owned()),
        ("lost_events", run.validity.lost_events.to_string()),
    ];
    for (key, value) in rows {
        csv.row([key, &value]);
    }
    for note in &run.validity.notes {
        csv.row(["validity_note", note]);
    }
}

fn findings(name: &str, findings: &[Finding], csv: &mut Csv) {
    csv.section(name);
    csv.row([
        "status",
        "id",
        "cause",
        "title",
        "impact_us",
        "impact",
        "origin",
        "evidence",
        "fix",
        "knob",
        "waiver",
        "waiver_expires",
    ]);
    for f in findings {
        let evidence: Vec<_> =
            f.evidence.iter().map(|e| format!("{}: {}", e.source, e.value)).collect();
        let waiver = f.waiver.as_ref();
        csv.row([
            f.status.name(),
            &f.id,
            f.cause.name(),
            &f.title,
            &f.impact.us.to_string(),
            &f.impact.text,
            &f.impact.origin,
            &evidence.join("\n"),
            f.fix.as_deref().unwrap_or_default(),
            f.knob.as_deref().unwrap_or_default(),
            waiver.map_or("", |w| &w.reason),
            waiver.map_or("", |w| &w.expires),
        ]);
    }
}

/// One row each; labels get columns of their own, as do the bounds of each percentile.
fn distribution(name: &str, siblings: &[&Distribution], csv: &mut Csv) {
    csv.section(name);
    let keys: BTreeSet<&String> = siblings.iter().flat_map(|d| d.labels.keys()).collect();
    let mut columns: Vec<String> = keys.iter().map(|&key| key.clone()).collect();
    columns.extend(["unit", "count", "min"].map(str::to_owned));
    for key in Percentile::KEYS {
        columns.extend([key.to_owned(), format!("{key}_low"), format!("{key}_high")]);
    }
    columns.push("max".to_owned());
    csv.row(&columns);
    for d in siblings {
        let mut row: Vec<String> =
            keys.iter().map(|&key| d.labels.get(key).cloned().unwrap_or_default()).collect();
        row.extend([d.unit.clone(), d.count.to_string(), optional(d.min)]);
        for p in Percentile::of(d) {
            let bounds = d.ci95.get(p.key);
            row.extend([
                optional(p.value),
                optional(bounds.map(|b| b[0])),
                optional(bounds.map(|b| b[1])),
            ]);
        }
        row.push(optional(d.max));
        csv.row(&row);
    }
}

/// One row per segment; `spike` counts the spikes that were kept.
fn segments(section: &Spikes, csv: &mut Csv) {
    csv.section(&format!("{}.segments", section.name));
    csv.row([
        "spike",
        "start_ns",
        "spike_ns",
        "tid",
        "pid",
        "comm",
        "cpu",
        "at_ns",
        "len_ns",
        "kind",
        "by",
        "evidence",
        "incomplete",
    ]);
    for (number, spike) in section.spikes.iter().enumerate() {
        for segment in &spike.segments {
            csv.row([
                number.to_string(),
                spike.start_ns.to_string(),
                spike.len_ns.0.to_string(),
                spike.thread.tid.to_string(),
                spike.thread.pid.to_string(),
                spike.thread.comm.clone(),
                spike.cpu.to_string(),
                segment.at_ns.0.to_string(),
                segment.len_ns.0.to_string(),
                segment.kind.name().to_owned(),
                segment.by.clone(),
                segment.evidence.join("\n"),
                spike.incomplete.clone().unwrap_or_default(),
            ]);
        }
    }
}

fn timeline(t: &Timeline, csv: &mut Csv) {
    csv.section(&t.name);
    let value = format!("value_{}", t.unit);
    csv.row(["series", "at_ns", &value]);
    for series in &t.series {
        let name = labels(&series.labels);
        for (at, value) in &series.points {
            csv.row([&name, &at.to_string(), &value.to_string()]);
        }
    }
    let omitted: BTreeMap<_, _> = t
        .series
        .iter()
        .filter(|series| series.omitted > 0)
        .map(|series| (labels(&series.labels), series.omitted))
        .collect();
    if !omitted.is_empty() {
        csv.section(&format!("{}.omitted", t.name));
        csv.row(["series", "points"]);
        for (name, points) in omitted {
            csv.row([name, points.to_string()]);
        }
    }
}

/// A missing value keeps its reason: an empty field would read as "nothing there".
fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Bool(v) => v.to_string(),
        Cell::Int(v) => v.to_string(),
        Cell::Number(v) => v.to_string(),
        Cell::Text(v) => v.clone(),
        Cell::Unsupported { unsupported } => format!("unsupported: {unsupported}"),
        Cell::Failed { failed } => format!("failed: {failed}"),
        Cell::Empty => String::new(),
    }
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}

#[derive(Default)]
struct Csv {
    text: String,
}

impl Csv {
    fn section(&mut self, name: &str) {
        // One line whatever the name holds, so that readers can split at these lines.
        let name = name.replace(['\r', '\n'], " ");
        if !self.text.is_empty() {
            self.text.push_str("\r\n");
        }
        self.text.push_str(&format!("# section: {name}\r\n"));
    }

    fn row(&mut self, fields: impl IntoIterator<Item = impl AsRef<str>>) {
        for (index, field) in fields.into_iter().enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            self.text.push_str(&quoted(field.as_ref()));
        }
        self.text.push_str("\r\n");
    }
}

/// Quoted where RFC 4180 asks for it, and where a first `#` would look like a section line.
fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\r', '\n']) || field.starts_with('#') {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        for (field, written) in [
            ("plain", "plain"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("# section: no", "\"# section: no\""),
        ] {
            assert_eq!(quoted(field), written);
        }
    }

    #[test]
    fn a_missing_value_keeps_its_reason() {
        let missing = Cell::Unsupported { unsupported: "no PMU".into() };
        assert_eq!(cell(&missing), "unsupported: no PMU");
        assert_eq!(cell(&Cell::Int(0)), "0");
    }
}
