//! A plan as a text for another program: `quietcore plan --as sh`, `--as ansible`.

mod ansible;
mod sh;

pub use ansible::{Fleet, ansible};
pub use sh::sh;

/// Breaks a text into lines of at most `width` characters where there is a space to break at.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_breaks_at_spaces_only() {
        assert_eq!(wrap("a bc  def g", 4), ["a bc", "def", "g"]);
        assert_eq!(wrap("longer than", 3), ["longer", "than"]);
        assert!(wrap(" \n", 9).is_empty());
    }
}
