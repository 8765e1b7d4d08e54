//! The `quietcore-feed-bench` command: the market-data engine beside the libraries that one would
//! build it from, stage by stage. A program of its own, so that the engine links none of them.
#![forbid(unsafe_code)]

mod book;
mod command;
mod end_to_end;
mod market;
mod messages;
mod pipe;
mod scan;
mod stamps;
mod tls;
mod trees;
mod turns;
mod websocket;
mod whole;

use clap::Parser;
use quietcore_console::{Exit, run};

fn main() -> Exit {
    let command = command::Bench::parse();
    run(|| command.run())
}
