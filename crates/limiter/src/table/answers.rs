//! Answers, of what a decision saw.

use crate::answer::{Answer, Denial, Retry, Source};
use crate::ledger::{Look, Refusal};
use crate::request::Request;
use crate::time::Now;

impl Answer {
    #[inline(always)]
    pub(crate) fn admit(request: &Request<'_>, look: &Look, now: Now) -> Self {
        let effective = look.used.saturating_add(request.cost.get());
        let remaining = request.limit.get().saturating_sub(effective);
        let cost = request.cost.get();
        Self { remaining, ..Self::of(request, look, (None, cost), now) }
    }

    #[inline(always)]
    pub(crate) fn deny(request: &Request<'_>, seen: &Refusal, denial: Denial, now: Now) -> Self {
        let cost = request.cost.get().saturating_add(seen.earlier);
        Self::of(request, &seen.look, (Some(denial), cost), now)
    }

    #[inline(always)]
    pub(crate) fn of(
        request: &Request<'_>,
        look: &Look,
        (denial, cost): (Option<Denial>, u64),
        now: Now,
    ) -> Self {
        let (window, start_ms) = (request.subject.window, look.place.start_ms);
        Self {
            denial,
            limit: request.limit.get(),
            remaining: 0,
            reset_ms: start_ms.saturating_add(window.as_millis()),
            source: Source::Local,
            age_ms: 0,
            degraded: false,
            consistency: request.consistency,
            retry: Retry { view: look.view, window, cost, start_ms, now_ms: now.unix_ms() },
        }
    }

    /// An admission of which nothing is left in memory.
    pub(crate) fn forgotten(request: &Request<'_>, now: Now) -> Self {
        let remaining = request.limit.get().saturating_sub(request.cost.get());
        Self { denial: None, remaining, ..Self::refuse(request, now) }
    }

    pub(crate) fn refuse(request: &Request<'_>, now: Now) -> Self {
        let window_ms = request.subject.window.as_millis();
        let start_ms = now.unix_ms() / window_ms * window_ms;
        Self {
            denial: Some(Denial::Memory),
            limit: request.limit.get(),
            remaining: 0,
            reset_ms: start_ms.saturating_add(window_ms),
            source: Source::Local,
            age_ms: 0,
            degraded: false,
            consistency: request.consistency,
            retry: Retry::never_seen(request, start_ms, now.unix_ms()),
        }
    }
}
