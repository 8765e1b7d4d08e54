//! Stages that a thing passes one after the other, drawn as the mean one passed them.
//!
//! Means, because the means of the stages add up to the mean of the whole, and percentiles do not:
//! these stand beside them.

use quietcore_measure::Distribution;

use super::markup::{Esc, co, put};
use crate::words;

/// What tells stages apart, and the one that is the whole.
const LABEL: &str = "stage";
const WHOLE: &str = "total";

/// One stage, its share of the mean whole and what came before it.
struct Stage<'a> {
    of: &'a Distribution,
    name: &'a str,
    before: f64,
    mean: f64,
}

/// Draws nothing where these are no stages.
pub(super) fn render(group: &[&Distribution], out: &mut String) {
    let (stages, whole) = stages(group);
    if stages.len() < 2 || whole <= 0.0 {
        return;
    }
    let unit = &stages[0].of.unit;
    put!(
        out,
        "<p class=\"note\">The mean of all, {}, from left to right. A stage counts as nothing where \
         it did not happen.</p>\n<ol class=\"fall\">\n",
        Esc(&words::value(whole, unit))
    );
    for (index, stage) in stages.iter().enumerate() {
        let pct = |value: f64| co(value / whole * 100.0);
        let shown = |value: Option<u64>| {
            value.map_or("–".to_owned(), |value| words::value(value as f64, unit))
        };
        put!(
            out,
            "<li class=\"k{}\"><span class=\"what\">{}</span><span class=\"lane\" \
             aria-hidden=\"true\"><i style=\"left:{}%;width:{}%\"></i></span><b>{}</b>\
             <small>P50 {} · P99 {} · P99.9 {}</small></li>\n",
            index % 8,
            Esc(stage.name),
            pct(stage.before),
            pct(stage.mean),
            Esc(&words::value(stage.mean, unit)),
            Esc(&shown(stage.of.p50)),
            Esc(&shown(stage.of.p99)),
            Esc(&shown(stage.of.p99_9)),
        );
    }
    out.push_str("</ol>\n");
}

/// The stages in their order, and their sum.
fn stages<'a>(group: &[&'a Distribution]) -> (Vec<Stage<'a>>, f64) {
    let named = group.iter().filter_map(|d| Some((*d, d.labels.get(LABEL)?.as_str())));
    let all = group.iter().map(|d| d.count).max().unwrap_or(0).max(1);
    let (mut stages, mut sum) = (Vec::new(), 0.0);
    for (of, name) in named.filter(|(_, name)| *name != WHOLE) {
        let mean = of.hist().ok().and_then(|hist| hist.mean()).unwrap_or(0.0);
        let mean = mean * of.count as f64 / all as f64;
        stages.push(Stage { of, name, before: sum, mean });
        sum += mean;
    }
    (stages, sum)
}

#[cfg(test)]
mod tests {
    use quietcore_measure::{Hist, HistConfig};

    use super::*;

    fn distribution(label: (&str, &str), values: &[u64]) -> Distribution {
        let mut hist = Hist::new(HistConfig::default());
        values.iter().for_each(|value| hist.record(*value));
        Distribution::of("way", "ns", &[label], &hist)
    }

    #[test]
    fn stages_stand_one_after_the_other_and_fill_the_whole() {
        let tls = distribution(("stage", "tls"), &[30, 30]);
        let book = distribution(("stage", "book"), &[60, 80]);
        // It did not happen to one of two.
        let wake = distribution(("stage", "wake"), &[20]);
        let total = distribution(("stage", "total"), &[90, 130]);
        let group = [&wake, &tls, &book, &total];
        let (found, whole) = stages(&group);
        let places: Vec<_> = found.iter().map(|s| (s.name, s.before, s.mean)).collect();
        assert_eq!(places, [("wake", 0.0, 10.0), ("tls", 10.0, 30.0), ("book", 40.0, 70.0)]);
        assert_eq!(whole, 110.0);
        let mut out = String::new();
        render(&group, &mut out);
        assert_eq!(out.matches("<li").count(), 3);
        assert!(out.contains("110 ns") && !out.contains("total<"), "{out}");
    }

    #[test]
    fn other_distributions_are_no_stages() {
        let mut out = String::new();
        let cpu = distribution(("cpu", "2"), &[5]);
        render(&[&cpu, &cpu], &mut out);
        render(&[&distribution(("stage", "tls"), &[5])], &mut out);
        assert_eq!(out, "");
    }
}
