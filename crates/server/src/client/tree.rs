//! Any JSON as lines: keys and values side by side, in the order in which they came.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use super::words::visible;

/// How far each level is moved to the right.
const INDENT: usize = 2;

/// A value. Objects keep their order, because whoever wrote them chose it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tree {
    Word(String),
    List(Vec<Tree>),
    Section(Vec<(String, Tree)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Word(if value { "yes" } else { "no" }.to_owned()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Word(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Word(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Word(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Word(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Word("-".to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Tree, A::Error> {
        let mut section = Vec::new();
        while let Some(field) = fields.next_entry()? {
            section.push(field);
        }
        Ok(Tree::Section(section))
    }
}

impl Tree {
    /// The value on the line of its key, if it has room there.
    fn inline(&self) -> Option<String> {
        match self {
            Self::Word(word) => Some(visible(word).to_string()),
            Self::List(items) if items.is_empty() => Some("none".to_owned()),
            Self::List(items) => {
                let words = items.iter().map(|item| match item {
                    Self::Word(word) => Some(visible(word).to_string()),
                    _ => None,
                });
                Some(words.collect::<Option<Vec<_>>>()?.join(", "))
            }
            Self::Section(fields) => fields.is_empty().then(|| "none".to_owned()),
        }
    }

    fn lines(&self, depth: usize, lines: &mut Vec<String>) {
        let start = " ".repeat(depth.saturating_mul(INDENT));
        match self {
            Self::Section(fields) if !fields.is_empty() => section(fields, depth, lines),
            Self::List(items) if self.inline().is_none() => {
                for (number, item) in (1..).zip(items) {
                    lines.push(format!("{start}{number}:"));
                    item.lines(depth.saturating_add(1), lines);
                }
            }
            _ => lines.push(format!("{start}{}", self.inline().unwrap_or_default())),
        }
    }
}

/// Keys and values side by side; what does not fit beside its key stands below it.
fn section(fields: &[(String, Tree)], depth: usize, lines: &mut Vec<String>) {
    let start = " ".repeat(depth.saturating_mul(INDENT));
    let inline = fields.iter().filter(|(_, value)| value.inline().is_some());
    let width = inline.map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    for (key, value) in fields {
        let key = visible(key).to_string();
        match value.inline() {
            Some(value) => lines.push(format!("{start}{key:width$}  {value}")),
            None => {
                lines.push(format!("{start}{key}:"));
                value.lines(depth.saturating_add(1), lines);
            }
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        self.lines(0, &mut lines);
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> String {
        serde_json::from_str::<Tree>(json).unwrap().to_string()
    }

    #[test]
    fn keys_and_values_stand_side_by_side_in_their_order() {
        let json = r#"{"verdict":"denied","effective":12,"strict":true,"until":null,
            "cells":{"current":{"mine":7,"peers":5},"previous":{}},
            "regions":[{"name":"eu","count":7},{"name":"us","count":5}],
            "reasons":["cold","stale"],"none":[]}"#;
        let expected = "\
verdict    denied
effective  12
strict     yes
until      -
cells:
  current:
    mine   7
    peers  5
  previous  none
regions:
  1:
    name   eu
    count  7
  2:
    name   us
    count  5
reasons    cold, stale
none       none";
        assert_eq!(shown(json), expected);
    }

    #[test]
    fn what_is_no_object_is_shown_too() {
        for (json, expected) in
            [("7", "7"), ("-1.5", "-1.5"), ("[]", "none"), ("{}", "none"), ("[1,2]", "1, 2")]
        {
            assert_eq!(shown(json), expected);
        }
        assert_eq!(shown(r#"{"a\u001b":"b\n"}"#), "a\\u{1b}  b\\u{a}");
    }
}
