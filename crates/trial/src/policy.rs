//! A policy: the limits that are tried on a trace.
//!
//! ```
//! use tidegate_trial::{By, Policy};
//!
//! let policy = Policy::parse("candidate.toml", r#"
//!     name = "candidate"
//!
//!     [[limit]]
//!     name = "login"
//!     by = ["ip", "user"]
//!     limit = 5
//!     window = "1m"
//!     when = { method = "POST", path = "^/login" }
//!
//!     [[limit.override]]
//!     identifier = "203.0.113.*"
//!     limit = 1000
//! "#)?;
//! assert_eq!((policy.name.as_str(), policy.limits[0].window_ms), ("candidate", 60_000));
//!
//! let wrong = "[[limit]]\nname = 'a'\nby = 'ip'\nlimt = 5\nwindow = '5 minutes'\n";
//! let why = Policy::parse("p.toml", wrong).unwrap_err().to_string();
//! assert!(why.contains("p.toml:4:1: there is no key `limt`: did you mean `limit`?"), "{why}");
//! assert!(why.contains("p.toml:5:10: expected a number with a unit"), "{why}");
//!
//! assert_eq!(Policy::one(By::field("ip"), 100, 60_000)?.name, "per-ip");
//! # Ok::<(), tidegate_trial::PolicyError>(())
//! ```

mod file;
mod mistake;
mod pattern;
mod rules;
#[cfg(test)]
mod tests;

use regex::Regex;
use tidegate_limiter::{BATCH_MAX, LIMIT_MAX, PART_CHARS_MAX, WINDOW_MS_MAX, WINDOW_MS_MIN};

pub use mistake::PolicyError;
pub(crate) use mistake::{Mistake, nearest};
pub use pattern::{GLOBS_MAX, Override, Overrides, PIECES_MAX};
pub(crate) use rules::{Rules, Seen, Unseen};

/// Most limits of a policy: all of them are one batch.
pub const LIMITS_MAX: usize = BATCH_MAX;

/// Most fields that an identifier is made of.
const BY_MAX: usize = 8;

const _: () = assert!(LIMITS_MAX <= 128, "each has a bit in a verdict");

/// Limits that are decided as one: all have room, or nothing is spent. The [module](Policy::parse)
/// has an example.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How it is called in what comes of it.
    pub name: String,
    /// Its limits, 1 to [`LIMITS_MAX`].
    pub limits: Vec<Limit>,
}

/// One limit of a policy.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Its name: the namespace of its decisions.
    pub name: String,
    /// Who is limited.
    pub by: By,
    /// How much is allowed within the window.
    pub limit: u64,
    /// The length of the window.
    pub window_ms: u64,
    /// What a call costs.
    pub cost: Cost,
    /// It applies to calls of which these fields match, all of them.
    pub when: Vec<(String, Regex)>,
    /// Other numbers for some.
    pub overrides: Overrides,
}

/// Who is limited: the values of fields.
#[derive(Clone, Debug)]
pub struct By {
    /// The fields. The values of several are one identifier, with `|` between them.
    pub fields: Vec<String>,
    /// What of the value counts: the groups of this expression. Only with one field.
    pub capture: Option<Regex>,
}

/// What a call costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Always the same.
    Fixed(u64),
    /// What this field says; a call without a whole number there costs 1, with a warning.
    Field(String),
}

impl By {
    /// The value of one field.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self { fields: vec![name.to_owned()], capture: None }
    }

    /// Whether both make the same identifiers of requests.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let text = |by: &Self| by.capture.as_ref().map(ToString::to_string);
        self.fields == other.fields && text(self) == text(other)
    }

    /// In words.
    #[must_use]
    pub fn words(&self) -> String {
        let name = |field: &String| match field.strip_prefix("header.") {
            Some(header) => format!("header {header}"),
            None => field.clone(),
        };
        let fields: Vec<String> = self.fields.iter().map(name).collect();
        match &self.capture {
            Some(capture) => format!("by {} as {capture}", fields.join(" and ")),
            None => format!("by {}", fields.join(" and ")),
        }
    }
}

impl Policy {
    /// A policy of one limit, with its name. `Policy` has an example.
    ///
    /// # Errors
    /// If a file could not say it either: a window or a limit that there is not, no field, or
    /// fields whose names together are too long for the name of a limit.
    pub fn one(by: By, limit: u64, window_ms: u64) -> Result<Self, PolicyError> {
        let name = format!("per-{}", by.fields.join("-"));
        let wrong = |what: &str, why: String| PolicyError::plain(format!("{what}: {why}"));
        check_window(window_ms).map_err(PolicyError::plain)?;
        check_number(limit, LIMIT_MAX).map_err(|why| wrong("limit", why))?;
        let by_fits = check_by(&by.fields).and_then(|()| check_name(&name));
        by_fits.map_err(|why| wrong("by", why))?;
        let limit = Limit {
            name: name.clone(),
            by,
            limit,
            window_ms,
            cost: Cost::Fixed(1),
            when: Vec::new(),
            overrides: Overrides::default(),
        };
        Ok(Self { name, limits: vec![limit] })
    }

    /// Reads a file. `path` is for errors, and for a policy that says no name of its own.
    ///
    /// # Errors
    /// All that is wrong with it, with the places.
    pub fn parse(path: &str, text: &str) -> Result<Self, PolicyError> {
        file::read(path, text)
    }
}

/// A length of time as the rest of Tidegate takes it: a number with ms, s, m, h or d.
///
/// # Errors
/// If it is not.
pub fn duration_ms(text: &str) -> Result<u64, String> {
    let wrong = || "expected a number with a unit, such as 500ms, 60s, 5m, 1h or 30d".to_owned();
    let digits_end = text.find(|char: char| !char.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits_end);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(unit_ms).ok_or_else(wrong)
}

/// Whether there is such a window.
pub(crate) fn check_window(window_ms: u64) -> Result<u64, String> {
    match window_ms {
        ..WINDOW_MS_MIN => Err("a window has at least 1s".to_owned()),
        WINDOW_MS_MIN..=WINDOW_MS_MAX => Ok(window_ms),
        _ => Err("a window has at most 31d".to_owned()),
    }
}

/// Whether a number is one that a server takes.
fn check_number(number: u64, max: u64) -> Result<u64, String> {
    let fits = number <= max;
    fits.then_some(number).ok_or_else(|| format!("expected a whole number from 0 to {max}"))
}

/// Whether these fields can say who is limited.
fn check_by(fields: &[String]) -> Result<(), String> {
    let fits = (1..=BY_MAX).contains(&fields.len()) && !fields.iter().any(String::is_empty);
    fits.then_some(()).ok_or_else(|| format!("expected the names of 1 to {BY_MAX} fields"))
}

/// Whether a limit can have this name: it is the namespace of its decisions.
fn check_name(name: &str) -> Result<(), String> {
    let fits = (1..=PART_CHARS_MAX).contains(&name.chars().count());
    fits.then_some(()).ok_or_else(|| format!("a name has 1 to {PART_CHARS_MAX} characters"))
}
