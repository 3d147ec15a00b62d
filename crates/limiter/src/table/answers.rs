//! Answers, of what a decision saw.

use crate::answer::{Answer, Denial, Retry, Source};
use crate::ledger::{Look, Refusal};
use crate::request::Request;
use crate::time::Now;

/// A reservation ends in an instant.
const RESERVED_MS: u64 = 1;

impl Answer {
    #[inline(always)]
    pub(crate) fn admit(request: &Request<'_>, look: &Look) -> Self {
        let effective = look.used.saturating_add(request.cost.get());
        let remaining = request.limit.get().saturating_sub(effective);
        Self::of(request, reset_ms(request, look.place.start_ms), remaining)
    }

    #[inline(always)]
    pub(crate) fn deny(request: &Request<'_>, seen: &Refusal, denial: Denial, now: Now) -> Self {
        let Refusal { look, earlier, .. } = seen;
        let (start_ms, now_ms) = (look.place.start_ms, now.unix_ms());
        let cost = request.cost.get().saturating_add(*earlier);
        let retry = match denial {
            Denial::Reserved => Retry::After(RESERVED_MS),
            _ => Retry::Fits { view: look.view, window: request.subject.window, cost, now_ms },
        };
        Self { denied: Some((denial, retry)), ..Self::of(request, reset_ms(request, start_ms), 0) }
    }

    /// An admission after which so much is left.
    #[inline(always)]
    pub(crate) fn of(request: &Request<'_>, reset_ms: u64, remaining: u64) -> Self {
        Self {
            denied: None,
            limit: request.limit.get(),
            remaining,
            reset_ms,
            source: Source::Local,
            age_ms: 0,
            degraded: false,
            consistency: request.consistency,
        }
    }

    /// An admission of which nothing is left in memory.
    pub(crate) fn forgotten(request: &Request<'_>, now: Now) -> Self {
        let remaining = request.limit.get().saturating_sub(request.cost.get());
        Self::of(request, reset_ms(request, start_ms(request, now)), remaining)
    }

    /// There is no memory. When another subject expires is not known: the end of this cell is a
    /// moment at which one may have.
    pub(crate) fn refuse(request: &Request<'_>, now: Now) -> Self {
        let answer = Self::of(request, reset_ms(request, start_ms(request, now)), 0);
        let retry = Retry::After(answer.reset_ms.saturating_sub(now.unix_ms()));
        Self { denied: Some((Denial::Memory, retry)), ..answer }
    }
}

/// When the window that began then ends.
#[inline]
const fn reset_ms(request: &Request<'_>, start_ms: u64) -> u64 {
    start_ms.saturating_add(request.subject.window.as_millis())
}

/// When the window of `now` began, by the clock alone.
fn start_ms(request: &Request<'_>, now: Now) -> u64 {
    let window_ms = request.subject.window.as_millis();
    now.unix_ms() / window_ms * window_ms
}
