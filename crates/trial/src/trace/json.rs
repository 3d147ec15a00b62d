//! JSON lines: an object on each. Only what is asked for is kept; the rest is walked over.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::names::{TIMES, aliases};
use super::time::{self, Guess};
use super::{Fields, Record};

pub(super) const EXAMPLE: &str =
    r#"{"time":"2026-10-10T13:55:36Z","ip":"203.0.113.7","method":"GET","path":"/a"}"#;

/// Deepest object that is walked into. A log is not that deep; a stack is.
const DEPTH_MAX: usize = 16;
/// How much better the name of a time that is written as one is: more than there are names.
const NUMBERS: usize = 1_000;
/// From here on a double has no room for every whole number.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Reads such lines.
#[derive(Clone, Debug)]
pub(super) struct Json {
    /// Names as a tree; the first node is the object itself.
    nodes: Vec<Node>,
    /// By field, how good the name was that its value came from.
    ranks: Vec<usize>,
    text: String,
    /// Whether somebody said where the time is.
    is_named: bool,
}

/// What is under a name.
#[derive(Clone, Debug, Default)]
struct Node {
    children: Vec<(String, usize)>,
    /// Fields that have their value here, and how good the name is: 0 is best.
    fields: Vec<(Slot, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Time,
    Field(usize),
}

impl Json {
    pub(super) fn new(fields: &Fields, time_field: Option<&str>) -> Self {
        let is_named = time_field.is_some();
        let mut json =
            Self { nodes: vec![Node::default()], ranks: Vec::new(), text: String::new(), is_named };
        let times = time_field.map_or_else(
            || TIMES.iter().map(|name| (*name).to_owned()).collect(),
            |name| vec![name.to_owned()],
        );
        for (rank, name) in times.iter().enumerate() {
            json.add(name, Slot::Time, rank);
        }
        for (field, (name, _)) in fields.iter().enumerate() {
            for (rank, name) in aliases(name).iter().enumerate() {
                json.add(name, Slot::Field(field), rank);
            }
        }
        json
    }

    /// `a.b` is `b` in `a`, and also one name with a dot in it.
    fn add(&mut self, name: &str, slot: Slot, rank: usize) {
        let mut node = 0;
        for part in name.split('.').take(DEPTH_MAX) {
            node = self.child(node, part);
        }
        self.end(node, slot, rank);
        if name.contains('.') {
            let node = self.child(0, name);
            self.end(node, slot, rank);
        }
    }

    fn end(&mut self, node: usize, slot: Slot, rank: usize) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.fields.push((slot, rank));
        }
    }

    fn child(&mut self, node: usize, name: &str) -> usize {
        let known = |node: &Node| {
            node.children.iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, at)| *at)
        };
        if let Some(at) = self.nodes.get(node).and_then(known) {
            return at;
        }
        let at = self.nodes.len();
        self.nodes.push(Node::default());
        if let Some(node) = self.nodes.get_mut(node) {
            node.children.push((name.to_owned(), at));
        }
        at
    }

    /// Fills `record`, or says what was expected.
    pub(super) fn parse(
        &mut self,
        line: &str,
        fields: &Fields,
        record: &mut Record,
    ) -> Result<(), String> {
        let Self { nodes, ranks, text, is_named } = self;
        ranks.clear();
        ranks.resize(fields.len(), usize::MAX);
        record.begin(fields, 0);
        let mut kept = Kept {
            nodes,
            ranks,
            text,
            record,
            is_named: *is_named,
            time: None,
            bad_time: None,
            rounded: None,
        };
        let mut json = serde_json::Deserializer::from_str(line);
        if !line.starts_with('{') {
            return Err("expected an object in braces".to_owned());
        }
        let walked = Walk { kept: &mut kept, node: 0, depth: 0 }.deserialize(&mut json);
        walked.and_then(|()| json.end()).map_err(|why| format!("not JSON: {why}"))?;
        let Kept { time, bad_time, rounded, record, .. } = kept;
        if let Some(number) = rounded {
            return Err(format!("the number {number} has too many digits: expected it in quotes"));
        }
        match (time, bad_time) {
            (Some((_, at)), _) => {
                record.set_at_unix_ms(at);
                Ok(())
            }
            (None, Some(bad)) => Err(format!("`{bad}` is no time: expected {}", time::EXPECTED)),
            (None, None) => Err("there is no time in it".to_owned()),
        }
    }
}

struct Kept<'a> {
    nodes: &'a [Node],
    ranks: &'a mut [usize],
    text: &'a mut String,
    record: &'a mut Record,
    is_named: bool,
    /// How good its name is, and the time.
    time: Option<(usize, u64)>,
    bad_time: Option<String>,
    /// A value that is asked for and lost digits.
    rounded: Option<f64>,
}

impl Kept<'_> {
    fn keep(&mut self, node: usize, value: &str) {
        let Some(Node { fields, .. }) = self.nodes.get(node) else { return };
        for (slot, rank) in fields {
            match slot {
                Slot::Field(field) => {
                    let Some(best) = self.ranks.get_mut(*field) else { continue };
                    if rank < best && value != "-" && !value.is_empty() {
                        *best = *rank;
                        self.record.set(*field, value);
                    }
                }
                Slot::Time => {
                    if self.time.is_some_and(|(best, _)| best <= *rank) {
                        continue;
                    }
                    let (at, rank) = match self.is_named {
                        true => (time::parse(value), *rank),
                        // What is written as a time is one; a number may be anything.
                        false => match time::guess(value) {
                            Some(Guess::Text(at)) => (Some(at), *rank),
                            Some(Guess::Number(at)) => (Some(at), rank.saturating_add(NUMBERS)),
                            None => (None, *rank),
                        },
                    };
                    match at {
                        Some(_) if self.time.is_some_and(|(best, _)| best <= rank) => {}
                        Some(at) => self.time = Some((rank, at)),
                        None => self.bad_time = Some(value.chars().take(40).collect()),
                    }
                }
            }
        }
    }

    /// Whether a field, not only the time, has its value there.
    fn is_asked_for(&self, node: usize) -> bool {
        let fields = self.nodes.get(node).map(|node| node.fields.as_slice()).unwrap_or_default();
        fields.iter().any(|(slot, _)| *slot != Slot::Time)
    }

    fn keep_shown(&mut self, node: usize, value: impl fmt::Display) {
        use fmt::Write;
        let mut text = std::mem::take(self.text);
        text.clear();
        // Writing to a string does not fail.
        let _ = write!(text, "{value}");
        self.keep(node, &text);
        *self.text = text;
    }
}

/// Walks into a value that something is asked of.
struct Walk<'k, 'a> {
    kept: &'k mut Kept<'a>,
    node: usize,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.kept.keep(self.node, value);
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.kept.keep_shown(self.node, value);
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.kept.keep_shown(self.node, value);
        Ok(())
    }

    /// Whole numbers come here only if they are too large for 64 bits: many would become one.
    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        if value.abs() >= EXACT_MAX && self.kept.is_asked_for(self.node) {
            self.kept.rounded = Some(value);
        }
        self.kept.keep_shown(self.node, value);
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.kept.keep_shown(self.node, value);
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    /// Of several values the first counts: so are headers written.
    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        let Self { kept, node, depth } = self;
        if depth < DEPTH_MAX {
            let first = Walk { kept, node, depth: depth.saturating_add(1) };
            if all.next_element_seed(first)?.is_none() {
                return Ok(());
            }
        }
        while all.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { kept, node, depth } = self;
        while let Some(child) = map.next_key_seed(Child(kept.nodes.get(node)))? {
            match child.filter(|_| depth < DEPTH_MAX) {
                Some(node) => {
                    map.next_value_seed(Walk { kept, node, depth: depth.saturating_add(1) })?;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The node under a name, if anything is asked of it.
struct Child<'a>(Option<&'a Node>);

impl<'de> DeserializeSeed<'de> for Child<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<usize>, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Child<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<usize>, E> {
        let children = self.0.map(|node| node.children.as_slice()).unwrap_or_default();
        let found = children.iter().find(|(it, _)| it.eq_ignore_ascii_case(name));
        Ok(found.map(|(_, node)| *node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(names: &[&str], line: &str) -> Result<(u64, Vec<Option<String>>), String> {
        let mut fields = Fields::default();
        for name in names {
            fields.want(name);
        }
        let mut record = Record::default();
        Json::new(&fields, None).parse(line, &fields, &mut record)?;
        let values = (0..names.len()).map(|at| record.get(at).map(str::to_owned));
        Ok((record.at_unix_ms(), values.collect()))
    }

    fn some(values: &[&str]) -> Vec<Option<String>> {
        values.iter().map(|value| Some((*value).to_owned())).collect()
    }

    #[test]
    fn nested_names_dotted_names_and_headers_are_found() {
        let line = r#"{"x":[1,{"ip":"no"}],"ts":1709164800.25,"request":{"remote_ip":"::1",
            "uri":"/a","headers":{"X-Api-Key":["k1","k2"]}},
            "http.method":"GET","n":7,"t":{"u":true}}"#;
        let line = line.replace('\n', "");
        let names = ["ip", "path", "header.x-api-key", "method", "n", "t.u"];
        let (at, values) = read(&names, &line).unwrap();
        assert_eq!(at, 1_709_164_800_250);
        assert_eq!(values, some(&["::1", "/a", "k1", "GET", "7", "true"]));
    }

    #[test]
    fn the_field_s_own_name_is_the_best() {
        let line = concat!(
            r#"{"remote_addr":"b","ip":"a","client_ip":"c","#,
            r#""date":"2024-02-29","time":"1709164800"}"#
        );
        let (at, values) = read(&["ip", "user"], line).unwrap();
        assert_eq!((at, values), (1_709_164_800_000, vec![Some("a".to_owned()), None]));
    }

    #[test]
    fn a_duration_is_no_time() {
        let written = r#""timestamp":"2024-02-29T00:00:00Z""#;
        for line in [
            format!("{{{written},\"time\":0.012}}"),
            format!("{{\"time\":12,{written}}}"),
            format!("{{\"time\":\"12ms\",{written}}}"),
            // One and a half seconds in nanoseconds look like a time of 2017.
            format!("{{\"time\":1500000000,{written}}}"),
            "{\"time\":0.012,\"ts\":1709164800}".to_owned(),
        ] {
            assert_eq!(read(&[], &line).unwrap().0, 1_709_164_800_000, "{line}");
        }
        assert!(read(&[], "{\"time\":0.012}").unwrap_err().contains("`0.012` is no time"));
        let (fields, mut record) = (Fields::default(), Record::default());
        Json::new(&fields, Some("time")).parse("{\"time\":12}", &fields, &mut record).unwrap();
        assert_eq!(record.at_unix_ms(), 12_000, "who names it may mean it");
    }

    #[test]
    fn numbers_are_kept_with_all_their_digits_or_refused() {
        let line = |user: &str| format!("{{\"time\":1709164800,\"user\":{user},\"x\":1e300}}");
        for user in ["18446744073709551615", "-9223372036854775808", "1.5"] {
            assert_eq!(read(&["user"], &line(user)).unwrap().1, some(&[user]));
        }
        for user in ["12345678901234567890123", "-12345678901234567890123"] {
            let why = read(&["user"], &line(user)).unwrap_err();
            assert!(why.contains("in quotes"), "{why}");
            let quoted = read(&["user"], &line(&format!("\"{user}\""))).unwrap();
            assert_eq!(quoted.1, some(&[user]));
            read(&["ip"], &line(user)).unwrap();
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, expected) in [
            ("[1]", "braces"),
            ("{\"time\":1709164800", "not JSON"),
            ("{\"time\":1709164800} x", "not JSON"),
            ("{}", "no time"),
            ("{\"time\":\"noon\"}", "`noon` is no time"),
        ] {
            let why = read(&["ip"], line).unwrap_err();
            assert!(why.contains(expected), "{line}: {why}");
        }
    }
}
