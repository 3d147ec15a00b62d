use serde_json::{Value, json};

use super::*;
use crate::decode::{LimitBody, MultiLimitBody};

fn parsed() -> Value {
    serde_json::from_str(document()).unwrap()
}

fn schema(name: &str) -> Value {
    let schema = &parsed()["components"]["schemas"][name];
    assert!(schema.is_object(), "{name}");
    schema.clone()
}

fn accepts(body: &Value) -> bool {
    let bytes = body.to_string();
    LimitBody::read(bytes.as_bytes()).unwrap().parse().is_ok()
}

/// A body that is in order.
fn body() -> Value {
    json!({"namespace": "n", "identifier": "i", "limit": 10, "duration": 60_000, "cost": 1})
}

/// Every `$ref` below a value.
fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn the_committed_document_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == document(), "docs/openapi.json is old; run `cargo xtask openapi`");
}

#[test]
fn every_reference_leads_somewhere() {
    let document = parsed();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 50);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn the_bounds_of_numbers_are_those_of_the_decoder() {
    let schema = schema("LimitRequest");
    for name in ["limit", "duration", "cost"] {
        let with = |number: u64| {
            let mut body = body();
            body[name] = number.into();
            accepts(&body)
        };
        let min = schema["properties"][name]["minimum"].as_u64().unwrap();
        let max = schema["properties"][name]["maximum"].as_u64().unwrap();
        assert!(with(min) && with(max) && !with(max + 1), "{name}");
        assert!(min == 0 || !with(min - 1), "{name}");
    }
}

#[test]
fn the_bounds_of_texts_are_those_of_the_decoder() {
    let schema = schema("LimitRequest");
    for name in ["namespace", "identifier"] {
        let with = |chars: u64| {
            let mut body = body();
            body[name] = "é".repeat(usize::try_from(chars).unwrap()).into();
            accepts(&body)
        };
        let min = schema["properties"][name]["minLength"].as_u64().unwrap();
        let max = schema["properties"][name]["maxLength"].as_u64().unwrap();
        assert!(with(min) && with(max), "{name}");
        assert!(!with(min - 1) && !with(max + 1), "{name}");
    }
}

#[test]
fn what_is_required_is_required_and_nothing_else_is_known() {
    let schema = schema("LimitRequest");
    assert_eq!(schema["additionalProperties"], false);
    let required: Vec<&str> =
        schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for name in schema["properties"].as_object().unwrap().keys() {
        let mut body = body();
        body.as_object_mut().unwrap().remove(name).unwrap();
        assert_eq!(accepts(&body), !required.contains(&name.as_str()), "{name}");
    }
    let mut unknown = body();
    unknown["unknown"] = 1.into();
    assert!(!accepts(&unknown));
}

#[test]
fn a_batch_is_as_long_as_the_decoder_lets_it() {
    let schema = schema("MultiLimitRequest");
    let with = |items: u64| {
        let bytes = Value::from(vec![body(); usize::try_from(items).unwrap()]).to_string();
        MultiLimitBody::read(bytes.as_bytes()).unwrap().parse().is_ok()
    };
    let (min, max) = (schema["minItems"].as_u64().unwrap(), schema["maxItems"].as_u64().unwrap());
    assert!(with(min) && with(max) && !with(min - 1) && !with(max + 1));
}

#[test]
fn every_operation_says_what_may_go_wrong() {
    for operation in &OPERATIONS {
        let document = parsed();
        let responses = &document["paths"][operation.path]["post"]["responses"];
        for status in ["200", "400", "401", "403", "408", "413", "429"] {
            assert!(responses[status].is_object(), "{} {status}", operation.path);
        }
        let may_fail = operation.tag == "overrides";
        assert_eq!(responses["500"].is_object(), may_fail, "{}", operation.path);
        // A published client that knows this status knows it in this form only.
        let too_many = responses["429"]["content"].as_object().unwrap();
        assert_eq!(too_many.keys().collect::<Vec<_>>(), ["application/problem+json"]);
    }
}
