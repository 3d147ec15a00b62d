//! Parsing: what stands in the fields against what may stand there.

use std::borrow::Cow;

use tidegate_limiter::{BATCH_MAX, COST_MAX, Cost, Limit, Part, RequestError, Window};

use super::json::{Array, Element, Field, Fields, Name, Value};
use super::{ERRORS_MAX, FieldError, Item, Listing, Setting, Target};

/// A field that holds a number, and its range. The window's range is narrower than the limiter's:
/// the HTTP contract ends at 30 days.
#[derive(Debug)]
pub(crate) struct Number {
    name: Name,
    pub(crate) min: u64,
    pub(crate) max: u64,
    fix: &'static str,
}

impl Number {
    /// What the field is called.
    pub(crate) const fn name(&self) -> &'static str {
        self.name.text()
    }
}

/// What a request may ask for.
pub(crate) const LIMIT: Number = Number {
    name: Name::Limit,
    min: 1,
    max: i64::MAX.unsigned_abs(),
    fix: "give how much a window may hold, an integer from 1",
};
/// What an override may say: 0 blocks.
pub(crate) const OVERRIDE_LIMIT: Number = Number {
    name: Name::Limit,
    min: 0,
    max: i64::MAX.unsigned_abs(),
    fix: "give how much a window may hold, an integer from 0; 0 blocks",
};
/// How long a window is.
pub(crate) const DURATION: Number = Number {
    name: Name::Duration,
    min: 1_000,
    max: 30 * 24 * 60 * 60 * 1_000,
    fix: "give the window in milliseconds, 1000 (1 second) to 2592000000 (30 days)",
};
/// What a request consumes.
pub(crate) const COST: Number = Number {
    name: Name::Cost,
    min: 0,
    max: COST_MAX,
    fix: "give an integer from 0 to 1099511627776, or leave it out for 1",
};
/// How many are listed at a time.
pub(crate) const PAGE: Number = Number {
    name: Name::Limit,
    min: 1,
    max: 100,
    fix: "give how many to list at a time, 1 to 100, or leave it out for 50",
};
/// How many if it is not said.
pub(crate) const PAGE_DEFAULT: u64 = 50;

const ITEM_FIELDS: &str = "the fields are namespace, identifier, limit, duration and cost";
const TARGET_FIELDS: &str = "the fields are namespace and identifier";
const SETTING_FIELDS: &str = "the fields are namespace, identifier, limit and duration";
const SUBJECT_FIELDS: &str = "the fields are namespace, identifier and duration";
const LISTING_FIELDS: &str = "the fields are namespace, limit and cursor";
const TEXT_FIX: &str = "give a string of 1 to 512 characters";
const CURSOR_FIX: &str = "give the cursor of the page before, or leave it out for the first";

const _: () = assert!(DURATION.min == 1_000 && DURATION.max == 2_592_000_000);
const _: () = assert!(COST.max == 1_099_511_627_776);

/// The errors found so far, as many as are reported.
#[derive(Default)]
pub(super) struct Errors(Vec<FieldError>);

impl Errors {
    fn push(
        &mut self,
        location: String,
        message: impl Into<Cow<'static, str>>,
        fix: Option<&'static str>,
    ) {
        if self.0.len() < ERRORS_MAX {
            self.0.push(FieldError { location, message: message.into(), fix });
        }
    }

    pub(super) fn into_list(self) -> Vec<FieldError> {
        self.0
    }
}

/// All items of an array, or `None` if there is an error in any.
pub(super) fn items<'a>(array: &'a Array<'_>, errors: &mut Errors) -> Option<Vec<Item<'a>>> {
    let (elements, more) = match array {
        Array::Elements(elements, more) => (elements, *more),
        Array::Other(value) => {
            errors.push("body".to_owned(), wrong_type("an array", value), None);
            return None;
        }
    };
    let size = match (elements.is_empty(), more) {
        (true, _) => Err(RequestError::BatchEmpty),
        (_, true) => Err(RequestError::BatchTooLarge),
        _ => Ok(()),
    };
    if let Err(error) = size {
        errors.push("body".to_owned(), error.to_string(), Some("send 1 to 100 items"));
    }
    // All are parsed before any is judged, so that all errors are found.
    let items: Vec<Option<Item<'_>>> = elements
        .iter()
        .take(BATCH_MAX)
        .enumerate()
        .map(|(index, element)| item(element, &format!("body[{index}]"), errors))
        .collect();
    size.ok()?;
    items.into_iter().collect()
}

/// The item that stands at `at`, or `None` if there is an error in it.
pub(super) fn item<'a>(
    element: &'a Element<'_>,
    at: &str,
    errors: &mut Errors,
) -> Option<Item<'a>> {
    let mut reader = Reader::of(element, at, errors)?;
    let namespace = reader.part(Name::Namespace);
    let identifier = reader.part(Name::Identifier);
    let limit = reader.number(&LIMIT);
    let window = reader.window();
    let cost = reader.cost();
    reader.ends(ITEM_FIELDS)?;
    // Each part that is missing has left its error.
    Some(Item {
        namespace: namespace?,
        identifier: identifier?,
        limit: Limit::new(limit?),
        window: window?,
        cost: cost?,
    })
}

/// Of whom an override is.
pub(super) fn target<'a>(element: &'a Element<'_>, errors: &mut Errors) -> Option<Target<'a>> {
    let mut reader = Reader::of(element, "body", errors)?;
    let namespace = reader.part(Name::Namespace);
    let identifier = reader.part(Name::Identifier);
    reader.ends(TARGET_FIELDS)?;
    Some(Target { namespace: namespace?, identifier: identifier? })
}

/// What an override says.
pub(super) fn setting<'a>(element: &'a Element<'_>, errors: &mut Errors) -> Option<Setting<'a>> {
    let mut reader = Reader::of(element, "body", errors)?;
    let namespace = reader.part(Name::Namespace);
    let identifier = reader.part(Name::Identifier);
    let limit = reader.number(&OVERRIDE_LIMIT);
    let window = reader.window();
    reader.ends(SETTING_FIELDS)?;
    let target = Target { namespace: namespace?, identifier: identifier? };
    Some(Setting { target, limit: Limit::new(limit?), window: window? })
}

/// Which subject is meant.
pub(super) fn subject<'a>(
    element: &'a Element<'_>,
    errors: &mut Errors,
) -> Option<(Target<'a>, Window)> {
    let mut reader = Reader::of(element, "body", errors)?;
    let namespace = reader.part(Name::Namespace);
    let identifier = reader.part(Name::Identifier);
    let window = reader.window();
    reader.ends(SUBJECT_FIELDS)?;
    Some((Target { namespace: namespace?, identifier: identifier? }, window?))
}

/// Which overrides are listed.
pub(super) fn listing<'a>(element: &'a Element<'_>, errors: &mut Errors) -> Option<Listing<'a>> {
    let mut reader = Reader::of(element, "body", errors)?;
    let namespace = reader.part(Name::Namespace);
    let limit = reader.optional(Name::Limit, |reader| reader.number(&PAGE));
    let cursor = reader.optional(Name::Cursor, Reader::cursor);
    reader.ends(LISTING_FIELDS)?;
    Some(Listing { namespace: namespace?, limit: limit?, cursor: cursor? })
}

/// Reads the fields of one object. What was not read at the end should not have been there.
struct Reader<'r, 'a> {
    fields: &'a Fields<'a>,
    at: &'r str,
    errors: &'r mut Errors,
    /// As bits.
    read: u8,
}

impl<'r, 'a> Reader<'r, 'a> {
    fn of(element: &'a Element<'_>, at: &'r str, errors: &'r mut Errors) -> Option<Self> {
        match element {
            Element::Object(fields) => Some(Self { fields, at, errors, read: 0 }),
            Element::Other(value) => {
                errors.push(at.to_owned(), wrong_type("an object", value), None);
                None
            }
        }
    }

    fn field(&mut self, name: Name) -> Result<&'a Value<'a>, &'static str> {
        self.read |= name.bit();
        let mut all = self.fields.all();
        let found = all.find(|(known, _)| *known == name);
        found.map_or(Err("is required"), |(_, field)| one_value(field))
    }

    fn has(&self, name: Name) -> bool {
        self.fields.all().any(|(known, field)| known == name && field.value.is_some())
    }

    fn push(&mut self, name: &str, message: Cow<'static, str>, fix: &'static str) {
        self.errors.push(format!("{}.{name}", self.at), message, Some(fix));
    }

    fn part(&mut self, name: Name) -> Option<Part<'a>> {
        let refused = match self.field(name) {
            Ok(Value::Text(text)) => match Part::new(text) {
                Ok(part) => return Some(part),
                Err(error) => error.to_string().into(),
            },
            Ok(value) => wrong_type("a string", value),
            Err(message) => message.into(),
        };
        self.push(name.text(), refused, TEXT_FIX);
        None
    }

    fn number(&mut self, number: &Number) -> Option<u64> {
        let refused = match self.field(number.name) {
            Ok(Value::Whole(value)) if *value < number.min => at_least(number),
            Ok(Value::Whole(value)) if *value > number.max => at_most(number),
            Ok(Value::Whole(value)) => return Some(*value),
            Ok(Value::Negative) => at_least(number),
            Ok(Value::Huge) => "must be an integer of at most 64 bits".into(),
            Ok(Value::MinusZero) => "must be an integer without a sign".into(),
            Ok(Value::Fraction) => "must be an integer, without fraction or exponent".into(),
            Ok(value) => wrong_type("an integer", value),
            Err(message) => message.into(),
        };
        self.push(number.name.text(), refused, number.fix);
        None
    }

    fn window(&mut self) -> Option<Window> {
        let ms = self.number(&DURATION)?;
        self.accept(Window::from_millis(ms), &DURATION)
    }

    fn cost(&mut self) -> Option<Cost> {
        match self.optional(Name::Cost, |reader| reader.number(&COST))? {
            None => Some(Cost::ONE),
            Some(cost) => self.accept(Cost::new(cost), &COST),
        }
    }

    fn cursor(&mut self) -> Option<&'a str> {
        let refused = match self.field(Name::Cursor) {
            Ok(Value::Text(text)) => return Some(text),
            Ok(value) => wrong_type("a string", value),
            Err(message) => message.into(),
        };
        self.push(Name::Cursor.text(), refused, CURSOR_FIX);
        None
    }

    /// A field that may be absent: `Some(None)` then.
    #[expect(clippy::option_option, reason = "outside: whether it is right; inside: is it there")]
    fn optional<T>(
        &mut self,
        name: Name,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.has(name) { read(self).map(Some) } else { self.skip(name) }
    }

    #[expect(clippy::option_option, reason = "as in `optional`")]
    fn skip<T>(&mut self, name: Name) -> Option<Option<T>> {
        self.read |= name.bit();
        Some(None)
    }

    /// The ranges above lie within the limiter's; should they ever not, that is an error like any
    /// other.
    fn accept<T>(&mut self, value: Result<T, RequestError>, number: &Number) -> Option<T> {
        let refused = |error: RequestError| {
            self.push(number.name.text(), error.to_string().into(), number.fix);
        };
        value.map_err(refused).ok()
    }

    /// `None` if there are fields that were not asked for.
    fn ends(mut self, fix: &'static str) -> Option<()> {
        let unread = |(name, field): &(Name, &Field<'_>)| {
            field.value.is_some() && self.read & name.bit() == 0
        };
        let others = self.fields.all().filter(unread).map(|(name, _)| name.text().to_owned());
        let others: Vec<String> = others.chain(self.fields.unknown.iter().cloned()).collect();
        for name in &others {
            self.push(name, "is not a field of this request".into(), fix);
        }
        others.is_empty().then_some(())
    }
}

fn one_value<'b, 'a>(field: &'b Field<'a>) -> Result<&'b Value<'a>, &'static str> {
    match &field.value {
        None => Err("is required"),
        Some(_) if field.repeated => Err("is given more than once"),
        Some(value) => Ok(value),
    }
}

fn at_least(number: &Number) -> Cow<'static, str> {
    format!("must be at least {}", number.min).into()
}

fn at_most(number: &Number) -> Cow<'static, str> {
    format!("must be at most {}", number.max).into()
}

fn wrong_type(expected: &str, value: &Value<'_>) -> Cow<'static, str> {
    let found = match value {
        Value::Text(_) => "a string",
        Value::Whole(_) | Value::Negative | Value::MinusZero | Value::Fraction | Value::Huge => {
            "a number"
        }
        Value::Null => "null",
        Value::Bool => "a boolean",
        Value::Array => "an array",
        Value::Object => "an object",
    };
    format!("must be {expected}, not {found}").into()
}
