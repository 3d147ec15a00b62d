//! The same reading in one pass, for what most callers send.
//!
//! Promises: what is read here is what the slower way reads; a test compares them.
//! Refuses: whatever is not plain, such as a number with a fraction, one that does not fit, or
//! what is no JSON at all. The slower way then says what it is.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::from_str;
use tidegate_limiter::BATCH_MAX;

use super::{Array, Element, Fields, Text, Value};

/// The fields of an object; `None` if this way does not do.
pub(super) fn fields(text: &str) -> Option<Box<Fields<'_>>> {
    let quick: Quick<Box<Fields<'_>>> = from_str(text).ok()?;
    Some(quick.0)
}

/// The elements of an array; `None` if this way does not do.
pub(super) fn array(text: &str) -> Option<Array<'_>> {
    let quick: Quick<Array<'_>> = from_str(text).ok()?;
    Some(quick.0)
}

/// Something that is read in one pass.
struct Quick<T>(T);

impl<'de> Deserialize<'de> for Quick<Value<'de>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any).map(Self)
    }
}

impl<'de> Deserialize<'de> for Quick<Box<Fields<'de>>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Object).map(Self)
    }
}

impl<'de> Deserialize<'de> for Quick<Array<'de>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Elements).map(Self)
    }
}

/// Any value. A fraction is not visited: how it was written is lost by then.
struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value without a fraction")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Value::Whole(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        if number < 0 { Ok(Value::Negative) } else { Err(E::custom("look again")) }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Value::Bool)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        while array.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Object)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Box<Fields<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut fields = Box::<Fields<'_>>::default();
        while let Some((name, value)) = object.next_entry::<Text<'_>, Quick<Value<'_>>>()? {
            fields.keep(&name.0, value.0);
        }
        Ok(fields)
    }
}

struct Elements;

impl<'de> Visitor<'de> for Elements {
    type Value = Array<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while elements.len() < BATCH_MAX {
            let Some(fields) = array.next_element::<Quick<Box<Fields<'_>>>>()? else {
                return Ok(Array::Elements(elements, false));
            };
            elements.push(Element::Object(fields.0));
        }
        let mut more = false;
        while array.next_element::<IgnoredAny>()?.is_some() {
            more = true;
        }
        Ok(Array::Elements(elements, more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that mean different things where it matters.
    const VALUES: [&str; 26] = [
        "1",
        "0",
        "-1",
        "-0",
        "1.0",
        "1e3",
        "1e999",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "007",
        "\"a\"",
        "\"\\u0061\"",
        "\"\\ud800\"",
        "\"\"",
        "null",
        "true",
        "false",
        "[]",
        "[1,[2,{}]]",
        "{}",
        "{\"a\":{\"b\":[]}}",
        "[1,]",
        "{\"a\"}",
        "nul",
    ];

    #[test]
    fn what_is_read_in_one_pass_is_what_the_slower_way_reads() {
        let mut quick = 0;
        let names = ["\"limit\"", "\"l\\u0069mit\"", "\"other\"", "\"\""];
        for name in names {
            for value in VALUES {
                let object = format!("{{{name}:{value},\"limit\":7}}");
                if let Some(fields) = fields(&object) {
                    quick += 1;
                    assert_eq!(
                        Element::read(&object).unwrap(),
                        Element::Object(fields),
                        "{object}"
                    );
                }
                let list = format!("[{object},{object}]");
                if let Some(array) = array(&list) {
                    assert_eq!(from_str::<Array<'_>>(&list).unwrap(), array, "{list}");
                }
                assert_eq!(array(value).is_some(), value == "[]", "{value}");
            }
        }
        assert!(quick >= names.len() * 14, "{quick}");
    }

    #[test]
    fn no_depth_exhausts_the_stack() {
        let deep = format!("{{\"limit\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let element = Element::Object(fields(&deep).unwrap());
        assert_eq!(element, Element::read(&deep).unwrap());
    }

    #[test]
    fn a_batch_that_is_too_long_is_cut_and_said() {
        let list = format!("[{}{{}}]", "{},".repeat(BATCH_MAX));
        assert_eq!(array(&list).unwrap(), from_str::<Array<'_>>(&list).unwrap());
    }
}
