//! `quietcore verify --watch`: tells every drift when it happens, and who did it.

use std::path::Path;
use std::sync::atomic::Ordering;

use quietcore_console::{Exit, Output, Stopwatch, interrupted, print};
use quietcore_host::drift::{By, Heard, News, Watcher};
use quietcore_measure::{Nanos, Section, Verdict};
use quietcore_report::Format;
use quietcore_sys::sched;
use serde_json::{Value, json};

pub fn watch(folder: &Path, time: Nanos, output: &Output) -> anyhow::Result<Exit> {
    let stopwatch = Stopwatch::start();
    let sink = output.open()?;
    let Some(mut watcher) = Watcher::begin(folder)? else {
        output.say("nothing is in force");
        return Ok(Exit::Clean);
    };
    keep_off(&watcher, output);
    let places = match watcher.places() {
        1 => "1 place".to_owned(),
        places => format!("{places} places"),
    };
    output.say(format_args!("watching {places}; Ctrl-C ends it"));
    if let Some(why) = watcher.nameless() {
        output.say(format_args!("writers stay unknown: {why}"));
    }
    let began = unix_ms();
    let mut over = false;
    while !over && !interrupted().load(Ordering::Relaxed) && stopwatch.elapsed() < time {
        let left = Nanos(time.0.saturating_sub(stopwatch.elapsed().0));
        match watcher.next(left.into())? {
            Heard::News(news) => {
                news.iter().try_for_each(|news| tell(news, began, output))?;
            }
            Heard::Over => over = true,
        }
    }
    if over {
        output.say("what was in force has been taken back: nothing is left to watch");
    }
    let mut run = stopwatch.stop(watcher.facts().summary());
    if watcher.losses() > 0 {
        run.validity.lost_events = watcher.losses();
        run.validity.note(Verdict::Incomplete, "reports of writes were lost: more writers unknown");
    }
    if watcher.is_damaged() {
        run.validity.note(Verdict::Incomplete, "the journal is damaged: places may be missing");
    }
    run.sections.push(Section::Table(watcher.drift().table()));
    sink.write(&run)?;
    Ok(Exit::findings(watcher.drift().has_drifted()))
}

/// Waking up costs the CPU that it happens on.
fn keep_off(watcher: &Watcher, output: &Output) {
    let kept = watcher.housekeeping();
    let placed = match kept.is_empty() {
        true => Err("none is left for everything else".to_owned()),
        false => sched::place(sched::CALLER, &kept).map_err(|error| error.to_string()),
    };
    if let Err(why) = placed {
        output.say(format_args!("this watch may run on isolated CPUs: {why}"));
    }
}

/// Talk goes to stderr where stdout is to hold a page of another kind.
fn tell(news: &News, began: u64, output: &Output) -> anyhow::Result<()> {
    let at = began + news.at.0 / 1_000_000;
    match (output.format(), output.file()) {
        (Format::Json, _) => print(&format!("{}\n", line(news, at)))?,
        (Format::Text, _) | (_, Some(_)) => print(&format!("{}  {news}\n", time_of_day(at)))?,
        // Not Output::say: --quiet silences talk, not findings.
        _ => eprintln!("{}  {news}", time_of_day(at)),
    }
    Ok(())
}

fn line(news: &News, at_unix_ms: u64) -> Value {
    let by = match &news.by {
        By::Unknown(why) => json!({ "unknown": why }),
        By::Process { pid, writer: None } => {
            json!({ "pid": pid, "unknown": "it ended before it could be asked" })
        }
        By::Process { pid, writer: Some(writer) } => json!({
            "pid": pid,
            "command": writer.comm,
            "program": writer.program,
            "unit": writer.unit,
            "started_unix_ms": writer.started_unix_ms,
            "parent": writer.parent.as_ref().map(|parent| json!({
                "pid": parent.pid,
                "command": parent.comm,
                "unit": parent.unit,
            })),
        }),
    };
    json!({
        "at_unix_ms": at_unix_ms,
        "after_ns": news.at.0,
        "event": news.event.name(),
        "place": news.slot.to_string(),
        "now": news.now(),
        "wanted": news.want.to_string(),
        "by": by,
    })
}

fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// `23:59:59.999Z`: the day stands in the page at the end.
fn time_of_day(unix_ms: u64) -> String {
    let [ms, s] = [unix_ms % 1000, unix_ms / 1000];
    format!("{:02}:{:02}:{:02}.{ms:03}Z", s / 3600 % 24, s / 60 % 60, s % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_is_in_utc() {
        assert_eq!(time_of_day(0), "00:00:00.000Z");
        assert_eq!(time_of_day(1_800_000_000_123), "08:00:00.123Z");
    }
}
