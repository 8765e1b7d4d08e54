//! Distributions of one name side by side: percentiles as a table, shapes as rows of bars.

use quietcore_measure::Distribution;

use super::page::{Bars, Page, Style};
use super::table::sheet;
use crate::curve::Shape;
use crate::words::{self, Percentile};

/// `group` holds at least one distribution, and all have the same name and unit.
pub(super) fn group(group: &[&Distribution], page: &mut Page) {
    let Some(first) = group.first() else { return };
    page.heading(&words::heading(&first.name));
    let labelled = group.iter().any(|d| !d.labels.is_empty());
    let mut header = vec!["samples".to_owned(), "min".to_owned()];
    header.extend(Percentile::KEYS.map(words::percentile_name));
    header.push("max".to_owned());
    if labelled {
        header.insert(0, String::new());
    }
    let rows = group.iter().map(|d| row(d, labelled)).collect();
    let right: Vec<usize> = (usize::from(labelled)..header.len()).collect();
    sheet(header, rows, &right, page);
    for d in group {
        notes(d, page);
    }
    shapes(group, page);
}

fn row(d: &Distribution, labelled: bool) -> Vec<String> {
    let shown = |v: Option<u64>| v.map_or("–".to_owned(), |v| words::value(v as f64, &d.unit));
    let mut row = vec![words::grouped(d.count), shown(d.min)];
    row.extend(Percentile::of(d).map(|p| shown(p.value)));
    row.push(shown(d.max));
    if labelled {
        row.insert(0, words::labels(&d.labels));
    }
    row
}

/// What the table cannot hold: what is not provable, and how sure the rest is.
fn notes(d: &Distribution, page: &mut Page) {
    let who = words::labels(&d.labels);
    let who = if who.is_empty() { String::new() } else { format!("{who}: ") };
    let missing: Vec<_> = d
        .not_provable
        .iter()
        .map(|(key, needed)| {
            format!("{} (needs {})", words::percentile_name(key), words::grouped(*needed))
        })
        .collect();
    if !missing.is_empty() {
        let text = format!(
            "{who}not provable from {} samples: {}",
            words::grouped(d.count),
            missing.join(", ")
        );
        page.wrapped("", &text, Style::Dim);
    }
    if page.options.verbose && !d.ci95.is_empty() {
        let bounds: Vec<_> = Percentile::of(d)
            .iter()
            .filter_map(|p| {
                let bounds = words::bounds(*d.ci95.get(p.key)?, &d.unit);
                Some(format!("{} {bounds}", words::percentile_name(p.key)))
            })
            .collect();
        page.wrapped("", &format!("{who}95 % sure: {}", bounds.join(", ")), Style::Dim);
    }
}

/// One row of bars per distribution over a common axis, a bar per power of two.
fn shapes(group: &[&Distribution], page: &mut Page) {
    let shapes: Vec<_> = group.iter().map(|d| (*d, Shape::of(d))).collect();
    let octaves: Vec<_> =
        shapes.iter().filter_map(|(d, shape)| Some((*d, shape.as_ref().ok()?.octaves()))).collect();
    for (d, shape) in &shapes {
        if let Err(why) = shape {
            let who = words::labels(&d.labels);
            page.wrapped("", &format!("no shape {who}: {why}"), Style::Dim);
        }
    }
    let Some(first) = octaves.iter().map(|(_, (first, _))| *first).min() else { return };
    let last = octaves.iter().map(|(_, (first, c))| first + c.len() as u32 - 1).max();
    let label = octaves.iter().map(|(d, _)| words::labels(&d.labels).chars().count()).max();
    let (last, label) = (last.unwrap_or(first), label.unwrap_or(0));
    // Two characters per power of two, where there is room, let the eye follow.
    let octave = if label + 2 + 2 * (last + 1 - first) as usize <= page.width() { 2 } else { 1 };
    page.blank();
    for (d, (own, counts)) in &octaves {
        let heights: Vec<f64> = (first..=last)
            .map(|e| e.checked_sub(*own).and_then(|i| counts.get(i as usize)))
            .map(|count| count.copied().unwrap_or(0) as f64)
            .flat_map(|height| std::iter::repeat_n(height, octave))
            .collect();
        let name = words::tame(&words::labels(&d.labels));
        page.line(&format!(
            "{name:<label$}  {}",
            page.painted(&Bars::of(&heights).row(&heights), Style::Info)
        ));
    }
    let unit = group.first().map_or("", |d| d.unit.as_str());
    let at = |exponent: u32| words::value(2f64.powi(exponent as i32), unit);
    let characters = if octave == 2 { "two characters" } else { "one character" };
    let axis = format!(
        "{} … {}: {characters} per power of two, height is log(count)",
        at(first),
        at(last + 1)
    );
    page.wrapped(&" ".repeat(label + 2), &axis, Style::Dim);
}
