//! Every target for a moment; longer with `QUIETCORE_FUZZ_SECONDS=60 cargo test -p quietcore-fuzz`.
#![forbid(unsafe_code)]

use quietcore_fuzz::{TARGETS, fuzz, time};

#[test]
fn no_mutilated_input_breaks_a_parser() {
    for target in TARGETS {
        let rounds = match target.name {
            "snapshot" | "run" | "histogram" | "histogram_log" => 400,
            // A book takes a while to make.
            "feed_market" => 4_000,
            _ => 20_000,
        };
        let rounds = fuzz(target, rounds, time());
        println!("{}: {rounds} inputs", target.name);
    }
}

#[test]
fn targets_have_names_of_their_own_and_seeds() {
    for (index, target) in TARGETS.iter().enumerate() {
        assert!(TARGETS[..index].iter().all(|other| other.name != target.name), "{}", target.name);
        assert!(!(target.seeds)().is_empty(), "{} has no seeds", target.name);
    }
}
