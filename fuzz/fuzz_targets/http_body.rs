//! Bodies of both operations: whatever the bytes, the decoder gives values in range or says what
//! is wrong, the same each time, and agrees with an independent reading of the JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tidegate_limiter::{BATCH_MAX, COST_MAX, LIMIT_MAX, Part};
use tidegate_server::decode::{ERRORS_MAX, FieldError, Item, LimitBody, MultiLimitBody};

fuzz_target!(|body: &[u8]| {
    check_single(body);
    check_batch(body);
});

fn check_single(body: &[u8]) {
    let read = LimitBody::read(body);
    assert_eq!(read, LimitBody::read(body), "reading is deterministic");
    let Ok(read) = read else { return };
    let parsed = read.parse();
    assert_eq!(parsed, read.parse(), "parsing is deterministic");
    match &parsed {
        Ok(item) => {
            check_item(item);
            check_values(item, &serde_json::from_slice(body).expect("what is accepted is JSON"));
        }
        Err(errors) => check_errors(errors),
    }
    check_same_in_batch(body, &parsed);
}

/// A body means the same as the only item of a batch.
fn check_same_in_batch(body: &[u8], single: &Result<Item<'_>, Vec<FieldError>>) {
    let wrapped = [b"[", body, b"]"].concat();
    let batch = MultiLimitBody::read(&wrapped).expect("an array of JSON is JSON");
    match (single, batch.parse()) {
        (Ok(item), Ok(items)) => assert_eq!(items, [*item]),
        (Err(errors), Err(in_batch)) => {
            let messages = |errors: &[FieldError]| {
                errors.iter().map(|error| error.message.clone()).collect::<Vec<_>>()
            };
            assert_eq!(messages(errors), messages(&in_batch));
        }
        (single, batch) => panic!("{single:?} became {batch:?}"),
    }
}

fn check_batch(body: &[u8]) {
    let read = MultiLimitBody::read(body);
    assert_eq!(read, MultiLimitBody::read(body), "reading is deterministic");
    let Ok(read) = read else { return };
    match read.parse() {
        Ok(items) => {
            assert!((1..=BATCH_MAX).contains(&items.len()));
            let json: Value = serde_json::from_slice(body).expect("what is accepted is JSON");
            let elements = json.as_array().expect("what is accepted is an array");
            assert_eq!(elements.len(), items.len());
            for (item, element) in items.iter().zip(elements) {
                check_item(item);
                check_values(item, element);
            }
        }
        Err(errors) => check_errors(&errors),
    }
}

fn check_item(item: &Item<'_>) {
    let is_text = |part: Part<'_>| (1..=512).contains(&part.as_str().chars().count());
    assert!(is_text(item.namespace) && is_text(item.identifier));
    assert!((1..=LIMIT_MAX).contains(&item.limit.get()));
    assert!((1_000..=2_592_000_000).contains(&item.window.as_millis()));
    assert!(item.cost.get() <= COST_MAX);
}

/// What was accepted is what a plain JSON reader sees, no more and no less.
fn check_values(item: &Item<'_>, json: &Value) {
    assert_eq!(json["namespace"], item.namespace.as_str());
    assert_eq!(json["identifier"], item.identifier.as_str());
    assert_eq!(json["duration"], item.window.as_millis());
    assert_eq!(json["limit"].as_u64().map(|limit| limit.min(LIMIT_MAX)), Some(item.limit.get()));
    let cost = json.get("cost");
    assert_eq!(cost.map_or(Some(1), Value::as_u64), Some(item.cost.get()));
    let fields = json.as_object().map_or(0, serde_json::Map::len);
    assert_eq!(fields, 4 + usize::from(cost.is_some()));
}

fn check_errors(errors: &[FieldError]) {
    assert!((1..=ERRORS_MAX).contains(&errors.len()));
    for error in errors {
        assert!(error.location.starts_with("body") && !error.message.is_empty());
        assert!(error.location.len() <= 1_024, "names are shortened");
    }
    assert!(serde_json::to_string(errors).is_ok());
}
