//! The sheet of text that sections write on: width, indentation, colour.

use crate::{Options, words};

/// How a piece of text stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
    Alarm,
    Bad,
    Caution,
    Good,
    Info,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Alarm => "1;7;31",
            Self::Bad => "31",
            Self::Caution => "33",
            Self::Good => "32",
            Self::Info => "36",
        }
    }
}

#[derive(Debug)]
pub(super) struct Page {
    pub(super) options: Options,
    text: String,
}

impl Page {
    pub(super) fn new(options: Options) -> Self {
        Self { options, text: String::new() }
    }

    /// Columns to fill; something readable even if a terminal claims to have none.
    pub(super) fn width(&self) -> usize {
        usize::from(self.options.width).max(40)
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// A heading with a rule to the right edge.
    pub(super) fn heading(&mut self, title: &str) {
        self.blank();
        let title = words::tame(title);
        let rule = self.width().saturating_sub(title.chars().count() + 1);
        let heading = self.painted(&title, Style::Bold);
        let rule = self.painted(&"─".repeat(rule), Style::Dim);
        self.text.push_str(&format!("{heading} {rule}\n"));
    }

    /// A line as it is; it must not hold text from outside that was not tamed.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Text from outside, tamed, in one style; continued under itself, past the `prefix`.
    pub(super) fn wrapped(&mut self, prefix: &str, text: &str, style: Style) {
        self.entry((prefix, Style::Plain), text, style, "");
    }

    /// As [`wrapped`](Self::wrapped), with a styled prefix and something at the right edge of the
    /// first line.
    pub(super) fn entry(&mut self, lead: (&str, Style), text: &str, style: Style, right: &str) {
        let indent = lead.0.chars().count();
        let margin = if right.is_empty() { 0 } else { right.chars().count() + 2 };
        let width = self.width().saturating_sub(indent + margin).max(20);
        for (index, line) in wrap(&words::tame(text), width).into_iter().enumerate() {
            let painted = self.painted(&line, style);
            if index > 0 {
                self.line(&format!("{}{painted}", " ".repeat(indent)));
                continue;
            }
            let prefix = self.painted(lead.0, lead.1);
            let gap = width.saturating_sub(line.chars().count()) + 2;
            let right = self.painted(right, Style::Bold);
            self.line(&format!("{prefix}{painted}{}{right}", " ".repeat(gap)));
        }
    }

    /// The text in a style, or as it is where colour is not wanted.
    pub(super) fn painted(&self, text: &str, style: Style) -> String {
        if self.options.colour && style != Style::Plain && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", style.code())
        } else {
            text.to_owned()
        }
    }
}

/// Breaks at spaces; a word longer than a line is left whole, so that a path or a command can
/// still be copied.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let long = word.chars().count();
        if used > 0 && used + 1 + long > width {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += long;
        }
    }
    lines
}

/// The range of bar heights. Heights follow the logarithm, so that a single outlier stays visible
/// beside a million of its peers; rows that are to be compared share a scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bars {
    low: f64,
    high: f64,
}

impl Bars {
    const SIGNS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

    /// The scale on which the smallest of these heights above 0 is lowest and the largest full.
    pub(super) fn of<'a>(heights: impl IntoIterator<Item = &'a f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for &height in heights.into_iter().filter(|&&height| height > 0.0) {
            (low, high) = (low.min(height), high.max(height));
        }
        Self { low: low.ln(), high: high.ln() }
    }

    /// A row of bars, one character each; 0 is empty.
    pub(super) fn row(self, heights: &[f64]) -> String {
        let bar = |&height: &f64| {
            if height <= 0.0 {
                return ' ';
            }
            let span = self.high - self.low;
            let share = if span > 0.0 { (height.ln() - self.low) / span } else { 1.0 };
            Self::SIGNS[((share * 7.0).round() as usize).min(7)]
        };
        heights.iter().map(bar).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_leave_long_words_whole() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a /very/long/path b", 6), ["a", "/very/long/path", "b"]);
        assert_eq!(wrap("", 10), [""]);
    }

    #[test]
    fn bars_show_the_rare_beside_the_common() {
        let bars = |heights: &[f64]| Bars::of(heights).row(heights);
        assert_eq!(bars(&[1.0, 0.0, 1e6]), "▁ █");
        assert_eq!(bars(&[5.0, 5.0]), "██");
        assert_eq!(bars(&[]), "");
        assert_eq!(Bars::of(&[1.0, 100.0]).row(&[1.0]), "▁");
    }

    #[test]
    fn colour_is_used_only_where_wanted() {
        let plain = Page::new(Options::default());
        assert_eq!(plain.painted("x", Style::Bad), "x");
        let coloured = Page::new(Options { colour: true, ..Options::default() });
        assert_eq!(coloured.painted("x", Style::Bad), "\x1b[31mx\x1b[0m");
        assert_eq!(coloured.painted("x", Style::Plain), "x");
    }
}
