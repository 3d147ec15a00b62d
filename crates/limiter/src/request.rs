//! What a caller may ask. Values are parsed once, here; nothing behind this file has to check
//! them again: an empty name, a negative cost or a window of a microsecond cannot be held.

use thiserror::Error;

/// Most characters in a workspace, namespace or identifier: what the HTTP contract allows. The
/// [crate](crate) begins with an example.
pub const PART_CHARS_MAX: usize = 512;
/// Most bytes in one: four for each character, so that a byte budget can be computed. The
/// [crate](crate) begins with an example.
pub const PART_BYTES_MAX: usize = 2_048;
/// Largest cost of one request. Far below the counts a store can hold exactly (2^53), so that no
/// sum of a cell can lose a unit. The [crate](crate) begins with an example.
pub const COST_MAX: u64 = 1 << 40;
/// Largest limit that is kept; a larger one is clamped, because it cannot be reached. The
/// [crate](crate) begins with an example.
pub const LIMIT_MAX: u64 = 1 << 50;
/// Shortest window: below a second neither clocks nor stores of a fleet agree well enough. The
/// [crate](crate) begins with an example.
pub const WINDOW_MS_MIN: u64 = 1_000;
/// Longest window, 31 days: one more than the HTTP contract's 30. The [crate](crate) begins with an
/// example.
pub const WINDOW_MS_MAX: u64 = 31 * 24 * 60 * 60 * 1_000;
/// Most requests in one batch. The [crate](crate) begins with an example.
pub const BATCH_MAX: usize = 100;

const _: () = assert!(PART_BYTES_MAX == 4 * PART_CHARS_MAX);
const _: () = assert!(COST_MAX <= LIMIT_MAX);
const _: () = assert!(WINDOW_MS_MIN < WINDOW_MS_MAX);

/// Why a value is refused. The texts are for the caller; [`code`](Self::code) is for programs. The
/// [crate](crate) begins with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A workspace, namespace or identifier has no characters.
    #[error("must not be empty")]
    Empty,
    /// A workspace, namespace or identifier is too long.
    #[error("must have at most {PART_CHARS_MAX} characters")]
    TooLong,
    /// A cost above [`COST_MAX`].
    #[error("must be at most {COST_MAX}")]
    CostTooLarge,
    /// A window below [`WINDOW_MS_MIN`].
    #[error("must be at least {WINDOW_MS_MIN} ms")]
    WindowTooShort,
    /// A window above [`WINDOW_MS_MAX`].
    #[error("must be at most {WINDOW_MS_MAX} ms")]
    WindowTooLong,
    /// A batch without requests.
    #[error("must have at least 1 item")]
    BatchEmpty,
    /// A batch of more than [`BATCH_MAX`] requests.
    #[error("must have at most {BATCH_MAX} items")]
    BatchTooLarge,
}

impl RequestError {
    /// A stable name for programs. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong => "too_long",
            Self::CostTooLarge => "cost_too_large",
            Self::WindowTooShort => "window_too_short",
            Self::WindowTooLong => "window_too_long",
            Self::BatchEmpty => "batch_empty",
            Self::BatchTooLarge => "batch_too_large",
        }
    }
}

/// A workspace, namespace or identifier: 1 to 512 characters, any characters. The [crate](crate)
/// begins with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part<'a>(&'a str);

impl<'a> Part<'a> {
    ///  The [crate](crate) begins with an example.
    /// # Errors
    /// [`RequestError::Empty`] or [`RequestError::TooLong`].
    pub fn new(text: &'a str) -> Result<Self, RequestError> {
        if text.is_empty() {
            return Err(RequestError::Empty);
        }
        // Counting characters costs a walk; a text this short cannot have too many.
        if text.len() > PART_CHARS_MAX && text.chars().count() > PART_CHARS_MAX {
            return Err(RequestError::TooLong);
        }
        Ok(Self(text))
    }

    /// The text. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

/// How much a request consumes: 0 to 2^40. A cost of 0 asks "is there room" and changes nothing.
/// The [crate](crate) begins with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(u64);

impl Cost {
    /// The cost of an ordinary request. The [crate](crate) begins with an example.
    pub const ONE: Self = Self(1);

    ///  The [crate](crate) begins with an example.
    /// # Errors
    /// [`RequestError::CostTooLarge`].
    pub const fn new(cost: u64) -> Result<Self, RequestError> {
        if cost > COST_MAX { Err(RequestError::CostTooLarge) } else { Ok(Self(cost)) }
    }

    /// The number. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// How much a window may hold: 0 to 2^50, larger values are clamped. A limit of 0 denies
/// everything. The [crate](crate) begins with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit(u64);

impl Limit {
    /// Keeps `limit`, or [`LIMIT_MAX`] if that is smaller. The [crate](crate) begins with an
    /// example.
    #[must_use]
    pub const fn new(limit: u64) -> Self {
        Self(if limit > LIMIT_MAX { LIMIT_MAX } else { limit })
    }

    /// The number that is enforced. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The length of a window: 1 second to 31 days. The [crate](crate) begins with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window(u64);

impl Window {
    ///  The [crate](crate) begins with an example.
    /// # Errors
    /// [`RequestError::WindowTooShort`] or [`RequestError::WindowTooLong`].
    pub const fn from_millis(window_ms: u64) -> Result<Self, RequestError> {
        if window_ms < WINDOW_MS_MIN {
            Err(RequestError::WindowTooShort)
        } else if window_ms > WINDOW_MS_MAX {
            Err(RequestError::WindowTooLong)
        } else {
            Ok(Self(window_ms))
        }
    }

    /// Milliseconds. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }
}

/// What is being limited. Two subjects are the same if all four parts are. The [crate](crate)
/// begins with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subject<'a> {
    /// Workspace, namespace and identifier.
    pub(crate) parts: [Part<'a>; 3],
    pub(crate) window: Window,
}

impl<'a> Subject<'a> {
    /// A subject from parts that were parsed before. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn new(
        workspace: Part<'a>,
        namespace: Part<'a>,
        identifier: Part<'a>,
        window: Window,
    ) -> Self {
        Self { parts: [workspace, namespace, identifier], window }
    }

    /// The window. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.window
    }
}

/// What an admission in a region of several processes is worth. The [crate](crate) begins with an
/// example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Consistency {
    /// Decided on what this process knows. Processes tell each other what they admitted a moment
    /// later, so that a burst at several of them at once may admit more than the limit.
    #[default]
    Fast,
    /// Decided here only as far as a small share of the room goes; beyond that the region grants
    /// it first, in one round trip. A burst at all processes at once admits hardly more than the
    /// limit, for as long as the region answers in time; otherwise as [`Fast`](Self::Fast).
    Bounded,
}

impl Consistency {
    /// Its name: `fast` or `bounded`.
    ///
    /// ```
    /// # use tidegate_limiter::Consistency;
    /// assert_eq!(Consistency::default().as_str(), "fast");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Bounded => "bounded",
        }
    }
}

/// What becomes of a request for whose admission the region should be asked, and cannot be.
///
/// It matters to processes that share a regional store. A request that is decided without it, on a
/// fresh view or because its limit is used up, is not concerned.
/// [`Request::with_outage`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outage {
    /// It is decided on what this process knows, and the answer says that it is degraded: rather
    /// too much than nothing.
    #[default]
    Local,
    /// It is denied, as [`Denial::Outage`](crate::Denial::Outage): rather nothing than too much.
    Deny,
}

impl Outage {
    /// Its name: `local` or `deny`.
    ///
    /// ```
    /// # use tidegate_limiter::Outage;
    /// assert_eq!((Outage::default().as_str(), Outage::Deny.as_str()), ("local", "deny"));
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Deny => "deny",
        }
    }
}

/// One question: may this subject spend this cost under this limit?
///
/// ```
/// use tidegate_limiter::{Cost, Limit, Part, Request, Subject, Window};
///
/// let subject = Subject::new(
///     Part::new("acme")?,
///     Part::new("email")?,
///     Part::new("user-1")?,
///     Window::from_millis(60_000)?,
/// );
/// let request = Request::new(subject, Limit::new(10), Cost::ONE);
/// assert_eq!(request.limit().get(), 10);
/// # Ok::<(), tidegate_limiter::RequestError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub(crate) subject: Subject<'a>,
    pub(crate) limit: Limit,
    pub(crate) cost: Cost,
    pub(crate) consistency: Consistency,
    pub(crate) outage: Outage,
}

impl<'a> Request<'a> {
    /// A request from parts that were parsed before. It is [`Consistency::Fast`] and
    /// [`Outage::Local`]. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn new(subject: Subject<'a>, limit: Limit, cost: Cost) -> Self {
        Self { subject, limit, cost, consistency: Consistency::Fast, outage: Outage::Local }
    }

    /// The same with another consistency.
    ///
    /// ```
    /// # use tidegate_limiter::{Consistency, Cost, Limit, Part, Request, Subject, Window};
    /// # let window = Window::from_millis(60_000)?;
    /// # let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// let request = Request::new(subject, Limit::new(10), Cost::ONE);
    /// assert_eq!(request.consistency(), Consistency::Fast);
    /// let bounded = request.with_consistency(Consistency::Bounded);
    /// assert_eq!(bounded.consistency(), Consistency::Bounded);
    /// # Ok::<(), tidegate_limiter::RequestError>(())
    /// ```
    #[must_use]
    pub const fn with_consistency(self, consistency: Consistency) -> Self {
        Self { consistency, ..self }
    }

    /// What an admission shall be worth. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn consistency(&self) -> Consistency {
        self.consistency
    }

    /// The same, but something else becomes of it when the region cannot be asked.
    ///
    /// ```
    /// # use tidegate_limiter::{Cost, Limit, Outage, Part, Request, Subject, Window};
    /// # let window = Window::from_millis(60_000)?;
    /// # let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// let request = Request::new(subject, Limit::new(10), Cost::ONE);
    /// assert_eq!(request.outage(), Outage::Local);
    /// assert_eq!(request.with_outage(Outage::Deny).outage(), Outage::Deny);
    /// # Ok::<(), tidegate_limiter::RequestError>(())
    /// ```
    #[must_use]
    pub const fn with_outage(self, outage: Outage) -> Self {
        Self { outage, ..self }
    }

    /// What becomes of it when the region cannot be asked.
    /// [`with_outage`](Self::with_outage) has an example.
    #[must_use]
    pub const fn outage(&self) -> Outage {
        self.outage
    }

    /// What is being limited. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn subject(&self) -> &Subject<'a> {
        &self.subject
    }

    /// The limit that is enforced. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn limit(&self) -> Limit {
        self.limit
    }

    /// What the request consumes. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn cost(&self) -> Cost {
        self.cost
    }
}

/// 1 to 100 requests that are decided as one: all are admitted, or none is. The [crate](crate)
/// begins with an example.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a>(&'a [Request<'a>]);

impl<'a> Batch<'a> {
    ///  The [crate](crate) begins with an example.
    /// # Errors
    /// [`RequestError::BatchEmpty`] or [`RequestError::BatchTooLarge`].
    pub const fn new(requests: &'a [Request<'a>]) -> Result<Self, RequestError> {
        if requests.is_empty() {
            Err(RequestError::BatchEmpty)
        } else if requests.len() > BATCH_MAX {
            Err(RequestError::BatchTooLarge)
        } else {
            Ok(Self(requests))
        }
    }

    /// The requests, in the order given. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn requests(&self) -> &'a [Request<'a>] {
        self.0
    }
}
