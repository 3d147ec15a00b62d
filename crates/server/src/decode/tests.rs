use serde_json::{Value as Json, json};
use tidegate_limiter::{COST_MAX, LIMIT_MAX};

use super::*;

mod properties;

const GOOD: &str = r#"{"namespace":"n","identifier":"i","limit":10,"duration":60000,"cost":2}"#;

fn part(text: &str) -> Part<'_> {
    Part::new(text).unwrap()
}

/// The good body with `field` replaced by `value`, which is JSON text.
fn with(field: &str, value: &str) -> String {
    let mut parts = vec![
        ("namespace", r#""n""#),
        ("identifier", r#""i""#),
        ("limit", "10"),
        ("duration", "60000"),
        ("cost", "2"),
    ];
    parts.retain(|(name, _)| *name != field);
    parts.push((field, value));
    object(&parts)
}

fn object(parts: &[(&str, &str)]) -> String {
    let parts: Vec<_> = parts.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", parts.join(","))
}

fn errors_of(body: &str) -> Vec<FieldError> {
    LimitBody::read(body.as_bytes()).expect(body).parse().expect_err(body)
}

fn many_errors_of(body: &str) -> Vec<FieldError> {
    MultiLimitBody::read(body.as_bytes()).expect(body).parse().expect_err(body)
}

/// Location and message of each error.
fn said(errors: &[FieldError]) -> Vec<(&str, &str)> {
    errors.iter().map(|error| (error.location.as_str(), error.message.as_ref())).collect()
}

#[test]
fn a_good_body_gives_its_values() {
    let body = LimitBody::read(GOOD.as_bytes()).unwrap();
    let item = body.parse().unwrap();
    let expected = Item {
        namespace: part("n"),
        identifier: part("i"),
        limit: Limit::new(10),
        window: Window::from_millis(60_000).unwrap(),
        cost: Cost::new(2).unwrap(),
    };
    assert_eq!(item, expected);

    let subject = Subject::new(part("ws"), part("n"), part("i"), expected.window);
    assert_eq!(item.request(part("ws")), Request::new(subject, expected.limit, expected.cost));
}

#[test]
fn the_edges_of_every_range_are_accepted() {
    for (field, value) in [
        ("limit", "1".to_owned()),
        ("limit", i64::MAX.to_string()),
        ("duration", "1000".to_owned()),
        ("duration", "2592000000".to_owned()),
        ("cost", "0".to_owned()),
        ("cost", COST_MAX.to_string()),
        ("namespace", format!("\"{}\"", "é".repeat(512))),
        ("identifier", format!("\"{}\"", "𝄞".repeat(512))),
        ("identifier", r#"" ""#.to_owned()),
        ("identifier", r#""\u0000""#.to_owned()),
    ] {
        let body = with(field, &value);
        let body = LimitBody::read(body.as_bytes()).unwrap();
        assert!(body.parse().is_ok(), "{field} = {value}: {:?}", body.parse());
    }
}

#[test]
fn a_limit_that_cannot_be_reached_is_clamped() {
    let body = with("limit", &i64::MAX.to_string());
    let body = LimitBody::read(body.as_bytes()).unwrap();
    assert_eq!(body.parse().unwrap().limit.get(), LIMIT_MAX);
}

#[test]
fn every_value_out_of_range_is_refused_by_name() {
    let long = format!("\"{}\"", "x".repeat(513));
    let integer = "must be an integer, without fraction or exponent";
    let huge = "must be an integer of at most 64 bits";
    for (field, value, message) in [
        ("namespace", r#""""#, "must not be empty"),
        ("namespace", &long, "must have at most 512 characters"),
        ("namespace", "7", "must be a string, not a number"),
        ("namespace", "null", "must be a string, not null"),
        ("identifier", r#""""#, "must not be empty"),
        ("identifier", &long, "must have at most 512 characters"),
        ("identifier", "[]", "must be a string, not an array"),
        ("identifier", "{}", "must be a string, not an object"),
        ("limit", "0", "must be at least 1"),
        ("limit", "-1", "must be at least 1"),
        ("limit", "9223372036854775808", "must be at most 9223372036854775807"),
        ("limit", "18446744073709551616", huge),
        ("limit", "-9223372036854775809", "must be at least 1"),
        ("limit", "1e30", integer),
        ("limit", "1e400", integer),
        ("limit", "1.5", integer),
        ("limit", "1e3", integer),
        ("limit", "-0", "must be an integer without a sign"),
        ("limit", "-0.0", integer),
        ("namespace", "1e400", "must be a string, not a number"),
        ("limit", r#""10""#, "must be an integer, not a string"),
        ("limit", "null", "must be an integer, not null"),
        ("limit", "true", "must be an integer, not a boolean"),
        ("limit", "[10]", "must be an integer, not an array"),
        ("limit", r#"{"limit":1}"#, "must be an integer, not an object"),
        ("duration", "999", "must be at least 1000"),
        ("duration", "2592000001", "must be at most 2592000000"),
        ("duration", "1000.0", integer),
        ("duration", r#""60s""#, "must be an integer, not a string"),
        ("cost", "-1", "must be at least 0"),
        ("cost", "1099511627777", "must be at most 1099511627776"),
        ("cost", "0.5", integer),
        ("cost", "-1e400", integer),
        ("cost", "-0", "must be an integer without a sign"),
        ("unheard_of", "1e400", "is not a field of this request"),
        ("cost", "null", "must be an integer, not null"),
    ] {
        let errors = errors_of(&with(field, value));
        let location = format!("body.{field}");
        assert_eq!(said(&errors), [(location.as_str(), message)], "{field} = {value}");
        assert!(errors.iter().all(|error| error.fix.is_some()), "{field} = {value}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let errors = errors_of(r#"{"limit":"many","duration":5,"costs":1}"#);
    assert_eq!(
        said(&errors),
        [
            ("body.namespace", "is required"),
            ("body.identifier", "is required"),
            ("body.limit", "must be an integer, not a string"),
            ("body.duration", "must be at least 1000"),
            ("body.costs", "is not a field of this request"),
        ]
    );
}

#[test]
fn a_repeated_field_is_refused_even_with_equal_values() {
    let twice = GOOD.replace("{", r#"{"limit":10,"#);
    assert_eq!(said(&errors_of(&twice)), [("body.limit", "is given more than once")]);
    let optional = GOOD.replace("{", r#"{"cost":null,"#);
    assert_eq!(said(&errors_of(&optional)), [("body.cost", "is given more than once")]);
    let escaped = GOOD.replace("{", r#"{"\u006cimit":10,"#);
    assert_eq!(said(&errors_of(&escaped)), [("body.limit", "is given more than once")]);
}

#[test]
fn escapes_mean_what_they_say() {
    let body = r#"{"name\u0073pace":"a\"\\\/\u00e9\ud834\udd1e","identifier":"\n",
                   "limit":1,"duration":1000}"#;
    let body = LimitBody::read(body.as_bytes()).unwrap();
    let item = body.parse().unwrap();
    assert_eq!(item.namespace.as_str(), "a\"\\/é𝄞");
    assert_eq!(item.identifier.as_str(), "\n");
}

#[test]
fn what_is_not_json_has_no_field_to_name() {
    let deep_open = "[".repeat(100_000);
    for body in [
        "",
        " ",
        "nonsense",
        "{",
        r#"{"namespace":"n""#,
        r#"{"namespace":"n",}"#,
        r#"{"namespace":"\ud800"}"#,
        r#"{namespace:"n"}"#,
        r#"{"limit":01}"#,
        r#"{"limit":+1}"#,
        r#"{"limit":NaN}"#,
        r#"{"limit":1e}"#,
        r#"{"limit":-}"#,
        r#"{"limit":"\ud800"}"#,
        "{\"limit\":\"\n\"}",
        "\u{a0}{}",
        "{} {}",
        "{},",
        "\u{feff}{}",
        &deep_open,
    ] {
        assert_eq!(LimitBody::read(body.as_bytes()), Err(Undecodable), "{body:.40}");
        let item = if body.trim().is_empty() { body.to_owned() } else { format!("[{body}]") };
        assert_eq!(MultiLimitBody::read(item.as_bytes()), Err(Undecodable), "{item:.40}");
    }
    let cut = GOOD.as_bytes();
    for end in 0..cut.len() {
        assert_eq!(LimitBody::read(&cut[..end]), Err(Undecodable), "cut at {end}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_refused_even_where_nothing_is_kept() {
    for body in
        [&b"{\"namespace\":\"\xff\"}"[..], b"{\"x\":[\"\xc3\"]}", b"[{\"x\":\"\xed\xa0\x80\"}]"]
    {
        assert_eq!(LimitBody::read(body), Err(Undecodable));
        assert_eq!(MultiLimitBody::read(body), Err(Undecodable));
    }
}

#[test]
fn deep_nesting_is_an_ordinary_error() {
    let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(said(&errors_of(&deep)), [("body", "must be an object, not an array")]);
    assert_eq!(
        said(&errors_of(&with("limit", &deep))),
        [("body.limit", "must be an integer, not an array")]
    );
    assert_eq!(
        said(&errors_of(&with("extra", &deep))),
        [("body.extra", "is not a field of this request")]
    );
    assert_eq!(
        said(&many_errors_of(&format!("[{deep}]"))),
        [("body[0]", "must be an object, not an array")]
    );
}

#[test]
fn the_body_must_have_the_shape_of_its_operation() {
    for (body, message) in [
        ("[]", "must be an object, not an array"),
        ("null", "must be an object, not null"),
        ("3", "must be an object, not a number"),
        (" 1e400 ", "must be an object, not a number"),
    ] {
        assert_eq!(said(&errors_of(body)), [("body", message)]);
    }
    for (body, message) in [
        (GOOD, "must be an array, not an object"),
        (r#""text""#, "must be an array, not a string"),
        ("[]", "must have at least 1 item"),
    ] {
        assert_eq!(said(&many_errors_of(body)), [("body", message)]);
    }
}

#[test]
fn errors_in_a_batch_name_the_item() {
    let body = format!("[{GOOD},7,{},{}]", with("cost", "-1"), with("x", "1"));
    assert_eq!(
        said(&many_errors_of(&body)),
        [
            ("body[1]", "must be an object, not a number"),
            ("body[2].cost", "must be at least 0"),
            ("body[3].x", "is not a field of this request"),
        ]
    );
}

#[test]
fn a_batch_has_at_most_a_hundred_items() {
    let array = |items: usize| format!("[{}]", vec![GOOD; items].join(","));
    let body = array(100);
    let body = MultiLimitBody::read(body.as_bytes()).unwrap();
    assert_eq!(body.parse().unwrap().len(), 100);
    for items in [101, 5_000] {
        let errors = many_errors_of(&array(items));
        assert_eq!(said(&errors), [("body", "must have at most 100 items")], "{items}");
    }
}

#[test]
fn the_list_of_errors_is_bounded() {
    let unknown: Vec<_> = (0..5_000).map(|number| format!("\"f{number}\":0")).collect();
    let errors = errors_of(&format!("{{{}}}", unknown.join(",")));
    assert_eq!(errors.len(), ERRORS_MAX);
    assert_eq!(errors[0].location, "body.namespace", "known fields come first");

    let bad = vec!["{}"; 100].join(",");
    assert_eq!(many_errors_of(&format!("[{bad}]")).len(), ERRORS_MAX);

    let errors = errors_of(&with(&"n".repeat(100_000), "1"));
    assert_eq!(errors[0].location, format!("body.{}", "n".repeat(64)));
}

#[test]
fn a_fix_is_left_out_of_the_reply_when_there_is_none() {
    let encoded = serde_json::to_value(errors_of("[]")).unwrap();
    assert_eq!(
        encoded,
        json!([{"location": "body", "message": "must be an object, not an array"}])
    );
    let encoded: Json = serde_json::to_value(errors_of(&with("limit", "0"))).unwrap();
    assert!(encoded[0]["fix"].is_string());
}
