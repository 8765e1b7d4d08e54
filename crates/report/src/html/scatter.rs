//! A timeline as dots: time across, size upwards, a lane for each series.

use quietcore_measure::{Series, Timeline};

use super::curves::{colour, tick};
use super::markup::{Esc, co, put};
use super::scale::{Log, SIDE, linear_ticks};
use crate::words;

/// Dots drawn per timeline. The largest are kept, since they are what the page is read for.
const DOTS: usize = 3_000;

/// Dots closer than this on both axes are drawn once; it is about a pixel and a half.
const CELL: (f64, f64) = (1.5, 6.0);

pub(super) fn render(timeline: &Timeline, out: &mut String) {
    let values = timeline.series.iter().flat_map(|s| &s.points).map(|&(_, value)| value);
    let y = Log::around(values);
    let span = timeline.span_ns.max(1) as f64;
    let lanes = timeline.series.len();
    let size = if lanes <= 2 {
        "tall"
    } else if lanes <= 8 {
        "middle"
    } else {
        "low"
    };
    put!(
        out,
        "<figure class=\"chart scatter {size}\" data-unit=\"{}\" data-span=\"{}\" \
         data-low=\"{:e}\" data-high=\"{:e}\">\n",
        Esc(&timeline.unit),
        timeline.span_ns,
        y.low(),
        y.high()
    );
    out.push_str("<div class=\"tools js\" hidden><span>Drag across to zoom.</span> <button type=\"button\" class=\"reset\" disabled>Show all</button></div>\n");
    let mut left_out = 0;
    for (index, series) in timeline.series.iter().enumerate() {
        let drawn = thinned(series, span, y, DOTS / lanes.max(1));
        left_out += series.points.len() - drawn.len();
        let last = index + 1 == lanes;
        lane(series, index, &drawn, (y, span, last), &timeline.unit, out);
    }
    out.push_str("<figcaption>Time since the start</figcaption>\n</figure>\n");
    notes(timeline, left_out, out);
}

fn lane(
    series: &Series,
    index: usize,
    drawn: &[(f64, f64)],
    (y, span, last): (Log, f64, bool),
    unit: &str,
    out: &mut String,
) {
    let name = words::labels(&series.labels);
    let largest = series.points.iter().map(|&(_, v)| v).fold(0.0, f64::max);
    put!(
        out,
        "<div class=\"lane\"><p class=\"key {}\">{}</p><div class=\"plot\" tabindex=\"0\" \
         role=\"img\" aria-label=\"{}: {} points, the largest {}\">\n<svg viewBox=\"0 0 1000 1000\" \
         preserveAspectRatio=\"none\" aria-hidden=\"true\" focusable=\"false\">",
        colour(index),
        Esc(&name),
        Esc(&name),
        words::grouped(series.points.len() as u64),
        Esc(&words::value(largest, unit)),
    );
    let ticks = y.ticks(4);
    let mut grid = String::new();
    for &value in &ticks {
        put!(grid, "M0 {}H1000", co(y.y(value)));
    }
    put!(out, "<path class=\"grid\" d=\"{grid}\"/>");
    let mut dots = String::new();
    for &(x, y) in drawn {
        put!(dots, "M{} {}h0", co(x), co(y));
    }
    put!(out, "<path class=\"dots {}\" d=\"{dots}\"/></svg>\n", colour(index));
    out.push_str("<div aria-hidden=\"true\">");
    for value in ticks {
        let top = co(y.y(value) / 10.0);
        put!(out, "<span class=\"y\" style=\"top:{top}%\">{}</span>", Esc(&tick(value, unit)));
    }
    if last {
        for at in linear_ticks(span, 5) {
            let left = co(at / span * 100.0);
            put!(out, "<span class=\"x\" style=\"left:{left}%\">{}</span>", time(at));
        }
    }
    out.push_str("</div></div></div>\n");
}

/// A time on the axis; 0 has no unit.
fn time(at_ns: f64) -> String {
    if at_ns > 0.0 { tick(at_ns, "ns") } else { "0".to_owned() }
}

/// The dots to draw, in units of the plot: one per cell, the largest values first.
fn thinned(series: &Series, span: f64, y: Log, most: usize) -> Vec<(f64, f64)> {
    let mut points: Vec<_> = series.points.clone();
    points.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut taken = std::collections::HashSet::new();
    let mut drawn = Vec::new();
    for (at, value) in points {
        let (x, y) = ((at as f64 / span).min(1.0) * SIDE, y.y(value));
        let cell = ((x / CELL.0) as u32, (y / CELL.1) as u32);
        if drawn.len() < most && taken.insert(cell) {
            drawn.push((x, y));
        }
    }
    drawn
}

fn notes(timeline: &Timeline, left_out: usize, out: &mut String) {
    let omitted: u64 = timeline.series.iter().map(|series| series.omitted).sum();
    if omitted > 0 {
        put!(
            out,
            "<p class=\"note\">The run kept the points drawn here and counted {} more.</p>\n",
            words::grouped(omitted)
        );
    }
    if left_out > 0 {
        put!(
            out,
            "<p class=\"note\">{} points are not drawn: they lie on others, or are the smallest of \
             too many.</p>\n",
            words::grouped(left_out as u64)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_points_are_the_ones_drawn() {
        let points: Vec<_> = (0..5000u64).map(|i| (i * 1000, 100.0 + i as f64)).collect();
        let series = Series { points, ..Series::default() };
        let axis = Log::around([100.0, 5100.0]);
        let drawn = thinned(&series, 5e6, axis, 100);
        assert_eq!(drawn.len(), 100);
        assert!(drawn.iter().all(|&(x, _)| x > 800.0));
    }

    #[test]
    fn points_on_top_of_each_other_are_drawn_once() {
        let series = Series { points: vec![(5, 7.0); 40], ..Series::default() };
        assert_eq!(thinned(&series, 10.0, Log::around([7.0]), 100).len(), 1);
    }
}
