//! The HTML page: well-formed, inert, and sufficient unto itself.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod sample;

use std::collections::{BTreeMap, HashSet};

use quietcore_measure::{Distribution, Hist, HistConfig, Run, Section, Series, Timeline};
use quietcore_report::{Format, Options, render};

fn page(run: &Run) -> String {
    render(run, Format::Html, &Options::default()).unwrap()
}

/// An opening tag: its name and attributes, entities left as they are.
#[derive(Debug)]
struct Tag {
    name: String,
    attributes: Vec<(String, String)>,
}

impl Tag {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Reads a page by stricter rules than a browser's: every attribute quoted, every element closed
/// in order, no stray angle bracket. Returns the tags and the text between them.
fn read(page: &str) -> Result<(Vec<Tag>, String), String> {
    const VOID: [&str; 3] = ["meta", "link", "input"];
    let mut rest = page.strip_prefix("<!DOCTYPE html>\n").ok_or("no doctype")?;
    let (mut tags, mut open, mut text) = (Vec::new(), Vec::<String>::new(), String::new());
    while let Some(start) = rest.find('<') {
        let between = &rest[..start];
        if between.contains('>') {
            return Err(format!("stray > in {between:?}"));
        }
        text.push_str(between);
        rest = &rest[start + 1..];
        if let Some(closing) = rest.strip_prefix('/') {
            let (name, after) = closing.split_once('>').ok_or("unfinished closing tag")?;
            let expected = open.pop();
            if expected.as_deref() != Some(name) {
                return Err(format!("</{name}> closes {expected:?}"));
            }
            rest = after;
            continue;
        }
        let (tag, closed, after) = opening(rest)?;
        rest = after;
        // The content of these two is not markup; it ends at the first closing tag.
        if tag.name == "style" || tag.name == "script" {
            let end = format!("</{}>", tag.name);
            rest = rest.split_once(end.as_str()).ok_or("endless raw text")?.1;
        } else if !closed && !VOID.contains(&tag.name.as_str()) {
            open.push(tag.name.clone());
        }
        tags.push(tag);
    }
    if open.is_empty() { Ok((tags, text)) } else { Err(format!("left open: {open:?}")) }
}

fn opening(rest: &str) -> Result<(Tag, bool, &str), String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let end = rest.find(|c| !is_name(c)).ok_or("unfinished tag")?;
    let (name, mut rest) = rest.split_at(end);
    if name.is_empty() {
        return Err(format!("stray < before {:?}", rest.chars().take(20).collect::<String>()));
    }
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\n']);
        if let Some(after) = rest.strip_prefix("/>") {
            return Ok((Tag { name: name.to_owned(), attributes }, true, after));
        }
        if let Some(after) = rest.strip_prefix('>') {
            return Ok((Tag { name: name.to_owned(), attributes }, false, after));
        }
        let end = rest.find(|c| !is_name(c)).ok_or("unfinished attribute")?;
        let (key, after) = rest.split_at(end);
        if key.is_empty() {
            return Err(format!("bad attribute in <{name}>"));
        }
        let (value, after) = match after.strip_prefix("=\"") {
            Some(quoted) => quoted.split_once('"').ok_or("unfinished value")?,
            None => ("", after),
        };
        attributes.push((key.to_owned(), value.to_owned()));
        rest = after;
    }
}

#[test]
fn the_page_is_well_formed_and_its_links_lead_somewhere() {
    let (tags, text) = read(&page(&sample::run())).unwrap();
    let mut ids = HashSet::new();
    for id in tags.iter().filter_map(|tag| tag.attribute("id")) {
        assert!(ids.insert(id), "#{id} occurs twice");
    }
    for tag in &tags {
        let reference = tag.attribute("href").and_then(|href| href.strip_prefix('#'));
        for id in reference.into_iter().chain(tag.attribute("aria-labelledby")) {
            assert!(ids.contains(id), "#{id} does not exist");
        }
    }
    for part in ["What stands in your tail", "Incomplete", "not provable", "needs 29,956 samples"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn the_bar_at_the_top_calls_sections_by_their_names() {
    let page = page(&sample::run());
    let bar = page.split_once("<nav").and_then(|(_, rest)| rest.split_once("</nav>")).unwrap().0;
    assert!(bar.contains(">Jitter gaps<") && !bar.contains("Gaps above"), "{bar}");
    assert!(page.contains(">Gaps above 2 µs</h2>"));
}

#[test]
fn the_reader_of_these_tests_sees_what_is_wrong() {
    for wrong in ["<p>", "<p></b></p>", "<p>a > b</p>", "<p a=b></p>", "a < b"] {
        assert!(read(&format!("<!DOCTYPE html>\n{wrong}")).is_err(), "{wrong}");
    }
}

#[test]
fn everything_that_is_shown_can_be_reached_without_eyes_or_mouse() {
    let (tags, _) = read(&page(&sample::run())).unwrap();
    let headings: Vec<_> = tags.iter().filter(|t| t.name == "h1" || t.name == "h2").collect();
    assert_eq!(headings.iter().filter(|t| t.name == "h1").count(), 1);
    for svg in tags.iter().filter(|tag| tag.name == "svg") {
        let named = svg.attribute("aria-label").is_some_and(|label| !label.is_empty());
        assert!(named || svg.attribute("aria-hidden") == Some("true"), "{svg:?}");
    }
    for plot in tags.iter().filter(|tag| tag.attribute("class") == Some("plot")) {
        assert_eq!(plot.attribute("tabindex"), Some("0"));
        assert!(plot.attribute("aria-label").is_some_and(|label| !label.is_empty()));
    }
    assert!(tags.iter().filter(|tag| tag.name == "th").all(|th| th.attribute("scope").is_some()));
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    let page = page(&sample::run());
    let (tags, _) = read(&page).unwrap();
    for (key, value) in tags.iter().flat_map(|tag| &tag.attributes) {
        if ["src", "href", "srcset", "action", "data", "poster"].contains(&key.as_str()) {
            assert!(value.starts_with('#') || value == "data:,", "{key}={value}");
        }
    }
    for far in ["http://", "https://", "@import", "url(", "fetch(", "XMLHttpRequest", "import("] {
        assert!(!page.contains(far), "{far}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn a_text_that_holds_markup_stays_text() {
    let plain = read(&page(&sample::hostile("harmless"))).unwrap().0;
    for evil in [
        "<script>alert(1)</script>",
        "\" onmouseover=\"alert(1)",
        "' onfocus='alert(1)",
        "</style></title></script><img src=x onerror=alert(1)>",
        "<!-- ",
        "]]><svg onload=alert(1)>",
    ] {
        let (tags, _) =
            read(&page(&sample::hostile(evil))).unwrap_or_else(|why| panic!("{evil}: {why}"));
        let names = |tags: &[Tag]| -> Vec<(String, Vec<String>)> {
            let keys = |t: &Tag| t.attributes.iter().map(|(key, _)| key.clone()).collect();
            tags.iter().map(|t| (t.name.clone(), keys(t))).collect()
        };
        assert_eq!(names(&tags), names(&plain), "{evil} changed the structure of the page");
    }
}

#[test]
fn a_normal_page_is_small_and_a_large_machine_stays_bounded() {
    assert!(page(&sample::run()).len() < 100_000);
    let mut run = sample::run();
    let mut hist = Hist::new(HistConfig::default());
    (1..100_000u64).for_each(|v| hist.record(v * v % 1_000_003));
    let mut series = Vec::new();
    for cpu in 0..64u64 {
        let label = cpu.to_string();
        let section = Distribution::of("jitter_gap", "ns", &[("cpu", label.as_str())], &hist);
        run.sections.push(Section::Distribution(section));
        let points = (0..20_000u64).map(|i| (i * 500_000, (i * i % 90_001 + 100) as f64)).collect();
        let labels = BTreeMap::from([("cpu".to_owned(), label)]);
        series.push(Series { labels, points, omitted: 0 });
    }
    run.sections.push(Section::Timeline(Timeline {
        name: "gaps".into(),
        title: String::new(),
        unit: "ns".into(),
        span_ns: 10_000_000_000,
        series,
    }));
    let page = page(&run);
    assert!(page.len() < 400_000, "{}", page.len());
    read(&page).unwrap();
}
