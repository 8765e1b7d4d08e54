//! Findings as cards that unfold; filters are offered by the script, which alone can use them.

use std::collections::BTreeSet;

use quietcore_measure::{Cause, Finding, Findings, Status};

use super::markup::{Esc, put};
use crate::words;

/// Cards that stand open at first: the ones to read.
const OPEN: usize = 3;

pub(super) fn render(section: &Findings, part: usize, out: &mut String) {
    filter(section, out);
    out.push_str("<div class=\"cards\">\n");
    for (index, finding) in section.findings.iter().enumerate() {
        let open = index < OPEN && finding.status == Status::Fail;
        card(finding, &format!("f{part}-{index}"), open, out);
    }
    out.push_str("</div>\n");
    if section.findings.is_empty() {
        out.push_str("<p class=\"note\">No checks were run.</p>\n");
    }
}

fn filter(section: &Findings, out: &mut String) {
    out.push_str("<div class=\"filter\"><ul class=\"chips\" aria-label=\"Findings by status\">\n");
    for status in Status::ALL {
        let count = section.count(status);
        if count == 0 {
            continue;
        }
        // What is as it should be is there to be looked up, not to be read.
        let shown = !matches!(status, Status::Pass | Status::NotApplicable);
        put!(
            out,
            "<li><button type=\"button\" class=\"chip {}\" data-status=\"{}\" \
             aria-pressed=\"{shown}\" disabled><span aria-hidden=\"true\">{}</span> {} <b>{count}\
             </b></button></li>\n",
            class(status),
            status.name(),
            symbol(status),
            status.name().replace('_', " "),
        );
    }
    out.push_str("</ul>\n");
    let causes: BTreeSet<Cause> = section.findings.iter().map(|f| f.cause).collect();
    if causes.len() > 1 {
        out.push_str("<label class=\"js\" hidden>Cause <select>\n<option value=\"\">all</option>");
        for cause in Cause::ALL.into_iter().filter(|cause| causes.contains(cause)) {
            put!(out, "<option value=\"{cause}\">{}</option>", spoken(cause));
        }
        out.push_str("</select></label>\n");
    }
    out.push_str("</div>\n");
}

fn card(f: &Finding, id: &str, open: bool, out: &mut String) {
    let cost = words::cost(f);
    put!(
        out,
        "<details class=\"card {}\" id=\"{id}\" data-status=\"{}\" data-cause=\"{}\"{}>\n<summary>\
         <span class=\"badge\"><span aria-hidden=\"true\">{}</span> {}</span>\
         <span class=\"title\">{}</span><span class=\"cost\">{cost}</span></summary>\n\
         <div class=\"body\">\n<p class=\"meta\"><code>{}</code> · {}</p>\n",
        class(f.status),
        f.status.name(),
        f.cause,
        if open { " open" } else { "" },
        symbol(f.status),
        f.status.name().replace('_', " "),
        Esc(&f.title),
        Esc(&f.id),
        spoken(f.cause),
    );
    evidence(f, out);
    impact(f, out);
    if let Some(fix) = &f.fix {
        put!(
            out,
            "<h3>Fix</h3>\n<div class=\"fix\"><pre><code>{}</code></pre>\
             <button type=\"button\" class=\"copy js\" hidden>Copy</button></div>\n",
            Esc(fix)
        );
    }
    if let Some(knob) = &f.knob {
        put!(out, "<h3>Knob</h3>\n<p><code>{}</code></p>\n", Esc(knob));
    }
    if let Some(waiver) = &f.waiver {
        put!(
            out,
            "<h3>Waived</h3>\n<p>{} <span class=\"origin\">Until {}.</span></p>\n",
            Esc(&waiver.reason),
            Esc(&waiver.expires)
        );
    }
    out.push_str("</div>\n</details>\n");
}

fn evidence(f: &Finding, out: &mut String) {
    if f.evidence.is_empty() {
        return;
    }
    out.push_str("<h3>Evidence</h3>\n<dl class=\"evidence\">\n");
    for e in &f.evidence {
        put!(out, "<div><dt>{}</dt><dd>{}</dd></div>\n", Esc(&e.source), Esc(words::evidence(e)));
    }
    out.push_str("</dl>\n");
}

fn impact(f: &Finding, out: &mut String) {
    let impact = &f.impact;
    if impact.text.is_empty() && impact.origin.is_empty() {
        return;
    }
    let heading = match f.status {
        Status::Fail | Status::Warn | Status::Waived => "Expected cost",
        Status::Unknown | Status::Pass | Status::NotApplicable => "What a failure would cost",
    };
    put!(out, "<h3>{heading}</h3>\n<p>{}", Esc(&impact.text));
    if !impact.origin.is_empty() {
        put!(out, " <span class=\"origin\">Origin: {}.</span>", Esc(&impact.origin));
    }
    out.push_str("</p>\n");
}

/// The class that colours a status; see the style sheet.
pub(super) fn class(status: Status) -> &'static str {
    match status {
        Status::Fail => "st-fail",
        Status::Warn => "st-warn",
        Status::Unknown => "st-unknown",
        Status::Waived => "st-waived",
        Status::Pass => "st-pass",
        Status::NotApplicable => "st-na",
    }
}

/// The sign of a status, for those who do not see its colour.
pub(super) fn symbol(status: Status) -> char {
    match status {
        Status::Fail => '✕',
        Status::Warn => '!',
        Status::Unknown => '?',
        Status::Waived => '~',
        Status::Pass => '✓',
        Status::NotApplicable => '–',
    }
}

fn spoken(cause: Cause) -> &'static str {
    match cause {
        Cause::Scheduler => "scheduler",
        Cause::Tick => "timer tick",
        Cause::Rcu => "RCU",
        Cause::Irq => "interrupts",
        Cause::CState => "idle states",
        Cause::Frequency => "frequency",
        Cause::Lock => "locks",
        Cause::Gc => "garbage collection",
        Cause::Numa => "NUMA",
        Cause::Smi => "firmware (SMI)",
        Cause::Network => "network",
        Cause::Memory => "memory",
        Cause::Virtualisation => "virtualisation",
        Cause::Cgroup => "control groups",
        Cause::Clock => "clocks",
    }
}
