//! Findings, ranked as they come: what fails in full, what passes as a number.

use quietcore_measure::{Finding, Findings, Status};

use super::page::{Page, Style};
use crate::words;

pub(super) fn findings(section: &Findings, page: &mut Page) {
    page.heading(&words::heading(&section.name));
    page.line(&counts(section, page));
    for finding in &section.findings {
        match finding.status {
            Status::Fail | Status::Warn | Status::Unknown | Status::Waived => full(finding, page),
            Status::Pass | Status::NotApplicable if page.options.verbose => title(finding, page),
            Status::Pass | Status::NotApplicable => {}
        }
    }
}

fn counts(section: &Findings, page: &Page) -> String {
    let part = |status: Status| {
        let count = section.count(status);
        let text = format!("{count} {}", status.name().replace('_', " "));
        let style = if count == 0 { Style::Dim } else { style(status) };
        page.painted(&text, style)
    };
    Status::ALL.map(part).join(" · ")
}

fn full(finding: &Finding, page: &mut Page) {
    page.blank();
    title(finding, page);
    let labelled = |label: &str| format!("  {label:<9} ");
    page.wrapped("  ", &format!("{} ({})", finding.id, finding.cause), Style::Dim);
    for (index, evidence) in finding.evidence.iter().enumerate() {
        let label = labelled(if index == 0 { "evidence" } else { "" });
        page.wrapped(&label, &format!("{}: {}", evidence.source, evidence.value), Style::Plain);
    }
    let impact = &finding.impact;
    if !impact.text.is_empty() {
        page.wrapped(&labelled("cost"), &impact.text, Style::Plain);
    }
    if page.options.verbose && !impact.origin.is_empty() {
        page.wrapped(&labelled("origin"), &impact.origin, Style::Dim);
    }
    if let Some(fix) = &finding.fix {
        // Never wrapped: a command must survive being copied.
        for (index, line) in fix.lines().enumerate() {
            let label = labelled(if index == 0 { "fix" } else { "" });
            let line = page.painted(&words::tame(line), Style::Info);
            page.line(&format!("{label}{line}"));
        }
    }
    if let Some(waiver) = &finding.waiver {
        let text = format!("{} (until {})", waiver.reason, waiver.expires);
        page.wrapped(&labelled("waived"), &text, Style::Plain);
    }
}

/// Symbol, status and title, with the expected cost at the right edge.
fn title(finding: &Finding, page: &mut Page) {
    let cost = match finding.status {
        Status::Pass | Status::NotApplicable => String::new(),
        _ => words::impact(finding.impact.us),
    };
    let word = finding.status.name().replace('_', " ");
    let lead = format!("{} {word}  ", symbol(finding.status));
    page.entry((&lead, style(finding.status)), &finding.title, Style::Bold, &cost);
}

fn symbol(status: Status) -> char {
    match status {
        Status::Fail => '✗',
        Status::Warn => '!',
        Status::Unknown => '?',
        Status::Waived => '~',
        Status::Pass => '✓',
        Status::NotApplicable => '-',
    }
}

fn style(status: Status) -> Style {
    match status {
        Status::Fail => Style::Bad,
        Status::Warn => Style::Caution,
        Status::Unknown | Status::Waived => Style::Info,
        Status::Pass => Style::Good,
        Status::NotApplicable => Style::Dim,
    }
}
