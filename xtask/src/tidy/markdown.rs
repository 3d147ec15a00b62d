//! Markdown: one title, and links that lead somewhere.

use super::{Finding, Tree};

/// Every document has exactly one title.
pub(super) fn one_title(path: &str, text: &str) -> Vec<Finding> {
    if !path.ends_with(".md") {
        return Vec::new();
    }
    let titles: Vec<usize> = prose(text)
        .into_iter()
        .filter(|(_, line)| line.starts_with("# "))
        .map(|(index, _)| index)
        .collect();
    match titles.as_slice() {
        [_] => Vec::new(),
        [] => vec![Finding::at(path, 0, "no title: a document begins with `# `")],
        [_, second, ..] => vec![Finding::at(path, *second, "a second title")],
    }
}

/// Every relative link points to a file or directory of the repository.
pub(super) fn links(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (index, line) in prose(text) {
            for target in targets(&line) {
                let resolved = resolve(path, &target);
                if !resolved.is_some_and(|resolved| tree.exists(&resolved)) {
                    let message = format!("the link `{target}` leads nowhere");
                    found.push(Finding::at(path, index, message));
                }
            }
        }
    }
    found
}

/// The lines outside code fences, with their index and without code spans.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((index, line.split('`').step_by(2).collect()));
        }
    }
    lines
}

/// The relative links of a line: `[text](target)` and `[name]: target`.
fn targets(line: &str) -> Vec<String> {
    let mut raw: Vec<&str> =
        line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    if line.starts_with('[') {
        raw.extend(line.split_once("]: ").map(|(_, target)| target));
    }
    raw.into_iter()
        .filter_map(|target| target.split_whitespace().next())
        .filter_map(|target| target.trim_matches(['<', '>']).split('#').next())
        .filter(|target| !target.is_empty() && !target.contains(':'))
        .map(str::to_owned)
        .collect()
}

/// A link relative to the file that holds it, as a path of the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    if !target.starts_with('/') {
        parts.extend(from.split('/'));
        parts.pop();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_exactly_one_title() {
        assert!(one_title("a.md", "# One\n\n## Two\n```\n# not a title\n```\n").is_empty());
        assert_eq!(one_title("a.md", "# One\n# Two\n"), [Finding::at("a.md", 1, "a second title")]);
        assert_eq!(one_title("a.md", "## Two\n").len(), 1);
        assert!(one_title("a.txt", "").is_empty());
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "\
See [there](../README.md#top), [here](guide), [web](https://example.com/a), [top](#one).
```
[not](a-link.md)
```
Neither is `[this](one.md)`.
[gone](missing.md) and [out](../../outside.md)
[name]: missing-too.md
";
        let tree = Tree::of(&[("docs/a.md", text), ("README.md", ""), ("docs/guide/b.md", "")]);
        let lines: Vec<usize> = links(&tree).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [6, 6, 7]);
    }
}
