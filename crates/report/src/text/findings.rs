//! Findings, ranked as they come: what fails in full, what passes as a number.

use quietcore_measure::{Evidence, Finding, Findings, Status};

use super::page::{Page, Style};
use crate::words;

/// Lines of evidence shown unless all are asked for.
const EVIDENCE: usize = 8;

pub(super) fn findings(section: &Findings, page: &mut Page) {
    page.heading(&words::heading(&section.name));
    counts(section, page);
    for (index, finding) in section.findings.iter().enumerate() {
        match finding.status {
            Status::Unknown if !page.options.verbose => {
                let alike = |f: &&Finding| (f.status, &f.title) == (finding.status, &finding.title);
                if !section.findings[..index].iter().any(|f| alike(&f)) {
                    together(
                        &section.findings[index..].iter().filter(alike).collect::<Vec<_>>(),
                        page,
                    );
                }
            }
            Status::Fail | Status::Warn | Status::Unknown | Status::Waived => full(finding, page),
            Status::Pass | Status::NotApplicable if page.options.verbose => title(finding, page),
            Status::Pass | Status::NotApplicable => {}
        }
    }
}

/// Checks that could not be decided for one and the same reason. The first is the costliest.
fn together(findings: &[&Finding], page: &mut Page) {
    let first = match findings {
        [] => return,
        [only] => return full(only, page),
        [first, ..] => first,
    };
    page.blank();
    let cost = words::cost(first);
    lead(first, &cost, page);
    let ids: Vec<_> = findings.iter().map(|f| f.id.as_str()).collect();
    page.wrapped("  ", &format!("{} checks: {}", ids.len(), ids.join(", ")), Style::Dim);
    // Every source once: what they have in common is mostly one file that cannot be read.
    let mut seen: Vec<&Evidence> = Vec::new();
    for evidence in findings.iter().flat_map(|f| &f.evidence) {
        if !seen.contains(&evidence) {
            seen.push(evidence);
        }
    }
    listed(&seen, page);
}

/// How often each status occurs, as many to a line as there is room for.
fn counts(section: &Findings, page: &mut Page) {
    const BETWEEN: &str = " · ";
    let (mut line, mut used) = (String::new(), 0);
    for status in Status::ALL {
        let count = section.count(status);
        let text = format!("{count} {}", status.name().replace('_', " "));
        let length = text.chars().count() + BETWEEN.chars().count();
        if used > 0 && used + length > page.width() {
            page.line(&std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push_str(BETWEEN);
        }
        let style = if count == 0 { Style::Dim } else { style(status) };
        line.push_str(&page.painted(&text, style));
        used += length;
    }
    page.line(&line);
}

fn full(finding: &Finding, page: &mut Page) {
    page.blank();
    title(finding, page);
    page.wrapped("  ", &format!("{} ({})", finding.id, finding.cause), Style::Dim);
    listed(&finding.evidence.iter().collect::<Vec<_>>(), page);
    let impact = &finding.impact;
    if !impact.text.is_empty() {
        let label = if finding.status == Status::Unknown { "risk" } else { "cost" };
        page.wrapped(&labelled(label), &impact.text, Style::Plain);
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
    if let Some(knob) = &finding.knob {
        page.wrapped(&labelled("knob"), knob, Style::Info);
    }
    if let Some(waiver) = &finding.waiver {
        let text = format!("{} (until {})", waiver.reason, waiver.expires);
        page.wrapped(&labelled("waived"), &text, Style::Plain);
    }
}

fn listed(evidence: &[&Evidence], page: &mut Page) {
    let limit = if page.options.verbose { usize::MAX } else { EVIDENCE };
    // One line more takes no more room than saying that there is one.
    let shown = if evidence.len() <= limit.saturating_add(1) { evidence.len() } else { limit };
    for (index, evidence) in evidence.iter().take(shown).enumerate() {
        let label = labelled(if index == 0 { "evidence" } else { "" });
        let text = format!("{}: {}", evidence.source, words::evidence(evidence));
        page.wrapped(&label, &text, Style::Plain);
    }
    if evidence.len() > shown {
        let more = words::grouped((evidence.len() - shown) as u64);
        let text = format!("… and {more} more (in the JSON, and with --verbose)");
        page.wrapped(&labelled(""), &text, Style::Dim);
    }
}

fn labelled(label: &str) -> String {
    format!("  {label:<9} ")
}

/// Symbol, status and title, with the expected cost at the right edge.
fn title(finding: &Finding, page: &mut Page) {
    let cost = words::cost(finding);
    lead(finding, &cost, page);
}

fn lead(finding: &Finding, cost: &str, page: &mut Page) {
    let word = finding.status.name().replace('_', " ");
    let lead = format!("{} {word}  ", symbol(finding.status));
    page.entry((&lead, style(finding.status)), &finding.title, Style::Bold, cost);
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
