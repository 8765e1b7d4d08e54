//! Tables and comparisons, laid out by comfy-table.

use comfy_table::{CellAlignment, ContentArrangement, Table as Sheet, presets};
use quietcore_measure::{Comparison, ComparisonRow, Table};

use super::page::{Page, Style};
use crate::words;

/// Rows shown unless all are asked for: a page or two.
const ROWS: usize = 60;

pub(super) fn table(table: &Table, page: &mut Page) {
    let title =
        if table.title.is_empty() { words::heading(&table.name) } else { table.title.clone() };
    page.heading(&title);
    if table.rows.is_empty() {
        page.line("(no rows)");
        return;
    }
    let columns: Vec<_> = table.columns.iter().map(|name| words::column(name)).collect();
    let header = columns.iter().map(|(name, _)| name.clone()).collect();
    let limit = if page.options.verbose { usize::MAX } else { ROWS };
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .take(limit)
        .map(|row| {
            let unit = |index: usize| columns.get(index).map_or("", |(_, unit)| unit);
            row.iter().enumerate().map(|(i, cell)| words::cell(cell, unit(i))).collect()
        })
        .collect();
    // The first column names the row, even by a number: it stands at the edge.
    let right: Vec<usize> = (1..columns.len())
        .filter(|&i| table.rows.iter().filter_map(|row| row.get(i)).any(words::is_numeric))
        .collect();
    sheet(header, rows, &right, page);
    if table.rows.len() > limit {
        let more = words::grouped((table.rows.len() - limit) as u64);
        page.wrapped("", &format!("… and {more} more rows: --verbose shows them"), Style::Dim);
    }
    reasons(table, page);
}

/// In the cells the reasons would burst the table.
fn reasons(table: &Table, page: &mut Page) {
    for (kind, reason, count) in words::reasons(table) {
        let cells = if count == 1 { "1 cell".to_owned() } else { format!("{count} cells") };
        page.wrapped("", &format!("{kind}: {reason} ({cells})"), Style::Dim);
    }
}

pub(super) fn comparison(comparison: &Comparison, page: &mut Page) {
    page.heading(&words::heading(&comparison.name));
    page.wrapped("A  ", &comparison.a, Style::Plain);
    page.wrapped("B  ", &comparison.b, Style::Plain);
    if comparison.rows.is_empty() {
        page.line("(nothing to compare)");
        return;
    }
    let header = ["", "A", "B", "change", "verdict"].map(str::to_owned).to_vec();
    let rows = comparison.rows.iter().map(compared).collect();
    sheet(header, rows, &[1, 2, 3], page);
    let counts: Vec<_> = words::verdict_counts(&comparison.rows)
        .into_iter()
        .map(|(verdict, count)| format!("{count} {verdict}"))
        .collect();
    page.wrapped("", &counts.join(" · "), Style::Bold);
}

fn compared(row: &ComparisonRow) -> Vec<String> {
    vec![
        row.what.clone(),
        words::compared(&row.a),
        words::compared(&row.b),
        words::change(row.change_pct, row.ci95_pct),
        format!("{} {}", words::verdict_symbol(&row.verdict), row.verdict),
    ]
}

/// Lays out rows of text from outside; `right` lists the columns aligned to the right.
pub(super) fn sheet(header: Vec<String>, rows: Vec<Vec<String>>, right: &[usize], page: &mut Page) {
    let mut sheet = Sheet::new();
    sheet
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(page.width()).unwrap_or(u16::MAX))
        .set_header(header.iter().map(|text| words::tame(text)));
    for row in rows {
        sheet.add_row(row.iter().map(|text| words::tame(text)));
    }
    for (index, column) in sheet.column_iter_mut().enumerate() {
        // No padding on the left: the first column lines up with the text around the table.
        column.set_padding((0, 2));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (index, line) in sheet.lines().enumerate() {
        let style = if index == 0 { Style::Dim } else { Style::Plain };
        let line = page.painted(line.trim_end(), style);
        page.line(&line);
    }
}
