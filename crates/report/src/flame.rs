//! A flame graph for other programs: folded lines and an interactive picture.

use std::fmt::Write;

use inferno::flamegraph::{self, Options};
use quietcore_measure::Flame;

/// One line per stack, `outermost;…;innermost weight`: what flamegraph.pl, inferno, speedscope and
/// others read.
pub fn folded(flame: &Flame) -> String {
    let mut text = String::new();
    for (stack, weight) in &flame.stacks {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{stack} {weight}");
    }
    text
}

/// A picture for a browser, which can be clicked into and searched.
///
/// # Errors
/// Where there is no stack to draw.
pub fn svg(flame: &Flame) -> Result<Vec<u8>, String> {
    let text = folded(flame);
    let mut options = Options::default();
    options.title = flame.title.clone();
    options.count_name = flame.unit.clone();
    let mut picture = Vec::new();
    flamegraph::from_lines(&mut options, text.lines(), &mut picture)
        .map_err(|error| format!("no flame graph could be drawn: {error}"))?;
    Ok(picture)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flame(stacks: &[(&str, u64)]) -> Flame {
        let stacks = stacks.iter().map(|&(stack, n)| (stack.to_owned(), n)).collect();
        Flame { title: "Waits".into(), unit: "ns".into(), stacks, ..Flame::default() }
    }

    #[test]
    fn every_stack_is_a_line_with_its_weight() {
        let flame = flame(&[("a;b c", 7), ("a", 1)]);
        assert_eq!(folded(&flame), "a 1\na;b c 7\n");
    }

    #[test]
    fn the_picture_names_every_frame() {
        let picture = svg(&flame(&[("main;read", 900), ("main;write", 100)])).unwrap();
        let picture = String::from_utf8(picture).unwrap();
        for part in ["<svg", "Waits", "main (1,000 ns, 100.00%)", "read (900 ns, 90.00%)"] {
            assert!(picture.contains(part), "{part}");
        }
    }

    #[test]
    fn nothing_cannot_be_drawn() {
        assert!(svg(&flame(&[])).is_err());
    }
}
