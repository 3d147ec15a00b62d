//! A plot: lines over a few places, as SVG that can be read on light and on dark pages.

use std::fmt::Write as _;

/// The picture, and the part of it that lines are drawn in.
pub(super) const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 52.0;
/// Lines across.
const TICKS: u32 = 5;

/// Colours that differ in lightness too, for those who do not tell hues apart: on light pages, and
/// on dark ones.
const LIGHT: [&str; 5] = ["#0b5fa5", "#c04a00", "#3a7d34", "#7a3e9d", "#6e6a00"];
const DARK: [&str; 5] = ["#6cb8ff", "#ffa35c", "#86d67d", "#cf9bf2", "#e0d85a"];

/// One line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// One value for each place.
    pub(super) values: Vec<f64>,
}

/// A picture of lines through points: how far across each lies, and how high.
#[derive(Clone, Debug)]
pub(super) struct Cloud {
    pub(super) title: &'static str,
    pub(super) across: &'static str,
    pub(super) up: &'static str,
    /// Points, and the name of their line. A line of one point is drawn larger.
    pub(super) lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl Cloud {
    /// The frame is that of a plot with round numbers across.
    pub(super) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let widest = round_above(points().map(|(across, _)| *across));
        let ticks = (0..=TICKS).map(|tick| number(widest * f64::from(tick) / f64::from(TICKS)));
        let line = |(name, points): &(String, Vec<(f64, f64)>)| Line {
            name: name.clone(),
            values: points.iter().map(|(_, up)| *up).collect(),
        };
        let frame = Plot {
            title: self.title,
            across: self.across,
            up: self.up,
            places: ticks.collect(),
            lines: self.lines.iter().map(line).collect(),
        };
        let (mut svg, top) = (frame.head(), frame.top());
        frame.frame(&mut svg, top);
        for (at, (name, points)) in self.lines.iter().enumerate() {
            let x = |across: f64| LEFT + (WIDTH - LEFT - RIGHT) * across / widest;
            let points = points.iter().map(|(across, up)| (x(*across), y(*up, top))).collect();
            draw(&mut svg, (at, name), &points);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// A picture of lines.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub(super) title: &'static str,
    pub(super) across: &'static str,
    pub(super) up: &'static str,
    /// The places, which are as far from each other as they are many.
    pub(super) places: Vec<String>,
    pub(super) lines: Vec<Line>,
}

impl Plot {
    pub(super) fn svg(&self) -> String {
        let (mut svg, top) = (self.head(), self.top());
        self.frame(&mut svg, top);
        for (at, line) in self.lines.iter().enumerate() {
            let points = line.values.iter().enumerate();
            let points = points.map(|(n, value)| (self.x(n), y(*value, top))).collect();
            draw(&mut svg, (at, &line.name), &points);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// The beginning, with the title.
    fn head(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             role=\"img\" aria-label=\"{}\">\n<style>\n{}</style>\n",
            escape(self.title),
            style()
        );
        let _ = writeln!(
            svg,
            "<text class=\"title\" x=\"{LEFT}\" y=\"22\">{}</text>",
            escape(self.title)
        );
        svg
    }

    /// The upper end of the scale: a round number above everything.
    fn top(&self) -> f64 {
        let all = self.lines.iter().flat_map(|line| line.values.iter().copied());
        round_above(all)
    }

    fn x(&self, place: usize) -> f64 {
        let last = self.places.len().saturating_sub(1).max(1);
        LEFT + (WIDTH - LEFT - RIGHT) * as_float(place) / as_float(last)
    }

    fn frame(&self, svg: &mut String, top: f64) {
        let right = WIDTH - RIGHT;
        for tick in 0..=TICKS {
            let value = top * f64::from(tick) / f64::from(TICKS);
            let y = y(value, top);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>\
                 <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                number(value)
            );
        }
        for (place, name) in self.places.iter().enumerate() {
            let (x, y) = (self.x(place), HEIGHT - BOTTOM + 18.0);
            let name = escape(name);
            let _ = writeln!(
                svg,
                "<text class=\"tick\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{y:.1}\">\
                 {name}</text>"
            );
        }
        let (middle, below) = (f64::midpoint(LEFT, right), HEIGHT - 12.0);
        let _ = writeln!(
            svg,
            "<text class=\"axis\" text-anchor=\"middle\" x=\"{middle:.1}\" y=\"{below:.1}\">\
             {}</text>\
             <text class=\"axis\" x=\"8\" y=\"44\">{}</text>",
            escape(self.across),
            escape(self.up)
        );
    }
}

/// A line with its dots, and its name beside it.
fn draw(svg: &mut String, (at, name): (usize, &str), points: &Vec<(f64, f64)>) {
    let class = format!("c{}", at % LIGHT.len());
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let _ = writeln!(svg, "<path class=\"line {class}\" d=\"M{}\"/>", path.join("L"));
    let radius = if points.len() == 1 { 6 } else { 3 };
    for (x, y) in points {
        let _ = writeln!(
            svg,
            "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>"
        );
    }
    // Names stand beside the end of their line, one below the other.
    let (x, y) = (WIDTH - RIGHT + 16.0, TOP + 8.0 + 20.0 * as_float(at));
    let _ = writeln!(
        svg,
        "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"5\"/>\
         <text class=\"name\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
        y - 4.0,
        x + 12.0,
        escape(name)
    );
}

/// A round number above everything.
pub(super) fn round_above(all: impl Iterator<Item = f64>) -> f64 {
    let most = all.fold(0.0_f64, f64::max).max(1.0);
    let step = 10_f64.powf(most.log10().floor()) / 2.0;
    (most / step).ceil() * step
}

fn y(value: f64, top: f64) -> f64 {
    HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top
}

pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[expect(clippy::cast_precision_loss, reason = "there are few places and lines")]
pub(super) const fn as_float(number: usize) -> f64 {
    number as f64
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Nothing is drawn behind the lines: the page shows through, light or dark.
pub(super) fn style() -> String {
    let mut css = String::from(
        "text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:15px}\n\
         .tick,.axis{font-size:12px;fill:#57606a}.grid{stroke:#d0d7de;fill:none}\n\
         .line{fill:none;stroke-width:2}\n",
    );
    let colours = |css: &mut String, colours: [&str; 5]| {
        for (at, colour) in colours.iter().enumerate() {
            let _ = writeln!(css, ".line.c{at}{{stroke:{colour}}}.dot.c{at}{{fill:{colour}}}");
        }
    };
    colours(&mut css, LIGHT);
    css.push_str("@media(prefers-color-scheme:dark){text{fill:#e6edf3}\n.tick,.axis{fill:#9da7b3}");
    css.push_str(".grid{stroke:#3d444d}\n");
    colours(&mut css, DARK);
    css.push_str("}\n");
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_shows_every_line_and_escapes_its_names() {
        let line = |name: &str| Line { name: name.to_owned(), values: vec![1.0, 2.5] };
        let plot = Plot {
            title: "a < b",
            across: "nodes",
            up: "limits",
            places: vec!["1".to_owned(), "9".to_owned()],
            lines: vec![line("one & two"), line("three")],
        };
        let svg = plot.svg();
        assert!(svg.contains("a &lt; b") && svg.contains("one &amp; two"), "{svg}");
        assert_eq!(svg.matches("class=\"line").count(), 2);
        assert!(svg.contains("prefers-color-scheme:dark"), "{svg}");
        let lines = vec![
            ("floor".to_owned(), vec![(10.0, 1.0), (40.0, 2.0)]),
            ("ours".to_owned(), vec![(20.0, 1.5)]),
        ];
        let cloud = Cloud { title: "a < b", across: "rows", up: "limits", lines };
        let svg = cloud.svg();
        // A fourth of the way across and half of it up, in a picture that ends at 40 and at 2.
        let (x, y) = (LEFT + (WIDTH - LEFT - RIGHT) / 4.0, HEIGHT - BOTTOM);
        let y = y - (HEIGHT - TOP - BOTTOM) / 2.0;
        assert!(svg.contains(&format!("d=\"M{x:.1} {y:.1}L")), "{svg}");
        assert_eq!(svg.matches("r=\"6\"").count(), 1, "ours is one point: {svg}");
        // Straight up from the lower to the upper end, whatever the largest value is.
        assert!((plot.top() - 2.5).abs() < 1e-9, "{}", plot.top());
    }
}
