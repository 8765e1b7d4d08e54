//! Distributions of one name as percentile curves over the same axes, and as a table.

use quietcore_measure::Distribution;

use super::markup::{Esc, co, put};
use super::scale::{Log, SIDE};
use crate::curve::{Shape, nines, provable_nines};
use crate::words::{self, Percentile};

/// Points of all curves of a chart together: it keeps a page with 64 CPUs below its size.
const POINTS: usize = 2_000;

/// Colours in the style sheet; further series take them again, in a thinner line.
const COLOURS: usize = 8;

pub(super) fn render(group: &[&Distribution], part: usize, out: &mut String) {
    let Some(first) = group.first() else { return };
    let shapes: Vec<Option<Shape>> = group.iter().map(|d| Shape::of(d).ok()).collect();
    if shapes.iter().any(Option::is_some) {
        chart(group, &shapes, &first.unit, out);
    }
    for d in group {
        if let Err(why) = Shape::of(d) {
            put!(out, "<p class=\"note\">No curve for {}: {}.</p>\n", Esc(&name(d)), Esc(&why));
        }
    }
    table(group, part, out);
}

struct Axes {
    y: Log,
    /// Nines at the right edge.
    end: f64,
}

impl Axes {
    fn x(&self, nines: f64) -> f64 {
        (nines / self.end).min(1.0) * SIDE
    }
}

fn chart(group: &[&Distribution], shapes: &[Option<Shape>], unit: &str, out: &mut String) {
    let most = (POINTS / group.len()).clamp(30, 200);
    let curves: Vec<(usize, Vec<(f64, u64)>)> = shapes
        .iter()
        .enumerate()
        .filter_map(|(index, shape)| Some((index, shape.as_ref()?.curve(most))))
        .collect();
    let ends = shapes.iter().flatten().flat_map(|s| [s.min() as f64, s.max() as f64]);
    let reach = curves.iter().filter_map(|(_, curve)| curve.last()).map(|&(x, _)| x);
    let axes = Axes { y: Log::around(ends), end: reach.fold(1.0, f64::max) };
    put!(
        out,
        "<figure class=\"chart curves\" data-unit=\"{}\" data-end=\"{:.4}\" data-low=\"{:e}\" \
         data-high=\"{:e}\">\n",
        Esc(unit),
        axes.end,
        axes.y.low(),
        axes.y.high()
    );
    legend(group.iter().map(|d| name(d)), out);
    put!(
        out,
        "<div class=\"plot\" tabindex=\"0\" role=\"img\" aria-label=\"Percentile curves of {}. \
         The table below holds the figures.\">\n<svg viewBox=\"0 0 1000 1000\" \
         preserveAspectRatio=\"none\" aria-hidden=\"true\" focusable=\"false\">\n",
        Esc(&words::heading(&group[0].name))
    );
    grid(&axes, out);
    for (index, curve) in &curves {
        series(group[*index], *index, curve, &axes, out);
    }
    out.push_str("</svg>\n");
    labels(&axes, unit, out);
    out.push_str("</div>\n<figcaption>Percentile, each nine as wide as the one before</figcaption>\n</figure>\n");
}

/// The class that colours a series; see the style sheet.
pub(super) fn colour(index: usize) -> String {
    let again = if index < COLOURS { "" } else { " again" };
    format!("k{}{again}", index % COLOURS)
}

/// One key per series. The script lets them switch curves on and off.
pub(super) fn legend(names: impl Iterator<Item = String>, out: &mut String) {
    out.push_str("<ul class=\"legend\">\n");
    for (index, name) in names.enumerate() {
        put!(
            out,
            "<li><button type=\"button\" class=\"key {}\" data-series=\"{index}\" \
             aria-pressed=\"true\" disabled>{}</button></li>\n",
            colour(index),
            Esc(&name)
        );
    }
    out.push_str("</ul>\n");
}

fn grid(axes: &Axes, out: &mut String) {
    let mut path = String::new();
    for value in axes.y.ticks(8) {
        put!(path, "M0 {}H1000", co(axes.y.y(value)));
    }
    for (x, _) in nine_ticks(axes.end) {
        put!(path, "M{} 0V1000", co(axes.x(x)));
    }
    put!(out, "<path class=\"grid\" d=\"{path}\"/>\n");
}

/// Solid as far as the samples prove, dashed beyond; a dot at the maximum; shaded bars for the
/// confidence intervals.
fn series(d: &Distribution, index: usize, curve: &[(f64, u64)], axes: &Axes, out: &mut String) {
    let proven = provable_nines(d.count);
    let split = curve.partition_point(|&(x, _)| x <= proven);
    let at = |&(x, v): &(f64, u64)| format!("{},{}", co(axes.x(x)), co(axes.y.y(v as f64)));
    let joint = joint(curve, split, proven);
    let solid: Vec<_> = curve[..split].iter().chain(&joint).map(at).collect();
    let dashed: Vec<_> = joint.iter().chain(&curve[split..]).map(at).collect();
    put!(out, "<g class=\"s {}\" data-series=\"{index}\">", colour(index));
    let mut whiskers = String::new();
    for p in Percentile::of(d) {
        if let Some([low, high]) = d.ci95.get(p.key) {
            let (low, high) = (axes.y.y(*low as f64), axes.y.y(*high as f64));
            put!(whiskers, "M{} {}V{}", co(axes.x(nines(p.q))), co(low), co(high));
        }
    }
    put!(out, "<path class=\"ci\" d=\"{whiskers}\"/>");
    put!(out, "<polyline class=\"line\" points=\"{}\"/>", solid.join(" "));
    put!(out, "<polyline class=\"line unproven\" points=\"{}\"/>", dashed.join(" "));
    if let Some(&(x, v)) = curve.last() {
        put!(out, "<path class=\"dot\" d=\"M{} {}h0\"/>", co(axes.x(x)), co(axes.y.y(v as f64)));
    }
    out.push_str("</g>\n");
}

/// The point where the proven part ends, on the line between its neighbours.
fn joint(curve: &[(f64, u64)], split: usize, proven: f64) -> Option<(f64, u64)> {
    let (&(x0, v0), &(x1, v1)) = (curve.get(split.checked_sub(1)?)?, curve.get(split)?);
    let share = (proven - x0) / (x1 - x0);
    Some((proven, v0 + ((v1.saturating_sub(v0)) as f64 * share) as u64))
}

/// 0, the median, and every nine up to the end.
fn nine_ticks(end: f64) -> Vec<(f64, String)> {
    let mut ticks = vec![(0.0, "0".to_owned()), (nines(0.5), "50".to_owned())];
    for whole in 1..=end.floor() as usize {
        let label = match whole {
            1 => "90".to_owned(),
            2 => "99".to_owned(),
            n => format!("99.{}", "9".repeat(n - 2)),
        };
        ticks.push((whole as f64, label));
    }
    ticks
}

fn labels(axes: &Axes, unit: &str, out: &mut String) {
    out.push_str("<div aria-hidden=\"true\">");
    for value in axes.y.ticks(8) {
        let top = co(axes.y.y(value) / 10.0);
        put!(out, "<span class=\"y\" style=\"top:{top}%\">{}</span>", Esc(&tick(value, unit)));
    }
    // On a phone there is room for about four nines; counted from the last, which matters most.
    let whole = axes.end.floor() as usize;
    let stride = whole.div_ceil(4).max(1);
    for (x, label) in nine_ticks(axes.end) {
        let crowded = x >= 1.0 && (whole - x as usize) % stride != 0;
        let class = if crowded { "x fine" } else { "x" };
        let left = co(axes.x(x) / 10.0);
        put!(out, "<span class=\"{class}\" style=\"left:{left}%\">{label}</span>");
    }
    out.push_str("</div>\n");
}

/// A value on an axis: `100 µs`, not `100.0 µs`.
pub(super) fn tick(value: f64, unit: &str) -> String {
    match unit {
        "ns" => words::impact(value / 1e3),
        _ => words::value(value, unit),
    }
}

fn name(d: &Distribution) -> String {
    if d.labels.is_empty() { words::heading(&d.name) } else { words::labels(&d.labels) }
}

fn table(group: &[&Distribution], part: usize, out: &mut String) {
    put!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"h{part}\">\n\
         <table class=\"percentiles\">\n<thead><tr><th scope=\"col\">Series</th>\
         <th scope=\"col\" class=\"num\">Samples</th><th scope=\"col\" class=\"num\">Min</th>"
    );
    for key in Percentile::KEYS {
        put!(out, "<th scope=\"col\" class=\"num\">{}</th>", words::percentile_name(key));
    }
    out.push_str("<th scope=\"col\" class=\"num\">Max</th></tr></thead>\n<tbody>\n");
    for (index, d) in group.iter().enumerate() {
        row(d, index, out);
    }
    out.push_str("</tbody></table></div>\n");
}

fn row(d: &Distribution, index: usize, out: &mut String) {
    let shown = |v: Option<u64>| v.map_or("–".to_owned(), |v| words::value(v as f64, &d.unit));
    put!(
        out,
        "<tr><th scope=\"row\"><span class=\"key {}\">{}</span></th><td class=\"num\">{}</td>\
         <td class=\"num\">{}</td>",
        colour(index),
        Esc(&name(d)),
        words::grouped(d.count),
        Esc(&shown(d.min))
    );
    for p in Percentile::of(d) {
        percentile(d, &p, out);
    }
    put!(out, "<td class=\"num\">{}</td></tr>\n", Esc(&shown(d.max)));
}

fn percentile(d: &Distribution, p: &Percentile, out: &mut String) {
    let with_unit = |v: u64| words::value(v as f64, &d.unit);
    match (p.value, d.ci95.get(p.key), d.not_provable.get(p.key)) {
        (None, _, Some(needed)) => put!(
            out,
            "<td class=\"num missing\">not provable<small>needs {} samples</small></td>",
            words::grouped(*needed)
        ),
        (Some(v), Some(&bounds), _) => put!(
            out,
            "<td class=\"num\">{}<small>{}</small></td>",
            Esc(&with_unit(v)),
            Esc(&words::bounds(bounds, &d.unit))
        ),
        (Some(v), None, _) => put!(out, "<td class=\"num\">{}</td>", Esc(&with_unit(v))),
        (None, _, None) => out.push_str("<td class=\"num missing\">–</td>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::fraction;

    #[test]
    fn the_axis_names_every_nine() {
        let names: Vec<_> = nine_ticks(4.2).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["0", "50", "90", "99", "99.9", "99.99"]);
        assert!((fraction(nine_ticks(4.2)[4].0) - 0.999).abs() < 1e-9);
    }

    #[test]
    fn the_joint_lies_on_the_curve_between_its_neighbours() {
        let curve = [(0.0, 10), (1.0, 20), (2.0, 40)];
        assert_eq!(joint(&curve, 2, 1.5), Some((1.5, 30)));
        assert_eq!(joint(&curve, 3, 2.0), None);
        assert_eq!(joint(&curve, 0, 0.0), None);
    }
}
