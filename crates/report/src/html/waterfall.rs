//! Spikes as waterfalls: what happened one after the other, each part where and as long as it was.

use quietcore_measure::{Kind, Segment, Spike, Spikes};

use super::markup::{Esc, co, put};
use super::tables;
use crate::{spikes, words};

/// Spikes drawn: the longest.
const DRAWN: usize = 40;
/// Parts of one that are drawn.
const PARTS: usize = 60;

pub(super) fn render(section: &Spikes, out: &mut String) {
    tables::table(&spikes::kinds(section), out);
    let mut longest: Vec<&Spike> = section.spikes.iter().collect();
    longest.sort_by_key(|spike| std::cmp::Reverse(spike.len_ns));
    let all = section.spikes.len() as u64 + section.omitted;
    if longest.len() as u64 != all || longest.len() > DRAWN {
        let drawn = longest.len().min(DRAWN);
        put!(out, "<p class=\"note\">The {drawn} longest of {}.</p>\n", words::grouped(all));
    }
    for (index, spike) in longest.into_iter().take(DRAWN).enumerate() {
        one(spike, index == 0, out);
    }
}

fn one(spike: &Spike, open: bool, out: &mut String) {
    let (kind, by) = spike.shares().first().map_or((spike.kind(), ""), |&(kind, by, _)| (kind, by));
    put!(
        out,
        "<details class=\"spike\"{}><summary><b>{}</b><span class=\"title\">{} on CPU {}</span>\
         <span class=\"what {}\">{}</span></summary>\n<ol class=\"fall\">\n",
        if open { " open=\"open\"" } else { "" },
        spike.len_ns,
        Esc(&spikes::thread(&spike.thread)),
        spike.cpu,
        colour(kind),
        Esc(&spikes::named(kind, by)),
    );
    for segment in spike.segments.iter().take(PARTS) {
        part(segment, spike, out);
    }
    out.push_str("</ol>\n");
    if spike.segments.len() > PARTS {
        let more = words::grouped((spike.segments.len() - PARTS) as u64);
        put!(out, "<p class=\"note\">… and {more} more parts.</p>\n");
    }
    if let Some(why) = &spike.incomplete {
        put!(out, "<p class=\"note\">May not be the whole truth: {}.</p>\n", Esc(why));
    }
    if !spike.stack.is_empty() {
        put!(
            out,
            "<p class=\"note\">It was in <code>{}</code></p>\n",
            Esc(&spike.stack.join(" ← "))
        );
    }
    out.push_str("</details>\n");
}

fn part(segment: &Segment, spike: &Spike, out: &mut String) {
    let pct = |ns: u64| co(ns as f64 / spike.len_ns.0.max(1) as f64 * 100.0);
    put!(
        out,
        "<li class=\"{}\"><span class=\"what\">{}</span><span class=\"lane\" aria-hidden=\"true\">\
         <i style=\"left:{}%;width:{}%\"></i></span><b>{}</b>",
        colour(segment.kind),
        Esc(&spikes::named(segment.kind, &segment.by)),
        pct(segment.at_ns.0),
        pct(segment.len_ns.0),
        segment.len_ns,
    );
    if !segment.evidence.is_empty() {
        out.push_str("<small>");
        put!(out, "{}", Esc(&segment.evidence.join("\n")));
        out.push_str("</small>");
    }
    out.push_str("</li>\n");
}

/// Kinds of one family share a colour; the words beside it tell them apart.
fn colour(kind: Kind) -> &'static str {
    match kind {
        Kind::User | Kind::Kernel => "k2",
        Kind::PageFault | Kind::Io | Kind::Reclaim | Kind::MmapLock => "k4",
        Kind::Lock | Kind::Sleep | Kind::Blocked => "k0",
        Kind::WakeIpi | Kind::RunQueue | Kind::Preempted | Kind::RtThrottled | Kind::CpuQuota => {
            "k1"
        }
        Kind::HardIrq
        | Kind::Softirq
        | Kind::Nmi
        | Kind::Ipi
        | Kind::TlbShootdown
        | Kind::Tick
        | Kind::Timer => "k3",
        Kind::IdleExit | Kind::Frequency => "k5",
        Kind::Gc | Kind::Steal | Kind::Smi | Kind::HostOrFirmware => "k7",
        Kind::Unexplained => "k6",
    }
}
