//! Characters that nobody sees: written out wherever a text of others is shown.
//!
//! A log, a policy and a server's answer may hold anything. Promises: what a terminal would obey,
//! what is invisible, and what turns the direction of a line is shown by its number. Terminal and
//! page have one list.

use std::fmt;

/// A text of others, with everything written out that would not be seen.
///
/// ```
/// assert_eq!(tidegate_trial::visible("a\u{1b}[2J\u{200b}b").to_string(), "a\\u{1b}[2J\\u{200b}b");
/// ```
#[must_use]
pub const fn visible(text: &str) -> Visible<'_> {
    Visible(text)
}

/// What [`visible`] shows.
#[derive(Clone, Copy, Debug)]
pub struct Visible<'a>(&'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        self.0.chars().try_for_each(|char| match hides(char) {
            true => write!(f, "{}", char.escape_unicode()),
            false => f.write_char(char),
        })
    }
}

/// Whether a character is not seen, is obeyed, or turns the direction of what stands around it.
pub(crate) fn hides(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_not_seen_stays_unseen() {
        let hidden = "\u{0}\u{7f}\u{9b}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2069}\u{e0041}";
        for char in hidden.chars() {
            let text = format!("a{char}b");
            assert_eq!(visible(&text).to_string(), format!("a\\u{{{:x}}}b", u32::from(char)));
        }
        let seen = "é ÿ 漢 ع 🙂 \\ \"";
        assert_eq!(visible(seen).to_string(), seen);
    }
}
