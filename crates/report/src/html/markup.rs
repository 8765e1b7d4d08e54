//! The only way text from outside gets into the page.

use std::fmt;

/// Shows text so that it is inert between tags and inside a quoted attribute.
///
/// Control characters, which HTML forbids, become U+FFFD; so do the bidirectional overrides that
/// make a command look like another one.
pub(super) struct Esc<'a>(pub(super) &'a str);

impl fmt::Display for Esc<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => fmt::Write::write_char(f, c)?,
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => f.write_str("\u{fffd}")?,
                c if c.is_control() => f.write_str("\u{fffd}")?,
                c => fmt::Write::write_char(f, c)?,
            }
        }
        Ok(())
    }
}

/// Appends formatted text to a `String`, which cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {
        $out.push_str(&format!($($arg)*))
    };
}
pub(super) use put;

/// A coordinate or a percentage with at most one digit after the point.
pub(super) fn co(v: f64) -> String {
    let text = format!("{v:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_attributes_are_inert() {
        let text = Esc("<script>alert('x')</script>\" onload=\"&\u{0}\u{202e}").to_string();
        assert_eq!(
            text,
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot; onload=&quot;&amp;\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!([0.0, -0.01, 12.34, 1000.0].map(co), ["0", "0", "12.3", "1000"]);
    }
}
