//! What `explain` and `inspect` reply.

use serde_json::{Value, json};

use super::{
    Field, consistency, count, flag, limited, open, optional, outage, required, success, told,
};
use crate::openapi::{reference, with};

/// A text, or nothing.
fn told_or_null(description: &str) -> Value {
    json!({ "type": ["string", "null"], "description": description })
}

/// Which namespace is meant, and which override applies there.
fn place() -> Vec<Field> {
    let mode = json!({
        "type": "string",
        "enum": ["enforce", "shadow", "off"],
        "description": "What it does with its limits.",
    });
    let namespace = open(vec![
        required("id", told("Its id.")),
        required("name", told("Its name.")),
        required("mode", mode),
        required("consistency", consistency("What its admissions are worth in a region.")),
        required("outage", outage()),
        required("deleted", flag("Whether it was deleted.")),
    ]);
    vec![required("namespace", namespace), optional("override", reference("Override"))]
}

/// Where in its window a subject is.
fn moment() -> Vec<Field> {
    vec![
        required("nowMs", count("The time, in Unix milliseconds.")),
        required("windowMs", count("The length of the window.")),
        required("elapsedMs", count("How much of it has passed.")),
    ]
}

/// How well a region is known.
fn freshness() -> Vec<Field> {
    let strict = open(vec![
        required("leftMs", count("For how long.")),
        required("limit", count("The largest limit that was exhausted.")),
    ]);
    vec![
        optional("ageMs", count("How old the view of the region is, at most.")),
        optional("freshForMs", count("How long it needs no refresh.")),
        optional(
            "retryInMs",
            count("When the region may be asked again, after it did not answer."),
        ),
        optional("strict", strict),
    ]
}

pub(super) fn explain_reply() -> Value {
    let mut terms = moment();
    terms.extend([
        required("current", count("What the current window holds.")),
        required("previous", count("What the previous one held.")),
        required("previousWeightMs", count("How much of the previous window still counts.")),
        required("previousCounts", count("What it counts for, therefore.")),
        required("cost", count("The cost of the request.")),
        required("effective", count("The sum: `current`, `previousCounts` and `cost`.")),
        required("limit", count("What the sum may not exceed.")),
    ]);
    let asks_first = json!({
        "type": ["string", "null"],
        "enum": ["cold", "stale", "strict", "significant", "credit", "reserved", null],
        "description": "Why the region would be asked before an admission; null if it would not.",
    });
    let mut region = vec![
        required("asksFirst", asks_first),
        required("askedInVain", flag("Whether it was asked just now and did not answer.")),
        optional("credit", credit()),
    ];
    region.extend(freshness());
    let mut data = vec![
        required("because", told("The answer and its reason, in words.")),
        required("answer", limited()),
        required("terms", open(terms)),
        optional("region", open(region)),
    ];
    data.extend(place());
    success(open(data))
}

pub(super) fn inspect_reply() -> Value {
    let mut node = moment();
    node.extend([
        required("known", flag("Whether this process has counted the subject.")),
        required("current", cell()),
        required("previous", cell()),
        optional("unreplayed", flag("In a region: whether something waits to be sent.")),
        optional("credit", credit()),
    ]);
    node.extend(freshness());
    let region = open(vec![
        optional("current", recorded()),
        optional("previous", recorded()),
        optional("away", told("Why the region did not answer. Then there is nothing else here.")),
    ]);
    let regions = open(vec![
        required("own", told_or_null("The number of this region.")),
        required("ageMs", count("How old this is.")),
        required("current", published()),
        required("previous", published()),
    ]);
    let mut data = vec![
        required("node", open(node)),
        optional("region", region),
        optional("regions", regions),
    ];
    data.extend(place());
    success(open(data))
}

/// What may be admitted here before the region has recorded it.
fn credit() -> Value {
    let credit = open(vec![
        required("room", count("What is free.")),
        required("processes", count("How many processes share it; 0 if that is not known yet.")),
        required("most", count("What this one may have admitted and not recorded.")),
        required("used", count("What it has. More than `most` has to be granted first.")),
    ]);
    let description = "In a bounded namespace that several processes may share.";
    with(credit, "description", description)
}

/// One window, as this process knows it.
fn cell() -> Value {
    open(vec![
        required("sequence", count("The number of the window.")),
        required("startMs", count("When it begins, in Unix milliseconds.")),
        required("endMs", count("When it ends.")),
        required("mine", count("What this process admitted.")),
        required("reserved", count("What batches and asks in flight hold.")),
        required("restored", count("Of `peers`, what an earlier life of this process had saved.")),
        required("peers", count("What others in the region admitted.")),
        required("counts", count("What a decision counts.")),
        optional("acked", count("In a region: of `mine`, what the region has recorded.")),
        optional("unreplayed", count("In a region: the rest.")),
        optional("confirmed", count("In a region: the largest sum that it reported.")),
        optional("foreign", count("In a region: what other regions published.")),
    ])
}

/// One window, as the regional store has it.
fn recorded() -> Value {
    open(vec![
        required("sequence", count("The number of the window.")),
        required("sum", count("What all processes recorded.")),
        required("ofThisProcess", count("What this one did.")),
        required("processes", count("How many they are.")),
    ])
}

/// One window, as the regions told each other.
fn published() -> Value {
    let others = json!({
        "type": "object",
        "additionalProperties": count("What a region published."),
        "description": "By the number of the region.",
    });
    open(vec![
        required("own", count("What this region published.")),
        required("unpublished", count("What it used beyond that, as far as is known here.")),
        required("others", others),
    ])
}
