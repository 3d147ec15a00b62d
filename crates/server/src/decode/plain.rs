//! What most callers send, read in one step: objects with the fields of a check, each at most once
//! and in range, with strings that need no unescaping.
//!
//! Promises: what is read here is what the other way reads; a test compares them.
//! Refuses: everything else, right or wrong. The other way then says what it is.

use tidegate_limiter::{BATCH_MAX, Cost, Limit, Part, Window};

use super::parse::{COST, DURATION, LIMIT, Number};
use super::{Item, json};

/// A number that is longer may not fit.
const DIGITS_MAX: usize = 19;
/// What a check is at least, with names of a usual length: the room for a batch is reckoned by it.
const ITEM_BYTES: usize = 64;

/// The whole of `body` as one check.
pub(super) fn item(body: &[u8]) -> Option<Item<'_>> {
    let mut plain = Plain { rest: json::text(body).ok()? };
    let item = plain.item()?;
    plain.ends(item)
}

/// The whole of `body` as an array of checks, none of them too many.
pub(super) fn items(body: &[u8]) -> Option<Vec<Item<'_>>> {
    let mut plain = Plain { rest: json::text(body).ok()? };
    plain.take(b'[')?;
    let mut items = Vec::with_capacity((body.len() / ITEM_BYTES).clamp(1, BATCH_MAX));
    items.push(plain.item()?);
    while plain.take(b',').is_some() {
        if items.len() == BATCH_MAX {
            return None;
        }
        items.push(plain.item()?);
    }
    plain.take(b']')?;
    plain.ends(items)
}

/// What is still to be read.
struct Plain<'a> {
    rest: &'a str,
}

impl<'a> Plain<'a> {
    /// This byte, after any space.
    fn take(&mut self, byte: u8) -> Option<()> {
        self.skip();
        let (first, _) = self.rest.as_bytes().split_first()?;
        if *first != byte {
            return None;
        }
        self.advance(1)
    }

    fn skip(&mut self) {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        while self.rest.as_bytes().first().is_some_and(is_space) && self.advance(1).is_some() {}
    }

    fn advance(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.get(bytes..)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let ends = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < b' ';
        let length = self.rest.as_bytes().iter().position(ends)?;
        let (text, rest) = self.rest.split_at_checked(length)?;
        // An escape, or what must not be in a string.
        self.rest = rest.strip_prefix('"')?;
        Some(text)
    }

    fn part(&mut self) -> Option<Part<'a>> {
        Part::new(self.string()?).ok()
    }

    /// What follows the digits is looked at by whoever reads on: a fraction is none of ours.
    fn number(&mut self, range: &Number) -> Option<u64> {
        self.skip();
        let bytes = self.rest.as_bytes();
        let (mut number, mut digits) = (0_u64, 0);
        for byte in bytes.iter().take(DIGITS_MAX).take_while(|byte| byte.is_ascii_digit()) {
            number = number.wrapping_mul(10).wrapping_add(u64::from(byte.wrapping_sub(b'0')));
            digits += 1;
        }
        let is_long = digits > 1 && bytes.first() == Some(&b'0');
        if digits == 0 || is_long || !(range.min..=range.max).contains(&number) {
            return None;
        }
        self.advance(digits)?;
        Some(number)
    }

    fn item(&mut self) -> Option<Item<'a>> {
        let (mut namespace, mut identifier) = (None, None);
        let (mut limit, mut window, mut cost) = (None, None, None);
        self.take(b'{')?;
        loop {
            let name = self.string()?;
            self.take(b':')?;
            let is_new = match name {
                "namespace" => namespace.replace(self.part()?).is_none(),
                "identifier" => identifier.replace(self.part()?).is_none(),
                "limit" => limit.replace(Limit::new(self.number(&LIMIT)?)).is_none(),
                "duration" => {
                    let ms = self.number(&DURATION)?;
                    window.replace(Window::from_millis(ms).ok()?).is_none()
                }
                "cost" => cost.replace(Cost::new(self.number(&COST)?).ok()?).is_none(),
                _ => false,
            };
            if !is_new {
                return None;
            }
            if self.take(b',').is_none() {
                break;
            }
        }
        self.take(b'}')?;
        let (namespace, identifier, limit) = (namespace?, identifier?, limit?);
        let (window, cost) = (window?, cost.unwrap_or(Cost::ONE));
        Some(Item { namespace, identifier, limit, window, cost })
    }

    /// What was read, if nothing but space follows.
    fn ends<T>(mut self, read: T) -> Option<T> {
        self.skip();
        self.rest.is_empty().then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{judged, parse};
    use super::*;

    fn one_slowly(body: &[u8]) -> Option<Item<'static>> {
        let element = Box::leak(Box::new(json::element(Box::leak(body.into())).ok()?));
        judged(|errors| parse::item(element, "body", errors)).ok()
    }

    fn all_slowly(body: &[u8]) -> Option<Vec<Item<'static>>> {
        let array = Box::leak(Box::new(json::array(Box::leak(body.into())).ok()?));
        judged(|errors| parse::items(array, errors)).ok()
    }

    const GOOD: &str =
        "{\"namespace\":\"n é\",\"identifier\":\"i\",\"limit\":10,\"duration\":60000,\"cost\":0}";

    #[test]
    fn what_is_read_in_one_step_is_what_the_other_way_reads() {
        let spaced = " {\n\"namespace\" : \"n\" ,\t\"identifier\":\"\u{7f}\",\r\"limit\":1, \
                      \"duration\":1000 } ";
        for good in [GOOD, spaced] {
            assert!(item(good.as_bytes()).is_some(), "{good}");
            let list = format!("[{good} , {good}]");
            assert_eq!(items(list.as_bytes()), all_slowly(list.as_bytes()));
            assert_eq!(items(list.as_bytes()).map(|all| all.len()), Some(2));
        }
        // Every byte replaced by every byte that means something, left out, and cut off there.
        let telling = b"{}[]\",:\\ \n0129-+.eEtfn\x00\x1f\x80\xc3\xff";
        for at in 0..GOOD.len() {
            let (before, rest) = GOOD.as_bytes().split_at(at);
            let mut all = vec![before.to_vec(), [before, &rest[1..]].concat()];
            let replaced = |byte: &u8| [before, &[*byte], &rest[1..]].concat();
            all.extend(telling.iter().map(replaced));
            all.extend(telling.iter().map(|byte| [before, &[*byte], rest].concat()));
            for body in all {
                let text = String::from_utf8_lossy(&body);
                if let Some(item) = item(&body) {
                    assert_eq!(Some(item), one_slowly(&body), "{text}");
                }
                let list = [b"[", &*body, b"]"].concat();
                if let Some(items) = items(&list) {
                    assert_eq!(Some(items), all_slowly(&list), "{text}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_read_to_the_ends_of_their_ranges() {
        let numbers = [
            "0",
            "1",
            "01",
            "-1",
            "1.0",
            "1e3",
            "999",
            "1000",
            "2592000000",
            "2592000001",
            "1099511627776",
            "1099511627777",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616",
            "99999999999999999999999",
            "\"1\"",
        ];
        for field in ["limit\":10", "duration\":60000", "cost\":0"] {
            let (name, value) = field.split_once(':').unwrap();
            for number in numbers {
                let body = GOOD.replace(&format!("{name}:{value}"), &format!("{name}:{number}"));
                let slowly = one_slowly(body.as_bytes());
                assert_eq!(item(body.as_bytes()), slowly, "{body}");
            }
        }
    }

    #[test]
    fn what_is_not_plain_is_left_to_the_other_way() {
        let twice = GOOD.replace("\"cost\"", "\"limit\"");
        let more = GOOD.replace("\"cost\"", "\"price\"");
        let escaped = GOOD.replace("\"i\"", "\"\\u0069\"");
        for other in ["", "{}", "[]", "null", &twice, &more, &escaped, &format!("{GOOD}x")] {
            assert_eq!(item(other.as_bytes()), None, "{other}");
        }
        let list = |count: usize| format!("[{}]", vec![GOOD; count].join(","));
        assert_eq!(items(list(BATCH_MAX).as_bytes()).map(|all| all.len()), Some(BATCH_MAX));
        assert_eq!(items(list(BATCH_MAX + 1).as_bytes()), None);
        assert_eq!(items(b"[]"), None);
    }
}
