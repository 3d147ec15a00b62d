//! What the caller gets back. A denial is an answer, not an error.

use crate::request::Consistency;
use crate::window::{View, earliest_fit_ms};

/// Why a request was denied. The [crate](crate) begins with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// The cost does not fit under the limit.
    Limit,
    /// It would fit, but batches in flight have reserved the room: it may fit in an instant.
    Reserved,
    /// The memory budget is exhausted and this workspace holds its share of it: new subjects of
    /// the workspace are denied until others expire.
    Memory,
    /// It would be admitted, but the region should have been asked first and could not be, and the
    /// request wants to be denied then: see [`Outage::Deny`](crate::Outage::Deny).
    Outage,
}

/// Which view an answer was decided on. The [crate](crate) begins with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// What this process knew.
    Local,
    /// What the region answered to this very request.
    Region,
}

/// The verdict on one request, and what the caller needs to act on it.
///
/// Everything is a function of what the cells held, the request and the reading of the clock. The
/// [crate](crate) begins with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub(crate) denied: Option<(Denial, Retry)>,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset_ms: u64,
    pub(crate) source: Source,
    pub(crate) age_ms: u64,
    pub(crate) degraded: bool,
    pub(crate) consistency: Consistency,
}

/// What [`Answer::retry_after_ms`] is computed from: only for those who ask, and an admission has
/// none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// That many milliseconds.
    After(u64),
    /// When the cost fits.
    Fits {
        view: View,
        window: crate::Window,
        /// With what earlier items of the batch take from the same subject.
        cost: u64,
        now_ms: u64,
    },
}

impl Answer {
    /// Whether the request itself fits. In a batch that was denied because of another item this may
    /// be true although nothing was spent. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn admitted(&self) -> bool {
        self.denied.is_none()
    }

    /// Why the request was denied. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn denial(&self) -> Option<Denial> {
        match self.denied {
            Some((denial, _)) => Some(denial),
            None => None,
        }
    }

    /// The limit that was enforced. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// What is left after this request; 0 for a denial. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The end of the cell that the request was decided in, in milliseconds since the Unix epoch.
    /// The budget is not whole then: see [`retry_after_ms`](Self::retry_after_ms). Of one that
    /// waited for the region until its cell had ended, it has passed. The [crate](crate) begins
    /// with an example.
    #[must_use]
    pub const fn reset_unix_ms(&self) -> u64 {
        self.reset_ms
    }

    /// Which view the request was decided on. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// How old that view of the region was, at most; 0 for a process on its own. The [crate](crate)
    /// begins with an example.
    #[must_use]
    pub const fn age_ms(&self) -> u64 {
        self.age_ms
    }

    /// Whether the region should have been asked and did not answer, or could not be asked as the
    /// request wanted. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn degraded(&self) -> bool {
        self.degraded
    }

    /// What the verdict is worth: what the request wanted, unless it is
    /// [`degraded`](Self::degraded). The [crate](crate) begins with an example.
    #[must_use]
    pub const fn consistency(&self) -> Consistency {
        self.consistency
    }

    /// The region did not answer, or not as it should.
    pub(crate) const fn into_degraded(self) -> Self {
        Self { degraded: true, consistency: Consistency::Fast, ..self }
    }

    /// The same of what would have been admitted, and is denied for it. The region is not tried
    /// again for so long.
    pub(crate) const fn into_outage(self, wait_ms: u64) -> Self {
        let denied = Some((Denial::Outage, Retry::After(wait_ms)));
        Self { denied, remaining: 0, ..self.into_degraded() }
    }

    /// The exact time after which this cost fits if nothing else happens: 0 for an admission,
    /// `None` if it never fits. Of a [denial by an outage](Denial::Outage) it is when the region is
    /// asked again at the earliest, which may be in vain. In a batch, the items before it that
    /// concern the same subject come with it; the batch fits when the last of its items does. The
    /// [crate](crate) begins with an example.
    #[must_use]
    pub fn retry_after_ms(&self) -> Option<u64> {
        match self.denied {
            None => Some(0),
            Some((_, Retry::After(ms))) => Some(ms),
            Some((_, Retry::Fits { view, window, cost, now_ms })) => {
                let fit_ms = earliest_fit_ms(view, window, cost, crate::Limit::new(self.limit))?;
                let start_ms = self.reset_ms.saturating_sub(window.as_millis());
                Some(start_ms.saturating_add(fit_ms).saturating_sub(now_ms))
            }
        }
    }
}

/// The verdict on a batch and on each of its items, in the order given. The [crate](crate) begins
/// with an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchAnswer {
    pub(crate) admitted: bool,
    pub(crate) items: Vec<Answer>,
}

impl BatchAnswer {
    /// Whether every item was admitted. If not, nothing was spent. The [crate](crate) begins with
    /// an example.
    #[must_use]
    pub const fn admitted(&self) -> bool {
        self.admitted
    }

    /// The items' answers, in the order of the requests. The [crate](crate) begins with an example.
    #[must_use]
    pub fn items(&self) -> &[Answer] {
        &self.items
    }
}
