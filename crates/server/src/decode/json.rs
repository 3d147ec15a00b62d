//! Reading: JSON of any shape into what we keep of it.
//!
//! Nothing here recurses: whatever is nested deeper than a field is skipped by serde_json, which
//! does that in a loop, so no depth can exhaust the stack. What is skipped is not kept either, so
//! memory is bounded by the body.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Error, from_str};
use tidegate_limiter::BATCH_MAX;

use super::{ERRORS_MAX, Undecodable};

/// Most characters of an unknown field's name that are repeated to the caller.
const NAME_CHARS_MAX: usize = 64;

/// A JSON value: kept if a field may hold it, otherwise only what it was.
#[derive(Debug, PartialEq)]
pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    Whole(u64),
    Negative,
    /// An integer in JSON, but none that we have.
    MinusZero,
    /// Written with a fraction or an exponent, of whatever size.
    Fraction,
    /// Beyond 64 bits.
    Huge,
    Null,
    Bool,
    Array,
    Object,
}

/// One field of an object.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Field<'a> {
    pub(super) value: Option<Value<'a>>,
    pub(super) repeated: bool,
}

/// The fields that any request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Namespace,
    Identifier,
    Limit,
    Duration,
    Cost,
    Cursor,
}

impl Name {
    const ALL: [Self; 6] =
        [Self::Namespace, Self::Identifier, Self::Limit, Self::Duration, Self::Cost, Self::Cursor];

    /// One of its own.
    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// As it is written.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Identifier => "identifier",
            Self::Limit => "limit",
            Self::Duration => "duration",
            Self::Cost => "cost",
            Self::Cursor => "cursor",
        }
    }
}

/// The fields of one object.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Fields<'a> {
    known: [Field<'a>; Name::ALL.len()],
    /// Names that are none of these; no more than can be reported.
    pub(super) unknown: Vec<String>,
}

impl<'a> Fields<'a> {
    /// All fields, whether they are there or not.
    pub(super) fn all(&self) -> impl Iterator<Item = (Name, &Field<'a>)> {
        Name::ALL.into_iter().zip(&self.known)
    }

    fn keep(&mut self, name: &str, value: Value<'a>) {
        let mut all = Name::ALL.into_iter().zip(&mut self.known);
        let Some((_, field)) = all.find(|(known, _)| known.text() == name) else {
            return self.keep_unknown(name);
        };
        field.repeated |= field.value.is_some();
        field.value = Some(value);
    }

    fn keep_unknown(&mut self, name: &str) {
        if self.unknown.len() < ERRORS_MAX {
            self.unknown.push(name.chars().take(NAME_CHARS_MAX).collect());
        }
    }
}

/// What stands where an object should.
#[derive(Debug, PartialEq)]
pub(super) enum Element<'a> {
    Object(Box<Fields<'a>>),
    Other(Value<'a>),
}

/// What stands where an array of objects should.
#[derive(Debug, PartialEq)]
pub(super) enum Array<'a> {
    /// The first [`BATCH_MAX`] elements, and whether there were more.
    Elements(Vec<Element<'a>>, bool),
    Other(Value<'a>),
}

/// Reads the whole of `body` as what should be an object.
pub(super) fn element(body: &[u8]) -> Result<Element<'_>, Undecodable> {
    Element::read(text(body)?).map_err(|_| Undecodable)
}

/// Reads the whole of `body` as what should be an array of objects.
pub(super) fn array(body: &[u8]) -> Result<Array<'_>, Undecodable> {
    let text = text(body)?;
    let array =
        if opens_with(text, '[') { from_str(text) } else { Value::read(text).map(Array::Other) };
    array.map_err(|_| Undecodable)
}

/// Checked as a whole, because serde_json does not look into the strings that it skips.
pub(super) fn text(body: &[u8]) -> Result<&str, Undecodable> {
    std::str::from_utf8(body).map_err(|_| Undecodable)
}

/// Says only what to read `json` as; whether it is JSON at all is seen when it is read.
fn opens_with(json: &str, bracket: char) -> bool {
    json.trim_start().starts_with(bracket)
}

impl<'a> Value<'a> {
    fn read(json: &'a str) -> Result<Self, Error> {
        from_str::<&RawValue>(json).and_then(Self::of)
    }

    /// Goes by the text: as a float, a number would lose how it was written.
    fn of(json: &'a RawValue) -> Result<Self, Error> {
        let text = json.get();
        Ok(match text.as_bytes().first() {
            Some(b'"') => Self::Text(from_str::<Text<'_>>(text)?.0),
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b't' | b'f') => Self::Bool,
            Some(b'n') => Self::Null,
            _ if text.contains(['.', 'e', 'E']) => Self::Fraction,
            _ if text == "-0" => Self::MinusZero,
            Some(b'-') => Self::Negative,
            _ => text.parse().map_or(Self::Huge, Self::Whole),
        })
    }
}

impl<'a> Element<'a> {
    fn read(json: &'a str) -> Result<Self, Error> {
        if opens_with(json, '{') {
            from_str(json).map(Self::Object)
        } else {
            Value::read(json).map(Self::Other)
        }
    }
}

/// A string, borrowed if it is written without escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
                let mut fields = Fields::default();
                // A key may be written with escapes: it is compared as the text that it means.
                while let Some((name, value)) = object.next_entry::<Text<'_>, &RawValue>()? {
                    fields.keep(&name.0, Value::of(value).map_err(A::Error::custom)?);
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Object)
    }
}

impl<'de> Deserialize<'de> for Array<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements;

        impl<'de> Visitor<'de> for Elements {
            type Value = Array<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while elements.len() < BATCH_MAX {
                    let Some(json) = array.next_element::<&RawValue>()? else {
                        return Ok(Array::Elements(elements, false));
                    };
                    elements.push(Element::read(json.get()).map_err(A::Error::custom)?);
                }
                let mut more = false;
                while array.next_element::<IgnoredAny>()?.is_some() {
                    more = true;
                }
                Ok(Array::Elements(elements, more))
            }
        }

        deserializer.deserialize_seq(Elements)
    }
}
