//! The page of commands says what `--help` says: it is made from it, and compared in this test.
//!
//! `BLESS=1 cargo test -p quietcore-feed --test reference` writes it anew.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use clap::CommandFactory;
use quietcore_feed::commands::Cli;

#[test]
fn the_page_of_commands_is_what_help_says() {
    let mut page = String::from("# Commands of `quietcore feed`\n\nWhat `--help` says of each.\n");
    let mut root = Cli::command().term_width(96);
    root.build();
    for command in root.get_subcommands_mut().filter(|c| c.get_name() != "help") {
        let help = command.render_long_help();
        write!(page, "\n## quietcore feed {}\n\n```text\n{help}```\n", command.get_name()).unwrap();
    }
    let made = page.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/feed.md");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "docs/reference/feed.md is stale: BLESS=1 cargo test -p quietcore-feed --test reference"
    );
}
