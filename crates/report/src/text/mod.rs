//! For a terminal: what matters first, nothing by colour alone, no line wider than asked for.

mod distribution;
mod findings;
mod flame;
mod page;
mod spikes;
mod table;
mod timeline;

use quietcore_measure::{Distribution, Run, Section, Verdict};

use crate::{Options, words};
use page::{Page, Style};

pub(crate) fn render(run: &Run, options: &Options) -> String {
    let mut page = Page::new(*options);
    head(run, &mut page);
    validity(run, &mut page);
    let mut shown: Vec<(&str, &str)> = Vec::new();
    for section in &run.sections {
        match section {
            Section::Table(t) => table::table(t, &mut page),
            Section::Findings(f) => findings::findings(f, &mut page),
            Section::Distribution(d) => {
                let group = (d.name.as_str(), d.unit.as_str());
                if !shown.contains(&group) {
                    shown.push(group);
                    distribution::group(&siblings(run, group), &mut page);
                }
            }
            Section::Timeline(t) => timeline::timeline(t, &mut page),
            Section::Comparison(c) => table::comparison(c, &mut page),
            Section::Flame(f) => flame::flame(f, &mut page),
            Section::Spikes(s) => spikes::spikes(s, &mut page),
        }
    }
    page.finish()
}

/// Distributions of one name and unit are shown together: they are there to be compared.
fn siblings<'a>(run: &'a Run, (name, unit): (&str, &str)) -> Vec<&'a Distribution> {
    let of_group = |section: &'a Section| match section {
        Section::Distribution(d) if d.name == name && d.unit == unit => Some(d),
        _ => None,
    };
    run.sections.iter().filter_map(of_group).collect()
}

fn head(run: &Run, page: &mut Page) {
    page.wrapped("", &words::command(&run.command), Style::Bold);
    let source = if run.host.recorded { " (from a recording)" } else { "" };
    let name = if run.host.name.is_empty() { "unknown host" } else { &run.host.name };
    let when = words::date(run.started_unix_ms);
    page.wrapped("", &format!("{name}{source} · {when} · took {}", run.took_ns), Style::Plain);
    let facts: Vec<_> = words::host(&run.host)
        .into_iter()
        .map(|(key, value)| format!("{} {value}", key.to_lowercase()))
        .collect();
    page.wrapped("", &facts.join(" · "), Style::Dim);
}

fn validity(run: &Run, page: &mut Page) {
    let validity = &run.validity;
    let (name, meaning) = words::verdict(validity.verdict);
    let style = if validity.verdict == Verdict::Valid { Style::Dim } else { Style::Alarm };
    if validity.verdict != Verdict::Valid {
        page.blank();
        page.wrapped("! ", &format!("{}: {meaning}", name.to_uppercase()), style);
    }
    for note in &validity.notes {
        page.wrapped("  ", &format!("- {note}"), Style::Plain);
    }
    if validity.lost_events > 0 {
        let lost = words::grouped(validity.lost_events);
        page.wrapped("  ", &format!("- {lost} events were lost"), Style::Plain);
    }
}
