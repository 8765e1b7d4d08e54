//! A timeline summed up: how many, how large, and when.

use quietcore_measure::{Series, Timeline};

use super::page::{Bars, Page, Style};
use super::table::sheet;
use crate::words;

pub(super) fn timeline(timeline: &Timeline, page: &mut Page) {
    let title = &timeline.title;
    page.heading(&if title.is_empty() { words::heading(&timeline.name) } else { title.clone() });
    let header = ["", "points", "median", "largest", "at"].map(str::to_owned).to_vec();
    let rows = timeline.series.iter().map(|series| row(series, &timeline.unit)).collect();
    sheet(header, rows, &[1, 2, 3, 4], page);
    page.blank();
    let names: Vec<_> =
        timeline.series.iter().map(|s| words::tame(&words::labels(&s.labels))).collect();
    let label = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let columns = page.width().saturating_sub(label + 2).clamp(10, 80);
    let strips: Vec<_> = timeline
        .series
        .iter()
        .map(|series| largest_by_column(series, timeline.span_ns, columns))
        .collect();
    let bars = Bars::of(strips.iter().flatten());
    for (strip, name) in strips.iter().zip(names) {
        page.line(&format!("{name:<label$}  {}", page.painted(&bars.row(strip), Style::Info)));
    }
    let span = words::value(timeline.span_ns as f64, "ns");
    let axis = format!("0 … {span}: height is log(largest in the interval)");
    page.wrapped(&" ".repeat(label + 2), &axis, Style::Dim);
}

fn row(series: &Series, unit: &str) -> Vec<String> {
    let mut values: Vec<f64> = series.points.iter().map(|&(_, value)| value).collect();
    values.sort_by(f64::total_cmp);
    let median = values.get(values.len().saturating_sub(1) / 2);
    let largest = series.points.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let shown = |v: Option<f64>, unit: &str| v.map_or("–".to_owned(), |v| words::value(v, unit));
    let mut points = words::grouped(series.points.len() as u64);
    if series.omitted > 0 {
        // The median of what was kept says nothing of what was left out.
        points.push_str(&format!(
            " of {}",
            words::grouped(series.points.len() as u64 + series.omitted)
        ));
    }
    vec![
        words::labels(&series.labels),
        points,
        shown(median.copied().filter(|_| series.omitted == 0), unit),
        shown(largest.map(|&(_, value)| value), unit),
        shown(largest.map(|&(at, _)| at as f64), "ns"),
    ]
}

fn largest_by_column(series: &Series, span_ns: u64, columns: usize) -> Vec<f64> {
    let mut largest = vec![0.0f64; columns];
    for &(at, value) in &series.points {
        let column = (at as f64 / span_ns.max(1) as f64 * columns as f64) as usize;
        let cell = &mut largest[column.min(columns - 1)];
        *cell = cell.max(value);
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_shows_the_largest_of_its_interval() {
        let points = vec![(0, 1.0), (10, 5.0), (99, 2.0), (100, 3.0), (500, 4.0)];
        let series = Series { points, ..Series::default() };
        assert_eq!(largest_by_column(&series, 100, 4), [5.0, 0.0, 0.0, 4.0]);
    }

    #[test]
    fn the_median_of_a_part_is_not_given_as_that_of_the_whole() {
        let points = vec![(0, 1.0), (1, 2.0)];
        let whole = Series { points, ..Series::default() };
        assert_eq!(row(&whole, "ns")[1..3], ["2", "1 ns"]);
        let part = Series { omitted: 8, ..whole };
        assert_eq!(row(&part, "ns")[1..3], ["2 of 10", "–"]);
    }
}
