//! Reading: JSON of any shape into what we keep of it.
//!
//! Nothing here recurses: whatever is nested deeper than a field is skipped by serde_json, which
//! does that in a loop, so no depth can exhaust the stack. What is skipped is not kept either, so
//! memory is bounded by the body.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
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
    /// Written with a fraction or an exponent.
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

/// The fields of one object.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Fields<'a> {
    pub(super) namespace: Field<'a>,
    pub(super) identifier: Field<'a>,
    pub(super) limit: Field<'a>,
    pub(super) duration: Field<'a>,
    pub(super) cost: Field<'a>,
    /// Names that are none of these; no more than can be reported.
    pub(super) unknown: Vec<String>,
}

impl<'a> Fields<'a> {
    fn keep(&mut self, name: &str, value: Value<'a>) {
        let field = match name {
            "namespace" => &mut self.namespace,
            "identifier" => &mut self.identifier,
            "limit" => &mut self.limit,
            "duration" => &mut self.duration,
            "cost" => &mut self.cost,
            _ => return self.keep_unknown(name),
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

/// Reads the whole of `body` as one value.
pub(super) fn read<'a, T: FromJson<'a>>(body: &'a [u8]) -> Result<T, Undecodable> {
    // Checked as a whole, because serde_json does not look into the strings that it skips.
    let text = std::str::from_utf8(body).map_err(|_| Undecodable)?;
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Seed::new().deserialize(&mut json).map_err(|_| Undecodable)?;
    json.end().map_err(|_| Undecodable)?;
    Ok(value)
}

/// A type that can be made of any JSON value, because it has room for the wrong ones.
pub(super) trait FromJson<'de>: Sized {
    fn other(value: Value<'de>) -> Self;

    fn array<A: SeqAccess<'de>>(mut array: A) -> Result<Self, A::Error> {
        while array.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::other(Value::Array))
    }

    fn object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::other(Value::Object))
    }
}

impl<'de> FromJson<'de> for Value<'de> {
    fn other(value: Self) -> Self {
        value
    }
}

impl<'de> FromJson<'de> for Element<'de> {
    fn other(value: Value<'de>) -> Self {
        Self::Other(value)
    }

    fn object<A: MapAccess<'de>>(mut object: A) -> Result<Self, A::Error> {
        let mut fields = Box::<Fields<'_>>::default();
        // A key may be written with escapes: it is compared as the text that it means.
        while let Some(name) = object.next_key_seed(Seed::<Value<'_>>::new())? {
            let Value::Text(name) = name else { continue };
            let value = object.next_value_seed(Seed::<Value<'_>>::new())?;
            fields.keep(&name, value);
        }
        Ok(Self::Object(fields))
    }
}

impl<'de> FromJson<'de> for Array<'de> {
    fn other(value: Value<'de>) -> Self {
        Self::Other(value)
    }

    fn array<A: SeqAccess<'de>>(mut array: A) -> Result<Self, A::Error> {
        let mut elements = Vec::new();
        while elements.len() < BATCH_MAX {
            match array.next_element_seed(Seed::new())? {
                Some(element) => elements.push(element),
                None => return Ok(Self::Elements(elements, false)),
            }
        }
        let mut more = false;
        while array.next_element::<IgnoredAny>()?.is_some() {
            more = true;
        }
        Ok(Self::Elements(elements, more))
    }
}

/// Makes a `T` of whatever comes.
struct Seed<T>(PhantomData<T>);

impl<T> Seed<T> {
    fn new() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: FromJson<'de>> DeserializeSeed<'de> for Seed<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: FromJson<'de>> Visitor<'de> for Seed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<T, E> {
        Ok(T::other(Value::Bool))
    }

    fn visit_i64<E>(self, number: i64) -> Result<T, E> {
        Ok(T::other(u64::try_from(number).map_or(Value::Negative, Value::Whole)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<T, E> {
        Ok(T::other(Value::Whole(number)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<T, E> {
        // serde_json gives a float for what has a fraction or an exponent, for what does not fit
        // into 64 bits, and for -0. The limits of 64 bits are exact as floats.
        let beyond =
            number <= -9_223_372_036_854_775_808.0 || number >= 18_446_744_073_709_551_616.0;
        Ok(T::other(if beyond { Value::Huge } else { Value::Fraction }))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<T, E> {
        Ok(T::other(Value::Text(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::other(Value::Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::other(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<T, A::Error> {
        T::array(array)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<T, A::Error> {
        T::object(object)
    }
}
