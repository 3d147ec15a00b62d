//! Bars beside each other, for what has no order that a line could follow: as SVG that can be read
//! on light and on dark pages.

use std::fmt::Write as _;

use super::plot::{WIDTH, as_float, escape, number, round_above, style};

/// Where bars begin, behind their names, and how far the longest may reach, before its number.
const LEFT: f64 = 160.0;
const LONGEST: f64 = 480.0;
/// Where the first one is, how far each is from the next, and how thick it is.
const TOP: f64 = 62.0;
const STEP: f64 = 28.0;
const THICK: f64 = 18.0;

/// A picture of bars.
#[derive(Clone, Debug)]
pub(super) struct Bars {
    pub(super) title: &'static str,
    /// What a bar is as long as.
    pub(super) along: &'static str,
    pub(super) bars: Vec<(String, f64)>,
}

impl Bars {
    pub(super) fn svg(&self) -> String {
        let height = TOP + STEP * as_float(self.bars.len()) + 12.0;
        let (title, along) = (escape(self.title), escape(self.along));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             role=\"img\" aria-label=\"{title}\">\n<style>\n{}</style>\n\
             <text class=\"title\" x=\"8\" y=\"22\">{title}</text>\n\
             <text class=\"axis\" x=\"8\" y=\"44\">{along}</text>\n",
            style()
        );
        let most = round_above(self.bars.iter().map(|(_, value)| *value));
        for (at, (name, value)) in self.bars.iter().enumerate() {
            let y = TOP + STEP * as_float(at);
            let (length, base) = (LONGEST * value / most, y + THICK - 4.0);
            let _ = writeln!(
                svg,
                "<text class=\"name\" text-anchor=\"end\" x=\"{:.1}\" y=\"{base:.1}\">{}</text>\
                 <rect class=\"dot c0\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{length:.1}\" \
                 height=\"{THICK}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{base:.1}\">{}</text>",
                LEFT - 8.0,
                escape(name),
                LEFT + length + 8.0,
                number(*value)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_what_it_stands_for() {
        let bars = vec![("a < b".to_owned(), 5.0), ("two".to_owned(), 10.0)];
        let svg = Bars { title: "both", along: "of something", bars }.svg();
        assert!(svg.contains(">a &lt; b</text>") && svg.contains("prefers-color-scheme:dark"));
        let half = format!("width=\"{:.1}\"", LONGEST / 2.0);
        let whole = format!("width=\"{LONGEST:.1}\"");
        assert!(svg.contains(&half) && svg.contains(&whole), "{svg}");
    }
}
