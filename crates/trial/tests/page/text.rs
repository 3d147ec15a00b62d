//! The page, read as text.

use tidegate_trial::{Findings, page};

use crate::made;

/// The JSON in the page.
fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"findings\">").unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(json).unwrap()
}

/// What is shown, without the data and the scripts.
fn body(page: &str) -> &str {
    let (_, body) = page.split_once("<body>").unwrap();
    body.split_once("<script").unwrap().0
}

#[test]
fn a_log_cannot_write_markup() {
    let page = page(&made::findings());
    let body = body(&page);
    for way in ["<script>alert", "<img", "<!--", "\u{202e}", "\u{2028}", "\u{0}"] {
        assert!(!body.contains(way), "{way:?}");
    }
    assert!(body.contains("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(body.contains("\\u{202e}gnp.elgoog\\u{2066}"));
    // Data, our library and our script: nobody added a fourth.
    assert_eq!(page.matches("<script").count(), 3);
    assert_eq!(page.matches("</script").count(), 3);
}

#[test]
fn the_data_of_the_plots_is_the_findings() {
    let findings = made::findings();
    assert_eq!(data(&page(&findings)), serde_json::to_value(&findings).unwrap());
}

#[test]
fn the_page_asks_for_nothing() {
    // A log may say such a word; this one is empty.
    let page = page(&Findings::default());
    for way in ["src=", "url(", "@import", "fetch(", "XMLHttpRequest", "http-equiv=\"refresh"] {
        assert!(!page.contains(way), "{way}");
    }
    assert!(page.contains("default-src &#39;none&#39;"));
    assert!(page.contains("The MIT License (MIT)"));
    assert!(!page.contains("unsafe-inline"));
}

#[test]
fn the_answer_is_there_without_a_script() {
    let two = page(&made::findings()).replace('\u{a0}', " ");
    assert!(two.contains(
        "<h1>candidate against current: 312 identifiers newly limited, 2 no longer</h1>"
    ));
    assert!(two.contains("A limit of 3,010 would have limited"), "the suggestions");
    let one = page(&made::alone()).replace('\u{a0}', " ");
    let answer = "candidate would have denied 3.6 % of calls and touched 312 of 52,811 identifiers";
    assert!(one.contains(&format!("<h1>{answer}</h1>")));
    assert!(one.contains(
        "from <time>2026-11-15 00:00:00 UTC</time> to <time>2026-11-15 23:59:59 UTC</time> \
         (23 h 59 min)"
    ));
}

#[test]
fn every_element_that_is_opened_is_closed() {
    let pages = [made::findings(), made::alone()].into_iter();
    for findings in pages.chain(made::sparse().into_iter().map(|(_, findings)| findings)) {
        let page = page(&findings);
        let body = body(&page);
        for name in ["section", "div", "table", "tr", "figure", "details", "article", "dl", "p"] {
            let opened = body.matches(&format!("<{name}>")).count()
                + body.matches(&format!("<{name} ")).count();
            assert_eq!(opened, body.matches(&format!("</{name}>")).count(), "{name}");
        }
    }
}

#[test]
fn a_trial_without_anything_is_a_page_too() {
    let mut findings = Findings::default();
    assert!(page(&findings).contains("<h1>No policy was tried</h1>"));
    findings.policies.push(Default::default());
    let page = page(&findings).replace('\u{a0}', " ");
    assert!(page.contains("<h1>This policy would have denied none of 0 calls</h1>"));
    assert!(page.contains("No call came."));
}
