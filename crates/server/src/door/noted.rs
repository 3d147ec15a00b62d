//! What the door notes of requests, for whoever watches.
//!
//! Promises: to note takes no lock and no memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::StatusCode;

use crate::metrics::{Histogram, REQUEST_BOUNDS, Workspaces};

/// Every status that a request without an answer has. The last is for those that are none of them.
const STATUSES: [(u16, &str); 12] = [
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (408, "408"),
    (410, "410"),
    (413, "413"),
    (429, "429"),
    (500, "500"),
    (503, "503"),
    (0, "other"),
];

/// What kind of call a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// One limit.
    Limit,
    /// Several as one.
    MultiLimit,
    /// Everything else.
    Other,
}

impl Class {
    /// All of them, as they are called.
    pub(crate) const ALL: [(Self, &str); 3] =
        [(Self::Limit, "limit"), (Self::MultiLimit, "multi_limit"), (Self::Other, "other")];

    pub(super) fn of(path: &str) -> Self {
        match path {
            "/v2/ratelimit.limit" => Self::Limit,
            "/v2/ratelimit.multiLimit" => Self::MultiLimit,
            _ => Self::Other,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Noted {
    refused: [AtomicU64; STATUSES.len()],
    limit: Histogram,
    multi_limit: Histogram,
    other: Histogram,
    pub(super) workspaces: Option<Workspaces>,
}

impl Noted {
    pub(crate) fn new() -> Self {
        Self {
            refused: Default::default(),
            limit: Histogram::striped(REQUEST_BOUNDS),
            multi_limit: Histogram::striped(REQUEST_BOUNDS),
            other: Histogram::striped(REQUEST_BOUNDS),
            workspaces: None,
        }
    }

    /// A request was refused with this status.
    pub(super) fn refuse(&self, status: StatusCode) {
        let is = |(code, _): &(u16, _)| *code == status.as_u16();
        let at = STATUSES.iter().position(is).unwrap_or(STATUSES.len() - 1);
        if let Some(count) = self.refused.get(at) {
            // ORDER: relaxed, here and where it is read. A count that nothing else follows from.
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many were refused, by status.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.refused.iter().map(|count| count.load(Ordering::Relaxed));
        STATUSES.iter().map(|(_, status)| *status).zip(counts)
    }

    /// A request took that long, from its head to its reply.
    pub(super) fn took(&self, class: Class, time: Duration) {
        self.of(class).note(time);
    }

    /// How long requests took.
    pub(crate) const fn of(&self, class: Class) -> &Histogram {
        match class {
            Class::Limit => &self.limit,
            Class::MultiLimit => &self.multi_limit,
            Class::Other => &self.other,
        }
    }

    /// What was decided for single workspaces, if anybody wants to know.
    pub(crate) const fn workspaces(&self) -> Option<&Workspaces> {
        self.workspaces.as_ref()
    }

    /// Items were decided for a workspace; of those of a batch that was denied, only those count
    /// that did not fit.
    pub(super) fn decided(&self, workspace: &str, passed: bool, items: impl Iterator<Item = bool>) {
        let Some(workspaces) = &self.workspaces else { return };
        for admitted in items.filter(|admitted| passed || !admitted) {
            workspaces.note(workspace, admitted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::route::Operation;

    #[test]
    fn classes_are_those_of_the_paths() {
        assert_eq!(Class::of(Operation::Limit.path()), Class::Limit);
        assert_eq!(Class::of(Operation::MultiLimit.path()), Class::MultiLimit);
        assert_eq!(Class::of(Operation::Explain.path()), Class::Other);
    }

    #[test]
    fn a_status_of_which_nobody_thought_is_another() {
        let noted = Noted::new();
        noted.refuse(StatusCode::UNAUTHORIZED);
        noted.refuse(StatusCode::IM_A_TEAPOT);
        let all: Vec<_> = noted.refused().filter(|(_, count)| *count > 0).collect();
        assert_eq!(all, [("401", 1), ("other", 1)]);
    }
}
