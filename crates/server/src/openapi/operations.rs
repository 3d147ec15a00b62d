//! The table of what there is.

use super::refusals::{CHECKS, LOOKS, OVERRIDES, Refusal};

/// One operation: a `POST` with a body and a key.
pub(super) struct Operation {
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    /// The schema of the body.
    pub(super) request: &'static str,
    /// The schema of an answer, and what it says.
    pub(super) reply: &'static str,
    pub(super) answer: &'static str,
    /// Whether it may have an `Idempotency-Key`.
    pub(super) once: bool,
    /// Every other status.
    pub(super) refusals: &'static [&'static Refusal],
}

/// Something that is read without a key.
pub(super) struct Probe {
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) statuses: &'static [Told],
}

/// One status of it.
pub(super) struct Told {
    pub(super) status: u16,
    pub(super) when: &'static str,
    /// The word that the reply has for it; without one, the reply is any object.
    pub(super) word: Option<&'static str>,
}

pub(super) const OPERATIONS: [Operation; 8] = [
    Operation {
        path: "/v2/ratelimit.limit",
        id: "ratelimit.limit",
        tag: "ratelimit",
        summary: "Spend from one limit",
        description: "Admits if what the window holds and the cost together do not exceed the \
            limit. A namespace that does not exist is created. Needs `ratelimit.*.limit` or \
            `ratelimit.<namespace id>.limit`, and `ratelimit.*.create_namespace` to create one.",
        request: "LimitRequest",
        reply: "LimitReply",
        answer: "Admitted or denied: see `success`.",
        once: true,
        refusals: CHECKS,
    },
    Operation {
        path: "/v2/ratelimit.multiLimit",
        id: "ratelimit.multiLimit",
        tag: "ratelimit",
        summary: "Spend from several limits, all or nothing",
        description: "Either every item is spent or none is. Each item says whether it fits by \
            itself, after the items before it. Needs the same rights as `ratelimit.limit`, for \
            every namespace of the batch.",
        request: "MultiLimitRequest",
        reply: "MultiLimitReply",
        answer: "Spent or not: see `passed`.",
        once: true,
        refusals: CHECKS,
    },
    Operation {
        path: "/v2/ratelimit.setOverride",
        id: "ratelimit.setOverride",
        tag: "overrides",
        summary: "Set another limit for some identifiers",
        description: "From then on the override's limit and window stand in place of those that \
            requests name. Repeating it changes them and keeps the id. A limit of 0 blocks. \
            Needs `ratelimit.*.set_override` or `ratelimit.<namespace id>.set_override`.",
        request: "SetOverrideRequest",
        reply: "SetOverrideReply",
        answer: "It is set.",
        once: false,
        refusals: OVERRIDES,
    },
    Operation {
        path: "/v2/ratelimit.getOverride",
        id: "ratelimit.getOverride",
        tag: "overrides",
        summary: "See which override applies to an identifier",
        description: "The exact one, else the wildcard that would be applied: the longest \
            literal prefix, then the longest pattern, then the oldest. Without the right to read \
            (`ratelimit.*.read_override` or `ratelimit.<namespace id>.read_override`) it is as if \
            there were none.",
        request: "GetOverrideRequest",
        reply: "GetOverrideReply",
        answer: "The override.",
        once: false,
        refusals: OVERRIDES,
    },
    Operation {
        path: "/v2/ratelimit.listOverrides",
        id: "ratelimit.listOverrides",
        tag: "overrides",
        summary: "List the overrides of a namespace",
        description: "In pages, by id. Needs `ratelimit.*.read_override` or \
            `ratelimit.<namespace id>.read_override`.",
        request: "ListOverridesRequest",
        reply: "ListOverridesReply",
        answer: "A page of overrides.",
        once: false,
        refusals: OVERRIDES,
    },
    Operation {
        path: "/v2/ratelimit.deleteOverride",
        id: "ratelimit.deleteOverride",
        tag: "overrides",
        summary: "Delete an override",
        description: "Named by the exact text that it was set with. Needs \
            `ratelimit.*.delete_override` or `ratelimit.<namespace id>.delete_override`.",
        request: "DeleteOverrideRequest",
        reply: "DeleteOverrideReply",
        answer: "It is gone.",
        once: false,
        refusals: OVERRIDES,
    },
    Operation {
        path: "/v2/tidegate.explain",
        id: "tidegate.explain",
        tag: "look",
        summary: "Say how a request would be decided now",
        description: "Term by term, with the override that applies. Counts nothing. Needs \
            `ratelimit.*.look` or `ratelimit.<namespace id>.look`.",
        request: "LimitRequest",
        reply: "ExplainReply",
        answer: "The terms, and the answer there would be.",
        once: false,
        refusals: LOOKS,
    },
    Operation {
        path: "/v2/tidegate.inspect",
        id: "tidegate.inspect",
        tag: "look",
        summary: "Say what is known of a subject",
        description: "By this process, by its region and by each region. Counts nothing. Needs \
            `ratelimit.*.look` or `ratelimit.<namespace id>.look`.",
        request: "InspectRequest",
        reply: "InspectReply",
        answer: "What is known.",
        once: false,
        refusals: LOOKS,
    },
];

pub(super) const HEALTH: [Probe; 3] = [
    Probe {
        path: "/livez",
        id: "livez",
        summary: "Whether the process runs",
        statuses: &[Told { status: 200, when: "It does.", word: Some("live") }],
    },
    Probe {
        path: "/readyz",
        id: "readyz",
        summary: "Whether to send requests here",
        statuses: &[
            Told {
                status: 200,
                when: "Yes. Stores that are away do not change that.",
                word: Some("ready"),
            },
            Told { status: 503, when: "No: the process was asked to end.", word: Some("retiring") },
        ],
    },
    Probe {
        path: "/openapi.json",
        id: "openapi",
        summary: "This document",
        statuses: &[Told { status: 200, when: "This document.", word: None }],
    },
];
