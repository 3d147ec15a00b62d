//! The two answers that are given all the time, written piece by piece: no name of a field is
//! looked through for what would have to be escaped.
//!
//! Promises: the bytes that serde would write; a test compares them.

use std::cell::Cell;

use bytes::Bytes;

use super::{Decided, Known, More};
use crate::decode::Item;

/// What a thread keeps to write its next answer in: a batch of a hundred with short names. What one
/// with long names took beyond that is given back.
const KEPT_BYTES: usize = 32 << 10;

thread_local! {
    /// An answer is written here and then copied to memory of just its length, which the allocator
    /// has at hand up to a kilobyte: one with room to spare is larger, and is handed on with a
    /// second piece of memory that says how large.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The answer to one request.
pub(crate) fn limit(request_id: &str, decided: &Decided) -> Bytes {
    let mut out = Text::begin(request_id);
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
    let mut out = Text::begin(request_id);
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
    fn begin(request_id: &str) -> Self {
        let mut out = Self(ROOM.take());
        out.piece("{\"meta\":{\"requestId\":");
        out.quoted(request_id);
        out.piece("},\"data\":");
        out
    }

    fn end(mut self, piece: &str) -> Bytes {
        self.piece(piece);
        let written = Bytes::copy_from_slice(&self.0);
        self.0.clear();
        self.0.shrink_to(KEPT_BYTES);
        ROOM.set(self.0);
        written
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

    /// One of our own words: there is nothing in it to escape.
    fn word(&mut self, name: &str, word: &'static str) {
        self.piece(name);
        self.piece("\"");
        self.piece(word);
        self.piece("\"");
    }

    fn more(&mut self, more: &More) {
        let More { override_id, retry_after_ms, reason, mode, would_deny, known } = more;
        if let Some(id) = override_id {
            self.piece(",\"overrideId\":");
            self.quoted(id);
        }
        if let Some(ms) = *retry_after_ms {
            self.piece(",\"retryAfterMs\":");
            self.number(ms);
        }
        if let Some(reason) = *reason {
            self.word(",\"reason\":", reason);
        }
        if let Some(mode) = *mode {
            self.word(",\"mode\":", mode);
        }
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
        // What nearly all items say is in two pieces.
        match *source {
            "local" => self.piece(",\"source\":\"local\",\"ageMs\":"),
            source => {
                self.word(",\"source\":", source);
                self.piece(",\"ageMs\":");
            }
        }
        self.number(*age_ms);
        match (*degraded, *consistency) {
            (false, Some("bounded")) => {
                self.piece(",\"degraded\":false,\"consistency\":\"bounded\"");
            }
            (false, Some("fast")) => self.piece(",\"degraded\":false,\"consistency\":\"fast\""),
            (degraded, consistency) => {
                self.piece(",\"degraded\":");
                self.truth(degraded);
                if let Some(consistency) = consistency {
                    self.word(",\"consistency\":", consistency);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_slice};
    use tidegate_limiter::{Cost, Limit, Part, Window};

    use super::*;
    use crate::reply::{Limited, Meta, Success, bytes};

    /// As serde writes a batch.
    #[derive(serde::Serialize)]
    struct MultiLimited<'a> {
        passed: bool,
        limits: Vec<LimitedItem<'a>>,
    }

    #[derive(serde::Serialize)]
    struct LimitedItem<'a> {
        namespace: &'a str,
        identifier: &'a str,
        limit: u64,
        remaining: u64,
        reset: u64,
        passed: bool,
        #[serde(flatten)]
        more: &'a More,
    }

    fn by_serde(request_id: &str, items: &[Item<'_>], passed: bool, decided: &[Decided]) -> Bytes {
        let limits = items.iter().zip(decided).map(|(item, decided)| LimitedItem {
            namespace: item.namespace.as_str(),
            identifier: item.identifier.as_str(),
            limit: decided.limit,
            remaining: decided.remaining,
            reset: decided.reset,
            passed: decided.admitted,
            more: &decided.more,
        });
        let data = MultiLimited { passed, limits: limits.collect() };
        bytes(&Success { meta: Meta { request_id }, data })
    }

    /// Texts and numbers that are hard to write, the same in every run.
    struct Made(u64);

    impl Made {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 7
        }

        fn is(&mut self) -> bool {
            self.next().is_multiple_of(2)
        }

        fn char(&mut self) -> char {
            let odd = ['"', '\\', '/', '\u{7f}', '\u{2028}', '\u{2029}', '\u{feff}', '\0'];
            let drawn = u32::try_from(self.next() % 0x11_0000).unwrap();
            match self.next() % 8 {
                0 => char::from_u32(drawn % 32).unwrap(),
                1 => odd[drawn as usize % odd.len()],
                2 => char::from_u32(drawn).unwrap_or('\u{fffd}'),
                3 => char::from_u32(0x80 + drawn % 128).unwrap(),
                _ => char::from_u32(32 + drawn % 95).unwrap(),
            }
        }

        fn text(&mut self, least: u64) -> String {
            let count = least + self.next() % 12;
            (0..count).map(|_| self.char()).collect()
        }

        fn number(&mut self) -> u64 {
            match self.next() % 6 {
                0 => 0,
                1 => u64::MAX,
                2 => (1 << 53) + 1,
                3 => 10_u64.pow(u32::try_from(self.next() % 20).unwrap()) - self.next() % 2,
                _ => self.next().wrapping_mul(self.next()),
            }
        }

        fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
            self.is().then(|| value(self))
        }

        fn decided(&mut self) -> Decided {
            let known = |it: &mut Self| Known {
                source: if it.is() { "local" } else { "region" },
                age_ms: it.number(),
                degraded: it.is(),
                consistency: it.maybe(|it| if it.is() { "fast" } else { "bounded" }),
            };
            let more = More {
                override_id: self.maybe(|it| it.text(0)),
                retry_after_ms: self.maybe(Self::number),
                reason: self.maybe(|_| "outage"),
                mode: self.maybe(|_| "off"),
                would_deny: self.maybe(Self::is),
                known: self.maybe(known),
            };
            let (limit, remaining, reset) = (self.number(), self.number(), self.number());
            Decided { limit, remaining, reset, admitted: self.is(), more }
        }
    }

    #[test]
    fn what_a_long_answer_took_is_given_back_and_the_next_one_is_whole() {
        let mut made = Made(7);
        let short = made.decided();
        let before = limit("a", &short);
        let long = limit(&"x".repeat(2 * KEPT_BYTES), &short);
        assert_eq!(long.len(), before.len() + 2 * KEPT_BYTES - 1);
        let room = ROOM.take();
        assert!(room.is_empty() && room.capacity() <= KEPT_BYTES, "{}", room.capacity());
        ROOM.set(room);
        assert_eq!(limit("a", &short), before);
    }

    #[test]
    fn answers_have_the_bytes_that_serde_writes() {
        let mut made = Made(0x9E37_79B9_7F4A_7C15);
        for case in 0..20_000 {
            let count = 1 + case % 4;
            let decided: Vec<Decided> = (0..count).map(|_| made.decided()).collect();
            let names: Vec<_> = (0..count).map(|_| (made.text(1), made.text(1))).collect();
            let (request_id, passed) = (made.text(0), made.is());
            for one in &decided {
                let data = Limited::of(one);
                let whole = Success { meta: Meta { request_id: &request_id }, data };
                assert_eq!(limit(&request_id, one), bytes(&whole));
            }
            let (window, cost) = (Window::from_millis(60_000).unwrap(), Cost::ONE);
            let items = names.iter().map(|(namespace, identifier)| Item {
                namespace: Part::new(namespace).unwrap(),
                identifier: Part::new(identifier).unwrap(),
                limit: Limit::new(1),
                window,
                cost,
            });
            let items: Vec<Item<'_>> = items.collect();
            let written = multi_limit(&request_id, &items, passed, &decided);
            assert_eq!(written, by_serde(&request_id, &items, passed, &decided));
            let _: Value = from_slice(&written).unwrap();
        }
    }
}
