//! Parsing: what stands in the fields against what may stand there.

use std::borrow::Cow;

use tidegate_limiter::{BATCH_MAX, COST_MAX, Cost, Limit, Part, RequestError, Window};

use super::json::{Array, Element, Field, Fields, Value};
use super::{ERRORS_MAX, FieldError, Item};

/// A field that holds a number, and its range. The window's range is narrower than the limiter's:
/// the HTTP contract ends at 30 days.
pub(crate) struct Number {
    pub(crate) name: &'static str,
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) fix: &'static str,
}

pub(crate) const LIMIT: Number = Number {
    name: "limit",
    min: 1,
    max: i64::MAX.unsigned_abs(),
    fix: "give how much a window may hold, an integer from 1",
};
pub(crate) const DURATION: Number = Number {
    name: "duration",
    min: 1_000,
    max: 30 * 24 * 60 * 60 * 1_000,
    fix: "give the window in milliseconds, 1000 (1 second) to 2592000000 (30 days)",
};
pub(crate) const COST: Number = Number {
    name: "cost",
    min: 0,
    max: COST_MAX,
    fix: "give an integer from 0 to 1099511627776, or leave it out for 1",
};
const TEXT_FIX: &str = "give a string of 1 to 512 characters";
const UNKNOWN_FIX: &str = "the fields are namespace, identifier, limit, duration and cost";

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
    let fields = match element {
        Element::Object(fields) => fields,
        Element::Other(value) => {
            errors.push(at.to_owned(), wrong_type("an object", value), None);
            return None;
        }
    };
    let namespace = part(&fields.namespace, at, "namespace", errors);
    let identifier = part(&fields.identifier, at, "identifier", errors);
    let limit = number(&fields.limit, at, &LIMIT, errors);
    let window = number(&fields.duration, at, &DURATION, errors)
        .and_then(|ms| accept(Window::from_millis(ms), at, &DURATION, errors));
    let cost = match fields.cost.value {
        None => Some(Cost::ONE),
        Some(_) => number(&fields.cost, at, &COST, errors)
            .and_then(|cost| accept(Cost::new(cost), at, &COST, errors)),
    };
    let known = no_unknown(fields, at, errors);
    // Each part that is missing has left its error.
    let item = Item {
        namespace: namespace?,
        identifier: identifier?,
        limit: Limit::new(limit?),
        window: window?,
        cost: cost?,
    };
    known.then_some(item)
}

fn no_unknown(fields: &Fields<'_>, at: &str, errors: &mut Errors) -> bool {
    for name in &fields.unknown {
        let message = "is not a field of this request";
        errors.push(format!("{at}.{name}"), message, Some(UNKNOWN_FIX));
    }
    fields.unknown.is_empty()
}

fn part<'a>(field: &'a Field<'_>, at: &str, name: &str, errors: &mut Errors) -> Option<Part<'a>> {
    let refused = match one_value(field) {
        Ok(Value::Text(text)) => match Part::new(text) {
            Ok(part) => return Some(part),
            Err(error) => error.to_string().into(),
        },
        Ok(value) => wrong_type("a string", value),
        Err(message) => message.into(),
    };
    errors.push(format!("{at}.{name}"), refused, Some(TEXT_FIX));
    None
}

fn number(field: &Field<'_>, at: &str, number: &Number, errors: &mut Errors) -> Option<u64> {
    let refused = match one_value(field) {
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
    errors.push(format!("{at}.{}", number.name), refused, Some(number.fix));
    None
}

/// The ranges above lie within the limiter's; should they ever not, that is an error like any
/// other.
fn accept<T>(
    value: Result<T, RequestError>,
    at: &str,
    number: &Number,
    errors: &mut Errors,
) -> Option<T> {
    value
        .map_err(|error| {
            errors.push(format!("{at}.{}", number.name), error.to_string(), Some(number.fix));
        })
        .ok()
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
