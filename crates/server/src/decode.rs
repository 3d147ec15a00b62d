//! From the bytes of a body to what it asks.
//!
//! Two steps. *Reading* keeps what stands in each field, whatever it is, and refuses only bytes
//! that are not JSON. *Parsing* then judges all fields at once, so that a caller hears of every
//! mistake in one reply, and gives values that are in range by their types.
//!
//! Refused: unknown and repeated fields, values of another type, numbers with a fraction or an
//! exponent, everything out of range. Nothing is repaired and nothing is guessed.
//!
//! ```
//! use tidegate_server::decode::LimitBody;
//!
//! let body = br#"{"namespace":"email","identifier":"user-1","limit":10,"duration":60000}"#;
//! let body = LimitBody::read(body)?;
//! let item = body.parse().expect("every field is in range");
//! assert_eq!(item.limit.get(), 10);
//! assert_eq!(item.cost.get(), 1, "the default");
//!
//! let body = LimitBody::read(br#"{"namespace":"","limit":1.5,"duration":60000}"#)?;
//! let errors = body.parse().expect_err("three fields are wrong");
//! let locations: Vec<&str> = errors.iter().map(|error| error.location.as_str()).collect();
//! assert_eq!(locations, ["body.namespace", "body.identifier", "body.limit"]);
//! assert!(errors.len() <= tidegate_server::decode::ERRORS_MAX);
//! # Ok::<(), tidegate_server::decode::Undecodable>(())
//! ```

use std::borrow::Cow;

use serde::Serialize;
use thiserror::Error;
use tidegate_limiter::{BATCH_MAX, Cost, Limit, Part, Request, Subject, Window};

#[cfg(test)]
mod differ;
mod json;
mod parse;
mod plain;
#[cfg(test)]
mod tests;

use json::{Array, Element};
use parse::Errors;
pub(crate) use parse::{COST, DURATION, LIMIT, Number, OVERRIDE_LIMIT, PAGE, PAGE_DEFAULT};

/// Most field errors in one reply. A body of 1 MiB can hold a hundred thousand mistakes, and nobody
/// reads more than a few. The [module](self) has an example.
pub const ERRORS_MAX: usize = 100;

const _: () = assert!(ERRORS_MAX >= BATCH_MAX, "one mistake in each item of a batch is reported");

/// The body is not JSON: no field can be named.
///
/// ```
/// use tidegate_server::decode::{LimitBody, Undecodable};
///
/// assert_eq!(LimitBody::read(b"limit=10"), Err(Undecodable));
/// assert!(LimitBody::read(b"[]").is_ok(), "this is JSON; parsing it says what is wrong");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the body is not valid JSON")]
pub struct Undecodable;

/// What is wrong with one field. The [module](self) has an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// Where: `body.limit`, `body[3].cost` or `header.Authorization`.
    pub location: String,
    /// What is wrong.
    pub message: Cow<'static, str>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<&'static str>,
}

/// One check as the body asks for it: a request that does not yet say in which workspace.
///
/// ```
/// use tidegate_limiter::Part;
/// use tidegate_server::decode::LimitBody;
///
/// let body = br#"{"namespace":"a","identifier":"user-1","limit":10,"duration":60000,"cost":0}"#;
/// let body = LimitBody::read(body)?;
/// let item = body.parse().expect("every field is in range");
/// let request = item.request(Part::new("acme")?);
/// assert_eq!((request.limit().get(), request.cost().get()), (10, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// What is limited.
    pub namespace: Part<'a>,
    /// Who is limited.
    pub identifier: Part<'a>,
    /// How much a window may hold; at least 1.
    pub limit: Limit,
    /// How long the window is; at most 30 days.
    pub window: Window,
    /// How much is consumed.
    pub cost: Cost,
}

impl<'a> Item<'a> {
    /// The request, made in `workspace`. The [type](Self) has an example.
    #[must_use]
    pub const fn request(&self, workspace: Part<'a>) -> Request<'a> {
        let subject = Subject::new(workspace, self.namespace, self.identifier, self.window);
        Request::new(subject, self.limit, self.cost)
    }
}

/// What an override is for. [`ControlBody`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Where: a name or an id.
    pub namespace: Part<'a>,
    /// Who, or a pattern.
    pub identifier: Part<'a>,
}

/// What an override says. [`ControlBody`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'a> {
    /// Of whom.
    pub target: Target<'a>,
    /// How much a window may hold; 0 blocks.
    pub limit: Limit,
    /// How long the window is.
    pub window: Window,
}

/// Which overrides are listed. [`ControlBody`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing<'a> {
    /// Of which namespace: a name or an id.
    pub namespace: Part<'a>,
    /// How many.
    pub limit: Option<u64>,
    /// From where on.
    pub cursor: Option<&'a str>,
}

/// The body of an operation on overrides, or of one that looks into counts: one object.
///
/// ```
/// use tidegate_server::decode::ControlBody;
///
/// let body = br#"{"namespace":"email","identifier":"vip-*","limit":0,"duration":60000}"#;
/// let body = ControlBody::read(body)?;
/// let setting = body.setting().expect("every field is in range");
/// assert_eq!((setting.target.identifier.as_str(), setting.limit.get()), ("vip-*", 0));
/// assert!(body.subject().is_err() && body.target().is_err(), "they know no limit");
///
/// let body = ControlBody::read(br#"{"namespace":"email","limit":20}"#)?;
/// assert_eq!(body.listing().expect("a page of twenty").limit, Some(20));
/// # Ok::<(), tidegate_server::decode::Undecodable>(())
/// ```
#[derive(Debug, PartialEq)]
pub struct ControlBody<'a>(Element<'a>);

impl<'a> ControlBody<'a> {
    /// Reads the body. The [type](Self) has an example.
    ///
    /// # Errors
    /// [`Undecodable`] if it is not JSON.
    pub fn read(body: &'a [u8]) -> Result<Self, Undecodable> {
        json::element(body).map(Self)
    }

    /// A namespace and an identifier. The [type](Self) has an example.
    ///
    /// # Errors
    /// What is wrong with the fields.
    pub fn target(&self) -> Result<Target<'_>, Vec<FieldError>> {
        judged(|errors| parse::target(&self.0, errors))
    }

    /// The same with a limit and a duration. The [type](Self) has an example.
    ///
    /// # Errors
    /// What is wrong with the fields.
    pub fn setting(&self) -> Result<Setting<'_>, Vec<FieldError>> {
        judged(|errors| parse::setting(&self.0, errors))
    }

    /// A namespace, and where to begin. The [type](Self) has an example.
    ///
    /// # Errors
    /// What is wrong with the fields.
    pub fn listing(&self) -> Result<Listing<'_>, Vec<FieldError>> {
        judged(|errors| parse::listing(&self.0, errors))
    }

    /// A namespace, an identifier and a duration. The [type](Self) has an example.
    ///
    /// # Errors
    /// What is wrong with the fields.
    pub fn subject(&self) -> Result<(Target<'_>, Window), Vec<FieldError>> {
        judged(|errors| parse::subject(&self.0, errors))
    }
}

fn judged<T>(parse: impl FnOnce(&mut Errors) -> Option<T>) -> Result<T, Vec<FieldError>> {
    let mut errors = Errors::default();
    parse(&mut errors).ok_or_else(|| errors.into_list())
}

/// The body of `ratelimit.limit`: one object. The [module](self) has an example.
#[derive(Debug, PartialEq)]
pub struct LimitBody<'a>(Body<Item<'a>, Element<'a>>);

/// A body as it was read.
#[derive(Debug, PartialEq)]
enum Body<P, R> {
    /// What most callers send: nothing is to be judged any more.
    Plain(P),
    /// Anything.
    Read(R),
}

impl<'a> LimitBody<'a> {
    /// Reads the body. The [module](self) has an example.
    ///
    /// # Errors
    /// [`Undecodable`] if it is not JSON.
    pub fn read(body: &'a [u8]) -> Result<Self, Undecodable> {
        match plain::item(body) {
            Some(item) => Ok(Self(Body::Plain(item))),
            None => json::element(body).map(|read| Self(Body::Read(read))),
        }
    }

    /// Judges the fields. The [module](self) has an example.
    ///
    /// # Errors
    /// What is wrong with them: at least one error, at most [`ERRORS_MAX`].
    pub fn parse(&self) -> Result<Item<'_>, Vec<FieldError>> {
        match &self.0 {
            Body::Plain(item) => Ok(*item),
            Body::Read(read) => judged(|errors| parse::item(read, "body", errors)),
        }
    }
}

/// The body of `ratelimit.multiLimit`: an array of 1 to 100 objects.
///
/// ```
/// use tidegate_server::decode::MultiLimitBody;
///
/// let body = br#"[{"namespace":"sms","identifier":"user-1","limit":5,"duration":60000},
///                 {"namespace":"sms","identifier":"team-7","limit":0,"duration":60000}]"#;
/// let body = MultiLimitBody::read(body)?;
/// let errors = body.parse().expect_err("a limit of 0 can only be set for others");
/// assert_eq!(errors[0].location, "body[1].limit");
/// # Ok::<(), tidegate_server::decode::Undecodable>(())
/// ```
#[derive(Debug, PartialEq)]
pub struct MultiLimitBody<'a>(Body<Vec<Item<'a>>, Array<'a>>);

impl<'a> MultiLimitBody<'a> {
    /// Reads the body. The [type](Self) has an example.
    ///
    /// # Errors
    /// [`Undecodable`] if it is not JSON.
    pub fn read(body: &'a [u8]) -> Result<Self, Undecodable> {
        match plain::items(body) {
            Some(items) => Ok(Self(Body::Plain(items))),
            None => json::array(body).map(|read| Self(Body::Read(read))),
        }
    }

    /// Judges the fields of all items. The [type](Self) has an example.
    ///
    /// # Errors
    /// What is wrong with them: at least one error, at most [`ERRORS_MAX`].
    pub fn parse(&self) -> Result<Vec<Item<'_>>, Vec<FieldError>> {
        match &self.0 {
            Body::Plain(items) => Ok(items.clone()),
            Body::Read(read) => judged(|errors| parse::items(read, errors)),
        }
    }
}
