//! The two answers that are given all the time, written piece by piece: no name of a field is
//! looked through for what would have to be escaped.
//!
//! Promises: the bytes that serde would write; a test compares them.

use bytes::Bytes;

use super::{Decided, Known, More};
use crate::decode::Item;

/// Room for what an answer has beside the names that a caller chose; more is made if it is needed.
const ANSWER_BYTES: usize = 256;

/// The answer to one request.
pub(crate) fn limit(request_id: &str, decided: &Decided) -> Bytes {
    let mut out = Text::begin(request_id, ANSWER_BYTES);
    out.piece("{");
    out.numbers(decided);
    out.piece(",\"success\":");
    out.truth(decided.admitted);
    out.more(&decided.more);
    out.end("}}")
}

/// The answers to the items of a batch, in their order.
pub(crate) fn multi_limit(
    request_id: &str,
    items: &[Item<'_>],
    passed: bool,
    decided: &[Decided],
) -> Bytes {
    let names = |item: &Item<'_>| item.namespace.as_str().len() + item.identifier.as_str().len();
    let room: usize = items.iter().map(|item| names(item) + ANSWER_BYTES).sum();
    let mut out = Text::begin(request_id, room + ANSWER_BYTES);
    out.piece("{\"passed\":");
    out.truth(passed);
    let mut before = ",\"limits\":[{\"namespace\":";
    for (item, decided) in items.iter().zip(decided) {
        out.piece(before);
        out.quoted(item.namespace.as_str());
        out.piece(",\"identifier\":");
        out.quoted(item.identifier.as_str());
        out.piece(",");
        out.numbers(decided);
        out.piece(",\"passed\":");
        out.truth(decided.admitted);
        out.more(&decided.more);
        before = "},{\"namespace\":";
    }
    // A batch is never empty.
    out.end("}]}}")
}

/// JSON that is being written.
struct Text(Vec<u8>);

impl Text {
    fn begin(request_id: &str, room: usize) -> Self {
        let mut out = Self(Vec::with_capacity(room));
        out.piece("{\"meta\":{\"requestId\":");
        out.quoted(request_id);
        out.piece("},\"data\":");
        out
    }

    fn end(mut self, piece: &str) -> Bytes {
        self.piece(piece);
        Bytes::from(self.0)
    }

    /// What is JSON as it stands.
    fn piece(&mut self, json: &str) {
        self.0.extend_from_slice(json.as_bytes());
    }

    fn number(&mut self, number: u64) {
        self.piece(itoa::Buffer::new().format(number));
    }

    fn truth(&mut self, truth: bool) {
        self.piece(if truth { "true" } else { "false" });
    }

    fn quoted(&mut self, text: &str) {
        let is_plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
        if text.as_bytes().iter().all(is_plain) {
            self.piece("\"");
            self.piece(text);
            self.piece("\"");
        } else {
            // A string can always be encoded, and memory can always be written to.
            let _ = serde_json::to_writer(&mut self.0, text);
        }
    }

    fn numbers(&mut self, decided: &Decided) {
        self.piece("\"limit\":");
        self.number(decided.limit);
        self.piece(",\"remaining\":");
        self.number(decided.remaining);
        self.piece(",\"reset\":");
        self.number(decided.reset);
    }

    fn word(&mut self, name: &str, word: Option<&str>) {
        if let Some(word) = word {
            self.piece(name);
            self.quoted(word);
        }
    }

    fn more(&mut self, more: &More) {
        let More { override_id, retry_after_ms, reason, mode, would_deny, known } = more;
        self.word(",\"overrideId\":", override_id.as_deref());
        if let Some(ms) = *retry_after_ms {
            self.piece(",\"retryAfterMs\":");
            self.number(ms);
        }
        self.word(",\"reason\":", *reason);
        self.word(",\"mode\":", *mode);
        if let Some(would_deny) = *would_deny {
            self.piece(",\"wouldDeny\":");
            self.truth(would_deny);
        }
        if let Some(known) = known {
            self.known(known);
        }
    }

    fn known(&mut self, known: &Known) {
        let Known { source, age_ms, degraded, consistency } = known;
        self.word(",\"source\":", Some(source));
        self.piece(",\"ageMs\":");
        self.number(*age_ms);
        self.piece(",\"degraded\":");
        self.truth(*degraded);
        self.word(",\"consistency\":", *consistency);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_slice, to_value};
    use tidegate_limiter::{Cost, Limit, Part, Window};

    use super::*;
    use crate::reply::{Limited, Meta, Success, bytes};

    /// Every part there or not, in all combinations.
    fn answers() -> impl Iterator<Item = Decided> {
        (0_u32..64).map(|bits| {
            let has = |bit: u32| bits & (1 << bit) != 0;
            let consistency = has(5).then_some("bounded");
            let known = Known { source: "region", age_ms: 7, degraded: has(0), consistency };
            let more = More {
                override_id: has(0).then(|| "rlor_\"\\\n\u{1f}\u{7f}é".to_owned()),
                retry_after_ms: has(1).then_some(u64::MAX),
                reason: has(2).then_some("memory"),
                mode: has(3).then_some("shadow"),
                would_deny: has(4).then_some(true),
                known: has(5).then_some(known),
            };
            let (limit, remaining) = (u64::from(bits), 0);
            Decided { limit, remaining, reset: 1_794_802_800_000, admitted: has(1), more }
        })
    }

    #[test]
    fn an_answer_has_the_bytes_that_serde_writes() {
        for decided in answers() {
            let whole =
                Success { meta: Meta { request_id: "req_\"1" }, data: Limited::of(&decided) };
            assert_eq!(limit("req_\"1", &decided), bytes(&whole));
        }
    }

    #[test]
    fn the_answers_of_a_batch_are_those_of_its_items_with_their_names() {
        let decided: Vec<Decided> = answers().collect();
        let part = |text| Part::new(text).unwrap();
        let (window, cost) = (Window::from_millis(60_000).unwrap(), Cost::ONE);
        let (namespace, identifier) = (part("a\"b"), part("c\\d"));
        let item = Item { namespace, identifier, limit: Limit::new(1), window, cost };
        let items = vec![item; decided.len()];
        let read: Value = from_slice(&multi_limit("req_1", &items, true, &decided)).unwrap();
        assert_eq!(read["meta"]["requestId"], "req_1");
        assert_eq!(read["data"]["passed"], true);
        let limits = read["data"]["limits"].as_array().unwrap();
        assert_eq!(limits.len(), decided.len());
        for (limit, decided) in limits.iter().zip(&decided) {
            let mut expected = to_value(Limited::of(decided)).unwrap();
            let fields = expected.as_object_mut().unwrap();
            let passed = fields.remove("success").unwrap();
            fields.insert("passed".to_owned(), passed);
            fields.insert("namespace".to_owned(), "a\"b".into());
            fields.insert("identifier".to_owned(), "c\\d".into());
            assert_eq!(*limit, expected);
        }
    }
}
