//! Tables and comparisons, laid out by comfy-table.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table as Sheet, Width, presets,
};
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
        page.line("(nothing changed)");
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

/// Lays out rows of text from outside; `right` lists the columns aligned to the right, which hold
/// numbers. Where they do not fit side by side, rows become columns.
pub(super) fn sheet(header: Vec<String>, rows: Vec<Vec<String>>, right: &[usize], page: &mut Page) {
    let grid = Grid::new(header, rows, right);
    match grid.widths(page.width()) {
        Some(widths) => grid.write(&widths, right, Style::Dim, page),
        None => turned(&grid, page),
    }
}

/// Rows as columns, as many at a time as there is room for, at least one.
fn turned(grid: &Grid, page: &mut Page) {
    let mut rest = grid.rows.as_slice();
    while !rest.is_empty() {
        let fitting = (1..=rest.len()).rev().find_map(|count| {
            let part = grid.turned(&rest[..count]);
            Some((count, part.widths(page.width())?, part))
        });
        let (count, widths, part) = fitting.unwrap_or_else(|| {
            let part = grid.turned(&rest[..1]);
            (1, part.narrowest(), part)
        });
        if rest.len() < grid.rows.len() {
            page.blank();
        }
        part.write(&widths, &[], Style::Bold, page);
        rest = &rest[count..];
    }
}

/// Texts in rows and columns, tamed. A number and its unit are one word, which is never broken.
struct Grid {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Space between columns.
    const GAP: usize = 2;
    /// A word of more characters may be broken, lest one path take all the room.
    const WORD: usize = 24;
    /// A column of so few characters is not wrapped where there is room.
    const SHORT: usize = 18;
    const NO_BREAK: char = '\u{a0}';

    fn new(header: Vec<String>, rows: Vec<Vec<String>>, right: &[usize]) -> Self {
        let cell = |(index, text): (usize, &String)| match right.contains(&index) {
            true => words::tame(text).replace(' ', &Self::NO_BREAK.to_string()),
            false => words::tame(text),
        };
        let rows = rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect();
        Self { header: header.iter().map(|text| words::tame(text)).collect(), rows }
    }

    /// These rows as columns under their first cells.
    fn turned(&self, rows: &[Vec<String>]) -> Self {
        let line = |index: usize| {
            let cells = rows.iter().map(|row| row.get(index).cloned().unwrap_or_default());
            self.header.get(index).cloned().into_iter().chain(cells).collect()
        };
        Self { header: line(0), rows: (1..self.header.len()).map(line).collect() }
    }

    fn column(&self, index: usize) -> impl Iterator<Item = &str> {
        let cells = self.rows.iter().filter_map(move |row| row.get(index));
        self.header.get(index).into_iter().chain(cells).map(String::as_str)
    }

    /// The width of each column at which no word is broken.
    fn narrowest(&self) -> Vec<usize> {
        let word = |text: &str| text.split(' ').map(|word| word.chars().count()).max();
        let longest = |i| self.column(i).filter_map(word).max().unwrap_or(0).clamp(1, Self::WORD);
        (0..self.header.len()).map(longest).collect()
    }

    /// A width for each column, `width` in all; `None` if words would have to be broken.
    fn widths(&self, width: usize) -> Option<Vec<usize>> {
        let length = |text: &str| text.chars().count();
        let wanted: Vec<usize> = (0..self.header.len())
            .map(|index| self.column(index).map(length).max().unwrap_or(0))
            .collect();
        let mut widths = self.narrowest();
        let gaps = Self::GAP * widths.len().saturating_sub(1);
        let room = width.checked_sub(gaps + widths.iter().sum::<usize>())?;
        for _ in 0..room {
            // To what is short, as a range with its unit; then to the column that is furthest from
            // what it wants, in proportion.
            let is_short = |i: usize| wanted[i] <= Self::SHORT;
            let neediest = (0..widths.len()).filter(|&i| widths[i] < wanted[i]).max_by(|&a, &b| {
                let proportions = (wanted[a] * widths[b]).cmp(&(wanted[b] * widths[a]));
                is_short(a).cmp(&is_short(b)).then(proportions)
            });
            let Some(neediest) = neediest else { break };
            widths[neediest] += 1;
        }
        Some(widths)
    }

    fn write(&self, widths: &[usize], right: &[usize], header: Style, page: &mut Page) {
        let laid = |rows: &[Vec<String>]| {
            let mut sheet = Sheet::new();
            sheet
                .load_preset(presets::NOTHING)
                .set_content_arrangement(ContentArrangement::Dynamic)
                .add_rows(rows);
            for (index, column) in sheet.column_iter_mut().enumerate() {
                // No padding on the left: the first column lines up with the text around it.
                column.set_padding((0, Self::GAP as u16));
                let width = widths.get(index).copied().unwrap_or(1) + Self::GAP;
                let width = Width::Fixed(u16::try_from(width).unwrap_or(u16::MAX));
                column.set_constraint(ColumnConstraint::Absolute(width));
                if right.contains(&index) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
            sheet.lines().map(|line| line.replace(Self::NO_BREAK, " ")).collect::<Vec<_>>()
        };
        let (head, body) = (laid(std::slice::from_ref(&self.header)), laid(&self.rows));
        for (line, style) in
            head.iter().map(|l| (l, header)).chain(body.iter().map(|l| (l, Style::Plain)))
        {
            let line = page.painted(line.trim_end(), style);
            page.line(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    fn shown(width: u16) -> String {
        let header = ["cpu", "loop p50 ticks", "stolen", "what it does"].map(str::to_owned);
        let row = |cpu: &str| {
            [cpu, "26", "12,345 ppm", "rather a long text of many words"].map(str::to_owned)
        };
        let rows = vec![row("0").to_vec(), row("11").to_vec()];
        let mut page = Page::new(Options { width, ..Options::default() });
        sheet(header.to_vec(), rows, &[1, 2], &mut page);
        page.finish()
    }

    #[test]
    fn headers_break_at_spaces_and_numbers_never() {
        for width in 40..120 {
            let text = shown(width);
            assert_eq!(text.matches("12,345 ppm").count(), 2, "{width}\n{text}");
            for word in ["ticks", "stolen", "rather", "words", "does"] {
                assert!(text.contains(word), "{width}: {word} is broken\n{text}");
            }
            assert!(text.lines().all(|line| line.chars().count() <= width.into()), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_side_by_side_is_turned() {
        let header: Vec<String> = (0..12).map(|i| format!("column{i}")).collect();
        let rows = vec![(0..12).map(|i| format!("{i} µs")).collect(); 2];
        let right: Vec<usize> = (1..12).collect();
        let mut page = Page::new(Options { width: 60, ..Options::default() });
        sheet(header, rows, &right, &mut page);
        let text = page.finish();
        assert_eq!(text.lines().count(), 12, "{text}");
        assert!(text.contains("column11  11 µs  11 µs"), "{text}");
    }
}
