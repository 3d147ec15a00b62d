//! What the server answers, as an OpenAPI 3.1 document.
//!
//! Promises: one table says which operations there are; the bounds of a request are the numbers
//! that the decoder compares with. The document is committed as `docs/openapi.json`, and a test
//! fails when the two differ: `cargo xtask openapi` writes it anew.
//! Refuses: derived schemas. Bodies are decoded by hand, so a derive would say beside the decoder
//! what the decoder does; a table that both read cannot disagree with it.
//! Fails: never at run time; it is text that is made once.
//!
//! Requests are closed: what is not described is refused. Replies are open: a client ignores the
//! fields that it does not know, because a later version may send more.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

mod operations;
mod refusals;
mod schemas;
#[cfg(test)]
mod tests;

use operations::{HEALTH, OPERATIONS, Operation, Probe, Told};
use refusals::Refusal;

/// Made when it is first asked for.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    // Strings and integers can always be encoded.
    let text = serde_json::to_string_pretty(&generated()).unwrap_or_default();
    text + "\n"
});

/// The document, as it is served and committed.
///
/// ```
/// let document: serde_json::Value = serde_json::from_str(tidegate_server::openapi::document())?;
/// assert_eq!(document["openapi"], "3.1.0");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn document() -> &'static str {
    &DOCUMENT
}

const ABOUT: &str = "\
A distributed rate limiter. The operations are those of the rate limit part of Unkey's v2 API; \
its clients work unchanged.\n\n\
A denial is an answer, status 200 with `success` (or `passed`) false. Whatever is not answered \
has counted nothing.\n\n\
Requests are closed: unknown fields are refused. Replies are open: ignore the fields that you do \
not know.";

fn generated() -> Value {
    let mut paths = Map::new();
    for operation in &OPERATIONS {
        paths.insert(operation.path.to_owned(), json!({ "post": described(operation) }));
    }
    for probe in &HEALTH {
        paths.insert(probe.path.to_owned(), json!({ "get": probed(probe) }));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "http://127.0.0.1:7600", "description": "`tidegate serve`" }],
        "security": [{ "rootKey": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas::all(),
            "headers": headers(),
            "securitySchemes": {
                "rootKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A root key, as `tidegate key create` prints it.",
                },
            },
        },
    })
}

fn described(operation: &Operation) -> Value {
    let mut responses = Map::new();
    responses.insert("200".to_owned(), answered(operation));
    for refusal in operation.refusals {
        responses.insert(refusal.status.to_string(), refused(refusal));
    }
    let parameters = if operation.once { json!([idempotency_key()]) } else { json!([]) };
    json!({
        "operationId": operation.id,
        "parameters": parameters,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "requestBody": {
            "required": true,
            "content": { "application/json": { "schema": reference(operation.request) } },
        },
        "responses": responses,
    })
}

fn idempotency_key() -> Value {
    json!({
        "name": "Idempotency-Key",
        "in": "header",
        "required": false,
        "description": "A call that is sent again with the same key is charged once and gets the \
            same reply. `Idempotency-Scope` in the reply says who remembers it: this `node`, or \
            the `region`.",
        "schema": { "type": "string", "pattern": "^[!-~]+$", "minLength": 1, "maxLength": 255 },
    })
}

fn answered(operation: &Operation) -> Value {
    let capped = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];
    let once = ["Idempotency-Scope", "Idempotency-Replayed"];
    let once = once.into_iter().filter(|_| operation.once);
    let headers: Map<String, Value> =
        capped.into_iter().chain(once).map(|name| (name.to_owned(), header(name))).collect();
    json!({
        "description": operation.answer,
        "headers": headers,
        "content": { "application/json": { "schema": reference(operation.reply) } },
    })
}

fn refused(refusal: &Refusal) -> Value {
    let schema = if refusal.names_fields { "FieldProblem" } else { "Problem" };
    let content: Map<String, Value> = refusal
        .media_types
        .iter()
        .map(|media_type| ((*media_type).to_owned(), json!({ "schema": reference(schema) })))
        .collect();
    let headers: Map<String, Value> =
        refusal.headers.iter().map(|name| ((*name).to_owned(), header(name))).collect();
    let response = json!({ "description": refusal.when, "content": content });
    if headers.is_empty() { response } else { with(response, "headers", headers) }
}

fn probed(probe: &Probe) -> Value {
    let responses: Map<String, Value> = probe
        .statuses
        .iter()
        .map(|Told { status, when, word }| {
            let content = json!({ "application/json": { "schema": said(*word) } });
            (status.to_string(), json!({ "description": when, "content": content }))
        })
        .collect();
    json!({
        "operationId": probe.id,
        "tags": ["server"],
        "summary": probe.summary,
        "security": [],
        "responses": responses,
    })
}

/// What a probe replies.
fn said(word: Option<&str>) -> Value {
    let Some(word) = word else { return json!({ "type": "object" }) };
    json!({
        "type": "object",
        "properties": { "status": { "type": "string", "const": word } },
        "required": ["status"],
    })
}

/// An object with one field more.
fn with(mut object: Value, name: &str, value: impl Into<Value>) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value.into());
    }
    object
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn header(name: &str) -> Value {
    json!({ "$ref": format!("#/components/headers/{name}") })
}

/// Headers that a reply may have.
fn headers() -> Value {
    let whole = json!({ "type": "integer", "minimum": 0 });
    json!({
        "RateLimit-Limit": {
            "description": "Requests a minute that the workspace may make. The three headers are \
                absent when it has no such cap.",
            "schema": whole,
        },
        "RateLimit-Remaining": {
            "description": "How many of them are left.",
            "schema": whole,
        },
        "RateLimit-Reset": {
            "description": "Whole seconds until the minute ends.",
            "schema": whole,
        },
        "Idempotency-Scope": {
            "description": "Who remembers the reply, so that the call is charged once. Absent \
                without `Idempotency-Key`.",
            "schema": { "type": "string", "enum": ["node", "region"] },
        },
        "Idempotency-Replayed": {
            "description": "This is the reply to an earlier call with the same key.",
            "schema": { "type": "string", "const": "true" },
        },
        "Retry-After": {
            "description": "Whole seconds to wait.",
            "schema": whole,
        },
        "WWW-Authenticate": {
            "description": "Always `Bearer`.",
            "schema": { "type": "string" },
        },
    })
}
