//! The shapes of bodies. Numbers come from the decoder and the limiter.

mod looks;

use serde_json::{Map, Value, json};
use tidegate_limiter::{BATCH_MAX, LIMIT_MAX, PART_CHARS_MAX};

use super::{reference, with};
use crate::decode::{COST, DURATION, LIMIT, Number, OVERRIDE_LIMIT, PAGE, PAGE_DEFAULT};

/// One field of an object.
struct Field {
    name: &'static str,
    schema: Value,
    required: bool,
}

const fn required(name: &'static str, schema: Value) -> Field {
    Field { name, schema, required: true }
}

const fn optional(name: &'static str, schema: Value) -> Field {
    Field { name, schema, required: false }
}

/// An object that may have further fields one day.
fn open(fields: Vec<Field>) -> Value {
    let names: Vec<&str> = fields.iter().filter(|f| f.required).map(|f| f.name).collect();
    let required = json!(names);
    let properties: Map<String, Value> =
        fields.into_iter().map(|field| (field.name.to_owned(), field.schema)).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// An object with these fields and no other.
fn closed(fields: Vec<Field>) -> Value {
    with(open(fields), "additionalProperties", false)
}

/// A name, as a request has it.
fn text(description: &str, example: &str) -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": PART_CHARS_MAX,
        "description": description,
        "examples": [example],
    })
}

/// A number, as a request has it.
fn number(number: &Number, description: &str, example: u64) -> Value {
    json!({
        "type": "integer",
        "format": "int64",
        "minimum": number.min,
        "maximum": number.max,
        "description": description,
        "examples": [example],
    })
}

/// A number, as a reply has it.
fn count(description: &str) -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": 0, "description": description })
}

fn told(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

/// Every schema, by name.
pub(super) fn all() -> Value {
    json!({
        "LimitRequest": limit_request(),
        "MultiLimitRequest": multi_limit_request(),
        "SetOverrideRequest": set_override_request(),
        "GetOverrideRequest": named_override(
            "Who is asked for. Wildcards are tried as `ratelimit.limit` tries them.",
        ),
        "ListOverridesRequest": list_overrides_request(),
        "DeleteOverrideRequest": named_override("The text the override was set with."),
        "InspectRequest": inspect_request(),
        "LimitReply": success(limited()),
        "MultiLimitReply": success(multi_limited()),
        "SetOverrideReply": success(open(vec![required("overrideId", override_id())])),
        "GetOverrideReply": success(reference("Override")),
        "ListOverridesReply": list_overrides_reply(),
        "DeleteOverrideReply": success(open(vec![])),
        "ExplainReply": looks::explain_reply(),
        "InspectReply": looks::inspect_reply(),
        "Override": an_override(),
        "Meta": open(vec![
            required("requestId", told("The name of this reply, for whoever asks about it.")),
        ]),
        "Problem": failure(false),
        "FieldProblem": failure(true),
        "FieldError": field_error(),
    })
}

fn namespace() -> Field {
    required("namespace", text("What is limited: the name of a namespace, or its id.", "email"))
}

fn limit_request() -> Value {
    let cost = number(&COST, "What is consumed. 0 asks whether there is room.", 1);
    closed(vec![
        namespace(),
        required("identifier", text("Who is limited.", "user-1")),
        required(
            LIMIT.name(),
            number(&LIMIT, "How much a window may hold. Above 2^50 it is held there.", 10),
        ),
        required(DURATION.name(), number(&DURATION, "The window in milliseconds.", 60_000)),
        optional(COST.name(), with(cost, "default", 1)),
    ])
}

fn inspect_request() -> Value {
    closed(vec![
        namespace(),
        required("identifier", text("Who is limited.", "user-1")),
        required(DURATION.name(), number(&DURATION, "The window in milliseconds.", 60_000)),
    ])
}

fn multi_limit_request() -> Value {
    json!({
        "type": "array",
        "minItems": 1,
        "maxItems": BATCH_MAX,
        "items": reference("LimitRequest"),
    })
}

fn set_override_request() -> Value {
    closed(vec![
        namespace(),
        required(
            "identifier",
            text("For whom. `*` stands for any characters, also none, at any place.", "premium_*"),
        ),
        required(
            OVERRIDE_LIMIT.name(),
            number(&OVERRIDE_LIMIT, "The limit in place of the request's; 0 blocks.", 1_000),
        ),
        required(
            DURATION.name(),
            number(&DURATION, "The window in place of the request's.", 60_000),
        ),
    ])
}

fn named_override(identifier: &str) -> Value {
    closed(vec![namespace(), required("identifier", text(identifier, "premium_*"))])
}

fn list_overrides_request() -> Value {
    closed(vec![
        namespace(),
        optional("cursor", told("Where the page begins: `pagination.cursor` of the page before.")),
        optional(
            "limit",
            with(number(&PAGE, "Most overrides in the page.", 10), "default", PAGE_DEFAULT),
        ),
    ])
}

fn success(data: Value) -> Value {
    open(vec![required("meta", reference("Meta")), required("data", data)])
}

fn override_id() -> Value {
    told("The id of the override.")
}

fn enforced() -> Value {
    let limit = count("The limit that is enforced: the override's, else the request's.");
    with(limit, "maximum", LIMIT_MAX)
}

/// What each verdict says.
fn verdict(name: &'static str, meaning: &str) -> Vec<Field> {
    vec![
        required("limit", enforced()),
        required("remaining", count("How much is left after this request; 0 on a denial.")),
        required(
            "reset",
            count("When the window that it was decided in ends, in Unix milliseconds."),
        ),
        required(name, flag(meaning)),
        optional("overrideId", told("The override that was applied; absent if none was.")),
        optional(
            "retryAfterMs",
            count(
                "On denials: how long to wait until this cost fits, if nothing else happens; \
                 with the reason `outage`, until the regional store is asked again. Absent if it \
                 never fits.",
            ),
        ),
        optional(
            "reason",
            json!({
                "type": "string",
                "enum": ["memory", "outage", "reserved"],
                "description": "On denials that are not the limit's: `reserved`, a batch in \
                    flight holds the room; `memory`, the memory budget is exhausted; `outage`, \
                    the regional store should have been asked and could not be.",
            }),
        ),
        optional(
            "mode",
            json!({
                "type": "string",
                "enum": ["shadow", "off"],
                "description": "The mode of the namespace; absent if it enforces.",
            }),
        ),
        optional(
            "wouldDeny",
            flag("True if it was admitted only because the namespace does not enforce."),
        ),
        optional(
            "source",
            json!({
                "type": "string",
                "enum": ["local", "region"],
                "description": "In a region: whether this process's view decided, or what the \
                    regional store answered to this request.",
            }),
        ),
        optional("ageMs", count("In a region: how old that view was, at most.")),
        optional(
            "degraded",
            flag(
                "A store should have been asked and did not answer in time: the answer is that of \
                 this process alone.",
            ),
        ),
        optional("consistency", consistency("In a region: which rule held for this answer.")),
    ]
}

/// Which rule admissions follow.
fn consistency(description: &str) -> Value {
    json!({ "type": "string", "enum": ["fast", "bounded"], "description": description })
}

/// What becomes of requests when the region cannot be asked.
fn outage() -> Value {
    json!({
        "type": "string",
        "enum": ["local", "deny"],
        "description": "What becomes of its requests when the regional store should be asked and \
            cannot be.",
    })
}

fn limited() -> Value {
    open(verdict("success", "Whether the request is admitted."))
}

fn multi_limited() -> Value {
    let mut item = vec![
        required("namespace", told("As in the request.")),
        required("identifier", told("As in the request.")),
    ];
    item.extend(verdict("passed", "Whether this item fits, after the items before it."));
    let limits = json!({
        "type": "array",
        "minItems": 1,
        "maxItems": BATCH_MAX,
        "description": "One for each item, in the order of the request.",
        "items": open(item),
    });
    open(vec![
        required("passed", flag("Whether all items fit; only then was anything spent.")),
        required("limits", limits),
    ])
}

fn an_override() -> Value {
    open(vec![
        required("overrideId", override_id()),
        required("identifier", told("The text it was set with.")),
        required("limit", count("The limit; 0 blocks.")),
        required("duration", count("The window in milliseconds.")),
    ])
}

fn list_overrides_reply() -> Value {
    let pagination = open(vec![
        required("hasMore", flag("Whether there is a next page.")),
        optional("cursor", told("Where it begins; absent if there is none.")),
    ]);
    open(vec![
        required("meta", reference("Meta")),
        required("data", json!({ "type": "array", "items": reference("Override") })),
        required("pagination", pagination),
    ])
}

fn failure(names_fields: bool) -> Value {
    let mut error = vec![
        required("title", told("The kind of problem in a few words.")),
        required("detail", told("What happened, in words.")),
        required(
            "status",
            json!({ "type": "integer", "minimum": 400, "maximum": 599, "description": "As sent." }),
        ),
        required("type", told("The kind of problem, as an address. Stable; for programs.")),
    ];
    if names_fields {
        let errors = json!({ "type": "array", "items": reference("FieldError") });
        error.push(required("errors", errors));
    }
    open(vec![required("meta", reference("Meta")), required("error", open(error))])
}

fn field_error() -> Value {
    open(vec![
        required("location", told("Where: `body.limit`, `body[3].cost`, `header.Authorization`.")),
        required("message", told("What is wrong.")),
        optional("fix", told("What to do about it.")),
    ])
}
