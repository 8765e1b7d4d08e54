//! The top and the bottom of the page: the machine, how far to trust it, what matters most.

use quietcore_measure::{Distribution, Finding, Run, Section, Status, Verdict};

use super::findings::{class, symbol};
use super::markup::{Esc, co, put};
use super::{Body, Part};
use crate::words;

/// Bars in the opening block; the rest stands in the list of findings.
const BARS: usize = 10;

pub(super) fn hero(run: &Run, out: &mut String) {
    let recorded = if run.host.recorded { " · from a recording" } else { "" };
    put!(
        out,
        "<header class=\"hero\">\n<p class=\"eyebrow\">Latency report · {}{recorded} · took {}</p>\n",
        words::date(run.started_unix_ms),
        run.took_ns.to_string().replace(' ', "\u{a0}")
    );
    let name = if run.host.name.is_empty() { "unknown host" } else { &run.host.name };
    put!(out, "<h1>{}</h1>\n", Esc(name));
    put!(out, "<p class=\"command\"><code>{}</code></p>\n", Esc(&words::command(&run.command)));
    out.push_str("<dl class=\"host\">\n");
    for (key, value) in words::host(&run.host) {
        put!(out, "<div><dt>{key}</dt><dd>{}</dd></div>\n", Esc(&value));
    }
    out.push_str("</dl>\n");
    validity(run, out);
    out.push_str("</header>\n");
}

fn validity(run: &Run, out: &mut String) {
    let (name, meaning) = words::verdict(run.validity.verdict);
    let (class, symbol) = match run.validity.verdict {
        Verdict::Valid => ("valid", "✓"),
        Verdict::Disturbed => ("disturbed", "!"),
        Verdict::Incomplete => ("incomplete", "!"),
    };
    put!(
        out,
        "<div class=\"validity {class}\" role=\"note\" aria-label=\"Validity\"><p>\
         <strong><span aria-hidden=\"true\">{symbol}</span> {name}</strong> {meaning}</p>\n"
    );
    let lost = run.validity.lost_events;
    if lost > 0 || !run.validity.notes.is_empty() {
        out.push_str("<ul>\n");
        for note in &run.validity.notes {
            put!(out, "<li>{}</li>\n", Esc(note));
        }
        if lost > 0 {
            put!(out, "<li>Lost events: {}</li>\n", words::grouped(lost));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</div>\n");
}

/// What stands in the tail: figures that sum up the run, and the findings by expected cost.
pub(super) fn tail(run: &Run, parts: &[Part<'_>], out: &mut String) {
    // With the place on the page, so that a bar can lead to its card.
    let mut costly: Vec<(usize, usize, &Finding)> = Vec::new();
    for (part, body) in parts.iter().map(|part| &part.body).enumerate() {
        if let Body::Section(Section::Findings(findings)) = body {
            let bad = |f: &Finding| matches!(f.status, Status::Fail | Status::Warn);
            let listed = findings.findings.iter().enumerate();
            costly.extend(
                listed.filter(|(_, f)| bad(f) && f.impact.us > 0.0).map(|(i, f)| (part, i, f)),
            );
        }
    }
    costly.sort_by(|a, b| b.2.impact.us.total_cmp(&a.2.impact.us));
    let tiles = tiles(run, costly.first().map(|c| c.2));
    if tiles.is_empty() && costly.is_empty() {
        return;
    }
    out.push_str("<section class=\"tail\" aria-labelledby=\"tail\">\n");
    out.push_str("<h2 id=\"tail\">What stands in your tail</h2>\n<dl class=\"tiles\">\n");
    for (label, value, detail) in tiles {
        put!(
            out,
            "<div><dt>{label}</dt><dd><b>{}</b><span>{}</span></dd></div>\n",
            Esc(&value),
            Esc(&detail)
        );
    }
    out.push_str("</dl>\n");
    bars(&costly, out);
    out.push_str("</section>\n");
}

fn tiles(run: &Run, costliest: Option<&Finding>) -> Vec<(&'static str, String, String)> {
    let mut tiles = Vec::new();
    let sections = || {
        run.sections.iter().filter_map(|section| match section {
            Section::Findings(findings) => Some(findings),
            _ => None,
        })
    };
    if sections().next().is_some() {
        let count = |status| sections().map(|f| f.count(status)).sum::<usize>();
        let [fail, warn, unknown] = [Status::Fail, Status::Warn, Status::Unknown].map(count);
        let detail = format!("{warn} warn, {unknown} could not be decided");
        tiles.push(("Checks that fail", fail.to_string(), detail));
    }
    if let Some(finding) = costliest {
        let cost = words::impact(finding.impact.us);
        tiles.push(("Largest expected cost", cost, finding.id.clone()));
    }
    let measured = run.sections.iter().filter_map(|section| match section {
        Section::Distribution(d) if d.unit == "ns" => Some((d.max?, d)),
        _ => None,
    });
    if let Some((max, d)) = measured.max_by_key(|(max, _)| *max) {
        tiles.push(("Largest value measured", words::value(max as f64, &d.unit), called(d)));
    }
    tiles
}

fn called(d: &Distribution) -> String {
    format!("{} {}", words::heading(&d.name), words::labels(&d.labels)).trim_end().to_owned()
}

/// Ranked bars on a logarithmic axis. They are HTML, not SVG: their titles must wrap.
fn bars(costly: &[(usize, usize, &Finding)], out: &mut String) {
    let shown = &costly[..costly.len().min(BARS)];
    let (Some(first), Some(last)) = (shown.first(), shown.last()) else { return };
    // Room to the left of the smallest, so that its bar can be seen.
    let low = (last.2.impact.us.log10() - 0.2).floor();
    let high = first.2.impact.us.log10().ceil().max(low + 1.0);
    let at = |us: f64| co((us.log10() - low) / (high - low) * 100.0);
    put!(out, "<div class=\"bars\" style=\"--decades:{}\">\n", high - low);
    out.push_str("<div class=\"ticks\" aria-hidden=\"true\"><div>");
    for decade in low as i32..=high as i32 {
        let us = 10f64.powi(decade);
        put!(out, "<span style=\"left:{}%\">{}</span>", at(us), words::impact(us));
    }
    out.push_str("</div></div>\n<ol>\n");
    for (part, index, f) in shown {
        put!(
            out,
            "<li class=\"{}\"><a href=\"#f{part}-{index}\"><span class=\"what\">\
             <span class=\"sign\">{}<span class=\"vh\"> {}:</span></span> {}\
             <small>{}</small></span><span class=\"track\"><i style=\"width:{}%\"></i></span>\
             <b>{}</b></a></li>\n",
            class(f.status),
            symbol(f.status),
            words::heading(f.status.name()),
            Esc(&f.title),
            Esc(&f.id),
            at(f.impact.us),
            words::impact(f.impact.us),
        );
    }
    out.push_str("</ol>\n<p class=\"note\">");
    if costly.len() > shown.len() {
        put!(out, "The {} costliest of {}. ", shown.len(), costly.len());
    }
    out.push_str(
        "Expected size of one disturbance, on a logarithmic axis. An expectation is not a \
         measurement: each finding names the origin of its figure.</p>\n</div>\n",
    );
}

pub(super) fn footer(run: &Run, out: &mut String) {
    put!(
        out,
        "<footer>\n<details><summary>How to read this</summary>\n<ul>\n\
         <li>A percentile curve shows which value a share of all samples stays below. Its axis \
         gives every further nine the same room, so that the tail is not a sliver at the edge.</li>\n\
         <li>Shaded bars are 95 % confidence intervals. A curve is dashed where there are too few \
         samples to enclose it; such percentiles are called not provable and carry no figure.</li>\n\
         <li>“Unsupported” means that this host does not have the value, “failed” that it could \
         not be read. Neither is zero.</li>\n\
         <li>A finding passes only if that was proven; what could not be is “unknown”.</li>\n\
         </ul></details>\n<p>quietcore {}, schema {}. Everything on this page comes from one \
         run.</p>\n</footer>\n",
        Esc(&run.quietcore),
        run.schema
    );
}
