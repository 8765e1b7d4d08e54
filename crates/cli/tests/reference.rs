//! The reference pages say what the code says: they are made from it, and compared in this test.
//!
//! `BLESS=1 cargo test -p quietcore-cli --test reference` writes them anew.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use clap::CommandFactory;
use quietcore_cli::Cli;
use quietcore_host::profile::{Profile, SHIPPED};
use quietcore_host::{Kind, checks, knobs};

fn compare(name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "docs/reference/{name} is stale: BLESS=1 cargo test -p quietcore-cli --test reference"
    );
}

#[test]
fn the_page_of_checks_is_what_the_checks_say() {
    let mut page = format!(
        "# Checks\n\n{} checks; made from the code. The expected cost ranks findings; its origin \
         says how far to trust it.\n",
        checks::ALL.len()
    );
    let mut group = "";
    for check in checks::ALL {
        let own = check.id.split('.').next().unwrap_or_default();
        if own != group {
            group = own;
            write!(page, "\n## {group}\n").unwrap();
        }
        let kind = match check.kind {
            Kind::Host => "",
            Kind::Probe => ", needs `--probe`",
            Kind::Process => ", with `--pid`",
        };
        let (us, text, origin) = (check.cost.us, check.cost.text, check.cost.origin);
        write!(
            page,
            "\n### {}\n{} ({}{kind})\n\n{}\n\nExpected cost: {us} µs. {text} ({origin})\n",
            check.id, check.about, check.cause, check.why
        )
        .unwrap();
    }
    compare("checks.md", &page);
}

#[test]
fn the_page_of_knobs_is_what_the_knobs_say() {
    let profiles = SHIPPED.map(|(name, _)| (name, Profile::load(name).unwrap()));
    let mut page = format!(
        "# Knobs\n\n{} knobs, in the order in which they are applied; made from the code. Each is \
         named so in a profile and after `--set`; `untouched` leaves it alone.\n",
        knobs::ALL.len()
    );
    for knob in knobs::ALL {
        write!(page, "\n## {}\n{}\n\n{}\n\n", knob.id, knob.about, knob.why).unwrap();
        writeln!(page, "- takes: {}", knob.takes.expects()).unwrap();
        for (name, profile) in &profiles {
            if let Some(value) = profile.knobs.get(knob.id) {
                writeln!(page, "- {name}: {value}").unwrap();
            }
        }
        for (label, text) in [("price", knob.price), ("risk", knob.risk)] {
            if !text.is_empty() {
                writeln!(page, "- {label}: {text}").unwrap();
            }
        }
        writeln!(page, "- proven by: {}", knob.checks.join(", ")).unwrap();
    }
    compare("knobs.md", &page);
}

#[test]
fn the_page_of_commands_is_what_help_says() {
    let mut page = String::from("# Commands\n\nWhat `--help` says of each.\n");
    let mut root = Cli::command().term_width(96);
    root.build();
    for command in root.get_subcommands_mut().filter(|c| c.get_name() != "help") {
        let help = command.render_long_help();
        write!(page, "\n## quietcore {}\n\n```text\n{help}```\n", command.get_name()).unwrap();
    }
    let trimmed: Vec<&str> = page.lines().map(str::trim_end).collect();
    compare("commands.md", &(trimmed.join("\n") + "\n"));
}

#[test]
fn the_schema_is_what_the_command_prints() {
    compare("run.schema.json", &quietcore_report::schema());
}
