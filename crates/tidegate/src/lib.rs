//! A rate limiter to embed. It decides in this process's memory: a check never waits, never
//! allocates once a subject is known, and never admits more than the limit.
//!
//! ```
//! use tidegate::{Cost, Limit, Limiter, Part, Request, Subject, Window};
//!
//! let limiter = Limiter::builder().build()?;
//!
//! // Ten e-mails a minute for each user.
//! let subject = Subject::new(
//!     Part::new("acme")?,   // workspace: whose limit it is
//!     Part::new("email")?,  // namespace: what is limited
//!     Part::new("user-1")?, // identifier: who is limited
//!     Window::from_millis(60_000)?,
//! );
//! let request = Request::new(subject, Limit::new(10), Cost::ONE);
//!
//! let answer = limiter.check(&request);
//! if answer.admitted() {
//!     assert_eq!(answer.remaining(), 9);
//! } else if let Some(ms) = answer.retry_after_ms() {
//!     println!("come back in {ms} ms");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Limiter`]: check one request, or several as one; give memory back.
//! - [`Clock`]: where time comes from; [`ManualClock`] is for your tests.
//! - [`Request`], [`Batch`], [`Answer`]: what is asked and what comes back. A denial is an
//!   answer, not an error.

mod clock;
mod limiter;

/// The example of the README, so that it is true.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub use clock::{Clock, ManualClock, SystemClock};
pub use limiter::{BuildError, Builder, Limiter};
pub use tidegate_limiter::{
    Answer, Batch, BatchAnswer, Cost, Counts, Denial, Limit, Now, Part, Request, RequestError,
    Subject, Window,
};
