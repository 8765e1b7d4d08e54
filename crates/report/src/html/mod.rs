//! One file that opens anywhere: no network, no framework, complete without its script.
//!
//! Charts are SVG made here. Each is a plot of 1000 by 1000 units that the page stretches to its
//! place, with its labels beside it as text, so that they keep their size on a phone. The script
//! only adds comfort: pointing at curves, zooming, filtering, sorting, copying.

mod curves;
mod findings;
mod flame;
mod head;
mod markup;
mod scale;
mod scatter;
mod stages;
mod tables;
mod waterfall;

use quietcore_measure::{Distribution, Run, Section};

use crate::spikes;
use crate::words;
use markup::{Esc, put};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Nothing may be loaded from anywhere, whatever a run's texts contain.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

pub(crate) fn render(run: &Run) -> String {
    let parts = parts(run);
    let mut out = String::with_capacity(64 * 1024);
    let host = if run.host.name.is_empty() { "unknown host" } else { &run.host.name };
    put!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"quietcore {}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{} · quietcore</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n",
        Esc(&run.quietcore),
        Esc(host),
    );
    top_bar(&parts, &mut out);
    out.push_str("<main id=\"main\">\n");
    head::hero(run, &mut out);
    head::tail(run, &parts, &mut out);
    for (index, part) in parts.iter().enumerate() {
        put!(out, "<section id=\"s{index}\" aria-labelledby=\"h{index}\">\n");
        put!(out, "<h2 id=\"h{index}\">{}</h2>\n", Esc(&part.title));
        match &part.body {
            Body::Curves(group) => {
                stages::render(group, &mut out);
                curves::render(group, index, &mut out);
            }
            Body::Section(Section::Findings(f)) => findings::render(f, index, &mut out),
            Body::Section(Section::Table(t)) => tables::table(t, &mut out),
            Body::Section(Section::Timeline(t)) => scatter::render(t, &mut out),
            Body::Section(Section::Comparison(c)) => tables::comparison(c, &mut out),
            Body::Section(Section::Distribution(_)) => {}
            Body::Section(Section::Spikes(s)) => waterfall::render(s, &mut out),
            Body::Section(Section::Flame(f)) => {
                flame::render(f, &mut out);
                tables::table(&spikes::stacks(f), &mut out);
            }
        }
        out.push_str("</section>\n");
    }
    out.push_str("</main>\n");
    head::footer(run, &mut out);
    put!(out, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    out
}

/// A section of the page.
struct Part<'a> {
    /// What the bar at the top calls it: a title may be a whole sentence.
    short: String,
    title: String,
    body: Body<'a>,
}

enum Body<'a> {
    Section(&'a Section),
    /// Distributions of one name and unit share a chart, at the place of the first.
    Curves(Vec<&'a Distribution>),
}

fn parts(run: &Run) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for section in &run.sections {
        let title = match section {
            Section::Table(t) if !t.title.is_empty() => t.title.clone(),
            Section::Spikes(s) if !s.title.is_empty() => s.title.clone(),
            Section::Timeline(t) if !t.title.is_empty() => t.title.clone(),
            Section::Flame(f) if !f.title.is_empty() => f.title.clone(),
            other => words::heading(other.name()),
        };
        let short = words::heading(section.name());
        let Section::Distribution(d) = section else {
            parts.push(Part { short, title, body: Body::Section(section) });
            continue;
        };
        let group = parts.iter_mut().find_map(|part| match &mut part.body {
            Body::Curves(group) => {
                group.first().is_some_and(|g| g.name == d.name && g.unit == d.unit).then_some(group)
            }
            Body::Section(_) => None,
        });
        match group {
            Some(group) => group.push(d),
            None => parts.push(Part { short, title, body: Body::Curves(vec![d]) }),
        }
    }
    parts
}

fn top_bar(parts: &[Part<'_>], out: &mut String) {
    out.push_str(
        "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n<div class=\"bar\">\
         <a class=\"brand\" href=\"#main\">quietcore</a><nav aria-label=\"Sections\"><ul>",
    );
    for (index, part) in parts.iter().enumerate() {
        put!(out, "<li><a href=\"#s{index}\">{}</a></li>", Esc(&part.short));
    }
    out.push_str(
        "</ul></nav><button id=\"theme\" type=\"button\" hidden>\
         <span aria-hidden=\"true\">◐</span><span class=\"vh\">Switch between light and dark</span>\
         </button></div>\n",
    );
}
