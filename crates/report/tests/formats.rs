//! Every format, made from one run that holds every kind of section.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod sample;

use quietcore_measure::{
    Cause, Cell, Distribution, Evidence, Finding, Findings, HostSummary, Impact, Run, Section,
    Status,
};
use quietcore_report::{Format, Options, parse, render};

fn shown(run: &Run, format: Format) -> String {
    render(run, format, &Options::default()).unwrap()
}

#[test]
fn json_comes_back_as_the_same_run() {
    let run = sample::run();
    assert_eq!(parse(shown(&run, Format::Json).as_bytes()).unwrap(), run);
}

#[test]
fn a_run_without_sections_is_shown_in_every_format() {
    let mut run = sample::run();
    run.sections.clear();
    run.host = HostSummary::default();
    for format in Format::ALL {
        assert!(shown(&run, format).ends_with('\n'), "{format}");
    }
}

#[test]
fn a_distribution_without_samples_has_no_figures() {
    let mut run = sample::run();
    let empty = Distribution { name: "empty".into(), unit: "ns".into(), ..Distribution::default() };
    run.sections = vec![Section::Distribution(empty)];
    for format in [Format::Text, Format::Html] {
        let text = shown(&run, format);
        assert!(text.contains("no samples"), "{text}");
        assert!(!text.contains("0 ns"), "{text}");
    }
}

/// Compares with a file beside the tests; `QUIETCORE_BLESS=1 cargo test` writes it anew.
fn golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("QUIETCORE_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(text == expected, "{} differs; it is now\n{text}", path.display());
}

#[test]
fn text_looks_as_it_was_last_approved() {
    golden("sample.txt", &shown(&sample::run(), Format::Text));
    let narrow = Options { width: 80, verbose: true, ..Options::default() };
    golden("sample-80-verbose.txt", &render(&sample::run(), Format::Text, &narrow).unwrap());
    let coloured = Options { colour: true, ..Options::default() };
    golden("sample-colour.txt", &render(&sample::run(), Format::Text, &coloured).unwrap());
}

#[test]
fn text_names_what_fails_and_counts_what_passes() {
    let text = shown(&sample::run(), Format::Text);
    for part in [
        "! INCOMPLETE",
        "3 fail · 2 warn · 1 unknown · 1 waived · 2 pass · 1 not applicable",
        "sysctl -w kernel.sched_rt_runtime_us=-1",
        "until 2026-06-30",
        "not provable from 12,004 samples: P99.99 (needs 29,956)",
        "unsupported: the driver does not count polling (2 cells)",
        "-62 % (-66 to -58)",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("the clock source is tsc"));
    assert!(!text.contains('\x1b'));
    let verbose = Options { verbose: true, ..Options::default() };
    let verbose = render(&sample::run(), Format::Text, &verbose).unwrap();
    assert!(verbose.contains("the clock source is tsc"));
    assert!(verbose.contains("95 % sure: P50"));
}

#[test]
fn text_keeps_to_its_width_but_for_what_must_be_copied() {
    let copied = ["echo", "sysctl", "/sys/devices/"];
    for width in [60, 80, 100, 120] {
        let text = render(
            &sample::run(),
            Format::Text,
            &Options { width, verbose: true, ..Options::default() },
        );
        for line in
            text.unwrap().lines().filter(|line| !copied.iter().any(|part| line.contains(part)))
        {
            assert!(line.chars().count() <= usize::from(width), "{width}: {line}");
        }
    }
}

#[test]
fn text_from_outside_cannot_steer_the_terminal() {
    let text = shown(&sample::hostile("x\x1b]0;owned\x07\u{9b}31m\ry"), Format::Text);
    let steering: Vec<char> = text.chars().filter(|c| c.is_control() && *c != '\n').collect();
    assert_eq!(steering, []);
}

fn unknown(id: &str, title: &str, us: f64) -> Finding {
    Finding {
        id: id.into(),
        cause: Cause::Irq,
        status: Status::Unknown,
        title: title.into(),
        evidence: vec![Evidence { source: "/proc/x".into(), value: "not permitted".into() }],
        impact: Impact { us, text: String::new(), origin: String::new() },
        fix: None,
        knob: None,
        waiver: None,
    }
}

#[test]
fn what_is_unknown_for_one_reason_is_one_entry_in_text() {
    let mut run = sample::run();
    let findings = vec![
        unknown("irq.a", "run again with --probe", 20.0),
        unknown("smi.b", "only root can tell", 300.0),
        unknown("irq.c", "run again with --probe", 5.0),
    ];
    run.sections = vec![Section::Findings(Findings::new("audit", findings))];
    let text = shown(&run, Format::Text);
    assert_eq!(text.matches("run again with --probe").count(), 1, "{text}");
    assert!(text.contains("2 checks: irq.a, irq.c"), "{text}");
    assert!(text.contains("at most 20 µs"), "{text}");
    assert_eq!(text.matches("/proc/x: not permitted").count(), 2, "{text}");
    assert!(text.contains("smi.b (irq)"), "{text}");
    let verbose = Options { verbose: true, ..Options::default() };
    let text = render(&run, Format::Text, &verbose).unwrap();
    assert_eq!(text.matches("run again with --probe").count(), 2, "{text}");
}

#[test]
fn long_evidence_is_cut_in_text_and_nowhere_else() {
    let mut run = sample::run();
    let mut finding = unknown("irq.a", "many", 1.0);
    let source = |i: u32| Evidence { source: format!("/proc/irq/{i}."), value: "2".into() };
    for (lines, hidden) in
        [(8, None), (9, None), (10, Some("… and 2 more")), (40, Some("… and 32 more"))]
    {
        finding.evidence = (0..lines).map(source).collect();
        let findings = Findings::new("audit", vec![finding.clone()]);
        run.sections = vec![Section::Findings(findings)];
        let text = shown(&run, Format::Text);
        assert_eq!(text.matches("/proc/irq/").count() < lines as usize, hidden.is_some(), "{text}");
        assert!(hidden.is_none_or(|hidden| text.contains(hidden)), "{text}");
    }
    let verbose = Options { verbose: true, ..Options::default() };
    for (format, options) in
        [(Format::Text, verbose), (Format::Html, Options::default()), (Format::Json, verbose)]
    {
        let text = render(&run, format, &options).unwrap();
        assert_eq!(text.matches("/proc/irq/").count(), 40, "{format}");
    }
}

#[test]
fn csv_is_read_back_cell_by_cell() {
    let text = shown(&sample::run(), Format::Csv);
    let blocks: Vec<(&str, Vec<csv::StringRecord>)> = text
        .split("# section: ")
        .skip(1)
        .map(|block| {
            let (name, rows) = block.split_once("\r\n").unwrap();
            // Strict: every row of a block has as many fields as its first.
            let mut reader =
                csv::ReaderBuilder::new().has_headers(false).from_reader(rows.as_bytes());
            (name, reader.records().collect::<Result<_, _>>().unwrap())
        })
        .collect();
    let names: Vec<_> = blocks.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "run",
            "audit",
            "jitter_gap",
            "jitter_gaps",
            "power_idle_states",
            "compare",
            "spikes",
            "spikes.segments"
        ]
    );
    let cell = |block: usize, row: usize, column: &str| {
        let rows = &blocks[block].1;
        let index = rows[0].iter().position(|name| name == column).unwrap();
        rows[row].get(index).unwrap().to_owned()
    };
    assert_eq!(cell(1, 1, "id"), "sched.rt-throttling");
    assert_eq!(cell(1, 3, "fix").lines().count(), 2);
    assert_eq!(cell(2, 2, "cpu"), "3");
    assert_eq!(cell(2, 2, "p99_99"), "");
    assert_eq!(cell(4, 1, "entered"), "unsupported: the driver does not count polling");
    assert_eq!(cell(5, 2, "ci95_low"), "-66");
    // Siblings share a block: a header and one row each.
    assert_eq!(blocks[2].1.len(), 3);
}

#[test]
fn csv_survives_whatever_a_text_holds() {
    let evil = "a,\"b\"\r\n# section: x";
    let text = shown(&sample::hostile(evil), Format::Csv);
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let fields: Vec<String> = reader
        .records()
        .flat_map(|record| record.unwrap().iter().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(fields.iter().filter(|field| *field == evil).count() > 50);
}

#[test]
fn a_cell_that_was_not_measured_is_never_zero() {
    let mut run = sample::run();
    let Some(Section::Table(table)) =
        run.sections.iter_mut().find(|s| matches!(s, Section::Table(_)))
    else {
        panic!("the sample has a table");
    };
    table.columns = vec!["what".into(), "value_ns".into()];
    table.rows = vec![vec!["x".into(), Cell::Unsupported { unsupported: "no PMU".into() }]];
    let table = Section::Table(table.clone());
    run.sections = vec![table];
    for format in Format::ALL {
        let text = shown(&run, format);
        assert!(text.contains("unsupported") && text.contains("no PMU"), "{format}: {text}");
    }
}
