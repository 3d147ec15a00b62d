//! The page of a trial: one HTML file that needs nothing beside it.
//!
//! Promises: the page asks no network for anything, and its own policy forbids it to; the answer,
//! the tables and the numbers are there without a script, which adds plots, sorting and a filter.
//! Refuses: to let a log speak. Identifiers and lines are text wherever they stand: markup is
//! constant ([`html`]), the data of the plots is escaped, and only scripts of this build run.
//! Fails: never. What is not among the findings is not on the page.

mod answer;
mod html;
mod limits;
mod plots;
mod suggested;
mod surroundings;
mod words;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

use crate::findings::Findings;
use html::Html;

/// The library that draws, as it was published.
const UPLOT: &str = include_str!("../assets/uplot.min.js");
/// Its look.
const UPLOT_STYLE: &str = include_str!("../assets/uplot.min.css");
/// Under which terms it is part of the page.
const UPLOT_LICENSE: &str = include_str!("../assets/uplot.license.txt");
/// What we do with it.
const SCRIPT: &str = include_str!("../assets/page.js");
/// Our own look.
const STYLE: &str = include_str!("../assets/page.css");

/// The whole page for what was found.
///
/// ```
/// let page = tidegate_trial::page(&tidegate_trial::Findings::default());
/// assert!(page.starts_with("<!DOCTYPE html>"));
/// assert!(!page.contains("src="));
/// ```
#[must_use]
pub fn page(findings: &Findings) -> String {
    let mut html = Html::default();
    head(&mut html, findings);
    html.raw("<body>\n<header>\n");
    answer::headline(&mut html, findings);
    html.raw("</header>\n<main>\n");
    answer::section(&mut html, findings);
    plots::section(&mut html, findings);
    limits::section(&mut html, findings);
    suggested::section(&mut html, findings);
    surroundings::section(&mut html, findings);
    html.raw("</main>\n");
    html.raw("<script type=\"application/json\" id=\"findings\">").script(&data(findings));
    html.raw("</script>\n<script>").script(UPLOT).raw("</script>\n<script>").script(SCRIPT);
    html.raw("</script>\n</body>\n</html>\n");
    html.into_string()
}

/// What stands before the body.
fn head(html: &mut Html, findings: &Findings) {
    html.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.raw("<meta http-equiv=\"Content-Security-Policy\"").attribute("content", policy());
    html.raw(">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
    // Or a browser would ask a server for one.
    html.raw("<link rel=\"icon\" href=\"data:,\">\n");
    html.element("title", format_args!("{} · tidegate simulate", answer::sentence(findings)));
    html.raw("<!-- The plots are drawn by uPlot, which is part of this page:\n");
    html.script(UPLOT_LICENSE).raw("\n-->\n<style>").script(UPLOT_STYLE);
    html.raw("</style>\n<style>").script(STYLE).raw("</style>\n</head>\n");
}

/// What the page may do: run our scripts, in our look. Nothing else, whatever a log made of it.
fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", BASE64.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; \
         style-src {} {}; script-src {} {}",
        hash(UPLOT_STYLE),
        hash(STYLE),
        hash(UPLOT),
        hash(SCRIPT)
    )
}

/// The findings as JSON that cannot end the element it stands in.
fn data(findings: &Findings) -> String {
    // Nothing in them cannot be written: no map, no number that JSON does not know.
    let json = serde_json::to_string(findings).unwrap_or_else(|_| "null".to_owned());
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_the_one_that_was_published() {
        // uPlot 1.6.32, `dist/uPlot.iife.min.js` and `dist/uPlot.min.css` of the npm package.
        let published = [
            (UPLOT, "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
            (UPLOT_STYLE, "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
        ];
        for (text, hash) in published {
            let digest = Sha256::digest(text);
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, hash);
        }
        assert!(UPLOT.contains("uPlot (v1.6.32)") && UPLOT_LICENSE.contains("MIT License"));
    }

    #[test]
    fn what_is_put_in_as_it_stands_cannot_end_its_element() {
        assert!(!UPLOT.contains("</script") && !SCRIPT.contains("</script"));
        assert!(!UPLOT_STYLE.contains("</style") && !STYLE.contains("</style"));
        assert!(!UPLOT_LICENSE.contains("--"));
    }

    #[test]
    fn our_script_makes_no_markup() {
        for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!SCRIPT.contains(way), "{way}");
        }
    }
}
