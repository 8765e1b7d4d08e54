//! Tables, and comparisons with a plot of every change.

use quietcore_measure::{Cell, Comparison, ComparisonRow, Table};

use super::markup::{Esc, co, put};
use crate::words;

pub(super) fn table(table: &Table, out: &mut String) {
    if table.rows.is_empty() {
        out.push_str("<p class=\"note\">No rows.</p>\n");
        return;
    }
    let columns: Vec<_> = table.columns.iter().map(|name| words::column(name)).collect();
    let numeric = |i: usize| {
        table.rows.iter().filter_map(|row: &Vec<Cell>| row.get(i)).any(words::is_numeric)
    };
    // The first column names the row, even by a number: it stands at the edge.
    let numeric: Vec<bool> = (0..columns.len()).map(|i| i > 0 && numeric(i)).collect();
    put!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n\
         <table class=\"sortable\">\n<thead><tr>",
        Esc(if table.title.is_empty() { &table.name } else { &table.title })
    );
    for ((name, _), &numeric) in columns.iter().zip(&numeric) {
        put!(
            out,
            "<th scope=\"col\"{}>{}</th>",
            if numeric { " class=\"num\"" } else { "" },
            Esc(name)
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (index, value) in row.iter().enumerate() {
            let unit = columns.get(index).map_or("", |(_, unit)| unit);
            let numeric = numeric.get(index).copied().unwrap_or(false);
            cell(value, unit, numeric, out);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    for (kind, reason, count) in words::reasons(table) {
        let cells = if count == 1 { "cell" } else { "cells" };
        put!(out, "<p class=\"note\">{count} {cells} {kind}: {}.</p>\n", Esc(reason));
    }
}

fn cell(value: &Cell, unit: &str, numeric: bool, out: &mut String) {
    let mut class = if numeric { "num" } else { "" }.to_owned();
    let mut attributes = String::new();
    let raw = match value {
        Cell::Int(v) => Some(*v as f64),
        Cell::Number(v) => Some(*v),
        _ => None,
    };
    if let Some(raw) = raw {
        put!(attributes, " data-value=\"{raw}\"");
        if unit == "pct" && (0.0..=100.0).contains(&raw) {
            class.push_str(" share");
            put!(attributes, " style=\"--share:{}%\"", co(raw));
        }
    }
    if words::reason(value).is_some() {
        class.push_str(" missing");
    }
    if !class.is_empty() {
        put!(attributes, " class=\"{}\"", class.trim_start());
    }
    put!(out, "<td{attributes}>{}</td>", Esc(&words::cell(value, unit)));
}

pub(super) fn comparison(comparison: &Comparison, out: &mut String) {
    put!(
        out,
        "<dl class=\"sides\"><div><dt>A</dt><dd>{}</dd></div><div><dt>B</dt><dd>{}</dd></div></dl>\n",
        Esc(&comparison.a),
        Esc(&comparison.b)
    );
    if comparison.rows.is_empty() {
        out.push_str("<p class=\"note\">Nothing changed.</p>\n");
        return;
    }
    out.push_str("<ul class=\"chips\">\n");
    for (verdict, count) in words::verdict_counts(&comparison.rows) {
        put!(out, "<li><span class=\"chip {}\">{}", class(verdict), words::verdict_symbol(verdict));
        put!(out, " {} <b>{count}</b></span></li>\n", Esc(verdict));
    }
    out.push_str(
        "</ul>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Comparison\">\n\
         <table class=\"comparison\">\n<thead><tr><th scope=\"col\">What</th>\
         <th scope=\"col\">Verdict</th><th scope=\"col\" class=\"num\">A</th><th scope=\"col\" class=\"num\">B</th>\
         <th scope=\"col\" class=\"num\">Change</th><th scope=\"col\" class=\"wide\">− · +</th></tr></thead>\n<tbody>\n",
    );
    let reach = reach(&comparison.rows);
    for row in &comparison.rows {
        compared(row, reach, out);
    }
    out.push_str("</tbody></table></div>\n<p class=\"note\">");
    put!(
        out,
        "Change from A to B; the bar is its 95 % confidence interval on an axis of ±{} %. Lower is \
         better.</p>\n",
        words::number(reach)
    );
}

fn compared(row: &ComparisonRow, reach: f64, out: &mut String) {
    put!(
        out,
        "<tr><th scope=\"row\"><code>{}</code></th><td><span class=\"chip {}\">{} {}</span></td>\
         <td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>\
         <td class=\"wide\">",
        Esc(&row.what),
        class(&row.verdict),
        words::verdict_symbol(&row.verdict),
        Esc(&row.verdict),
        Esc(&words::compared(&row.a)),
        Esc(&words::compared(&row.b)),
        Esc(&words::change(row.change_pct, row.ci95_pct)),
    );
    forest(row, reach, out);
    out.push_str("</td></tr>\n");
}

/// The change and its bounds on an axis with zero in the middle.
fn forest(row: &ComparisonRow, reach: f64, out: &mut String) {
    if row.change_pct.is_none() && row.ci95_pct.is_none() {
        return;
    }
    let x = |pct: f64| co(500.0 + (pct / reach).clamp(-1.0, 1.0) * 490.0);
    put!(
        out,
        "<svg class=\"forest {}\" viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{}\"><path class=\"zero\" d=\"M500 0V1000\"/>",
        class(&row.verdict),
        Esc(&words::change(row.change_pct, row.ci95_pct))
    );
    if let Some([low, high]) = row.ci95_pct {
        put!(out, "<path class=\"span\" d=\"M{} 500H{}\"/>", x(low), x(high));
    }
    if let Some(pct) = row.change_pct {
        put!(out, "<path class=\"dot\" d=\"M{} 500h0\"/>", x(pct));
    }
    out.push_str("</svg>");
}

/// Where the axis of changes ends: a round figure that holds them, at most 200 %; what goes
/// further touches the edge.
fn reach(rows: &[ComparisonRow]) -> f64 {
    let all = rows.iter().flat_map(|row| {
        row.change_pct.into_iter().chain(row.ci95_pct.into_iter().flatten()).map(f64::abs)
    });
    let largest = all.filter(|v| v.is_finite()).fold(0.0, f64::max);
    let round = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0].into_iter().find(|&r| r >= largest);
    round.unwrap_or(200.0)
}

fn class(verdict: &str) -> &'static str {
    match verdict {
        "better" => "st-pass",
        "worse" => "st-fail",
        "changed" => "st-warn",
        "same" => "st-na",
        _ => "st-unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_of_changes_is_round_and_bounded() {
        let row = |pct: f64| ComparisonRow {
            what: String::new(),
            a: Cell::Empty,
            b: Cell::Empty,
            change_pct: Some(pct),
            ci95_pct: None,
            verdict: String::new(),
        };
        assert_eq!(reach(&[row(-62.0), row(3.0)]), 100.0);
        assert_eq!(reach(&[row(4000.0)]), 200.0);
        assert_eq!(reach(&[]), 1.0);
    }
}
