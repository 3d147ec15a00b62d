//! Every status that is not an answer, and when it is sent.

/// One status.
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) when: &'static str,
    /// Whether `errors` lists what is wrong.
    pub(super) names_fields: bool,
    pub(super) media_types: &'static [&'static str],
    pub(super) headers: &'static [&'static str],
}

/// `Accept` chooses.
const NEGOTIATED: &[&str] = &["application/json", "application/problem+json"];

const BAD_REQUEST: Refusal = Refusal {
    status: 400,
    when: "The body does not fit the schema, or `Authorization` is missing or malformed. \
        `errors` names every field that is wrong; it is empty if the body is not JSON. What does \
        not fit the schema is always told as `application/json`.",
    names_fields: true,
    media_types: NEGOTIATED,
    headers: &[],
};
const UNAUTHORIZED: Refusal = Refusal {
    status: 401,
    when: "There is no such key: never, or no longer.",
    names_fields: false,
    media_types: NEGOTIATED,
    headers: &["WWW-Authenticate"],
};
const FORBIDDEN: Refusal = Refusal {
    status: 403,
    when: "The key lacks a permission, which `detail` names; the key or its workspace is \
        disabled; or there are as many namespaces or overrides as there may be.",
    names_fields: false,
    media_types: NEGOTIATED,
    headers: &[],
};
const NOT_FOUND: Refusal = Refusal {
    status: 404,
    when: "There is no such namespace, or no such override in it. For a limit only if the \
        namespace is given by an id: one that is given by its name is made.",
    names_fields: false,
    media_types: NEGOTIATED,
    headers: &[],
};
const TOO_LATE: Refusal = Refusal {
    status: 408,
    when: "The body did not arrive in time.",
    names_fields: true,
    media_types: NEGOTIATED,
    headers: &[],
};
const GONE: Refusal = Refusal {
    status: 410,
    when: "The namespace was deleted.",
    names_fields: false,
    media_types: NEGOTIATED,
    headers: &[],
};
const TOO_LARGE: Refusal = Refusal {
    status: 413,
    when: "The body is larger than 1 MiB.",
    names_fields: true,
    media_types: NEGOTIATED,
    headers: &[],
};
/// Always a problem document, whatever `Accept` says: published clients know it in no other form.
const TOO_MANY: Refusal = Refusal {
    status: 429,
    when: "The workspace made more requests than it may in a minute. This is never the verdict \
        on a limit.",
    names_fields: false,
    media_types: &["application/problem+json"],
    headers: &["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "Retry-After"],
};
const IN_PROGRESS: Refusal = Refusal {
    status: 409,
    when: "A call with the same `Idempotency-Key` is under way.",
    names_fields: false,
    media_types: NEGOTIATED,
    headers: &["Retry-After"],
};
const REUSED: Refusal = Refusal {
    status: 422,
    when: "The `Idempotency-Key` was used for another call.",
    names_fields: false,
    media_types: NEGOTIATED,
    headers: &[],
};
const FAILED: Refusal = Refusal {
    status: 500,
    when: "The store of the control plane did not answer. Making the change again does no harm.",
    names_fields: false,
    media_types: NEGOTIATED,
    headers: &[],
};

const BUSY: Refusal = Refusal {
    status: 503,
    when: "Too many large bodies are being read at this moment. Nothing was counted.",
    names_fields: false,
    media_types: NEGOTIATED,
    headers: &["Retry-After"],
};

/// What limits may be refused with. Stores never are a reason: what cannot be asked is decided
/// without.
pub(super) const CHECKS: &[&Refusal] = &[
    &BAD_REQUEST,
    &UNAUTHORIZED,
    &FORBIDDEN,
    &NOT_FOUND,
    &TOO_LATE,
    &IN_PROGRESS,
    &GONE,
    &TOO_LARGE,
    &REUSED,
    &TOO_MANY,
    &BUSY,
];

/// What looks may be refused with.
pub(super) const LOOKS: &[&Refusal] =
    &[&BAD_REQUEST, &UNAUTHORIZED, &FORBIDDEN, &NOT_FOUND, &TOO_LATE, &TOO_LARGE, &TOO_MANY, &BUSY];

/// What overrides may be refused with.
pub(super) const OVERRIDES: &[&Refusal] = &[
    &BAD_REQUEST,
    &UNAUTHORIZED,
    &FORBIDDEN,
    &NOT_FOUND,
    &TOO_LATE,
    &TOO_LARGE,
    &TOO_MANY,
    &FAILED,
    &BUSY,
];
