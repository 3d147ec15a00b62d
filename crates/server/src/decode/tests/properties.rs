use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

/// What the contract allows, written down once more, independently of the decoder.
fn in_range(item: &Item<'_>) -> bool {
    let text = |part: Part<'_>| (1..=512).contains(&part.as_str().chars().count());
    text(item.namespace)
        && text(item.identifier)
        && (1..=1 << 50).contains(&item.limit.get())
        && (1_000..=2_592_000_000).contains(&item.window.as_millis())
        && item.cost.get() <= 1 << 40
}

#[derive(Clone, Debug)]
struct Asked {
    namespace: String,
    identifier: String,
    limit: u64,
    duration: u64,
    cost: Option<u64>,
}

impl Asked {
    fn encode(&self) -> Json {
        let mut body = json!({
            "namespace": self.namespace,
            "identifier": self.identifier,
            "limit": self.limit,
            "duration": self.duration,
        });
        if let Some(cost) = self.cost {
            body["cost"] = cost.into();
        }
        body
    }

    fn item(&self) -> Item<'_> {
        Item {
            namespace: part(&self.namespace),
            identifier: part(&self.identifier),
            limit: Limit::new(self.limit),
            window: Window::from_millis(self.duration).unwrap(),
            cost: Cost::new(self.cost.unwrap_or(1)).unwrap(),
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 1..=512).prop_map(String::from_iter)
}

fn asked() -> impl Strategy<Value = Asked> {
    let numbers = (
        1..=i64::MAX.unsigned_abs(),
        1_000_u64..=2_592_000_000,
        proptest::option::of(0..=COST_MAX),
    );
    (text(), text(), numbers).prop_map(|(namespace, identifier, (limit, duration, cost))| Asked {
        namespace,
        identifier,
        limit,
        duration,
        cost,
    })
}

fn number() -> impl Strategy<Value = Json> {
    prop_oneof![
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        (0..5_000_i64).prop_map(Json::from),
    ]
}

/// Any JSON, with the names and values of the contract likely enough to be met.
fn anything() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        number(),
        "[a-z]{0,3}".prop_map(Json::from),
    ];
    let name = prop_oneof![
        4 => proptest::sample::select(vec!["namespace", "identifier", "limit", "duration", "cost"])
            .prop_map(str::to_owned),
        1 => "[a-z]{0,3}",
    ];
    leaf.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Json::from),
            btree_map(name.clone(), inner, 0..8)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(asked in asked()) {
        let body = asked.encode().to_string();
        let body = LimitBody::read(body.as_bytes()).unwrap();
        prop_assert_eq!(body.parse(), Ok(asked.item()));
    }

    #[test]
    fn an_encoded_batch_keeps_its_order(asked in vec(asked(), 1..=8)) {
        let body = Json::from_iter(asked.iter().map(Asked::encode)).to_string();
        let body = MultiLimitBody::read(body.as_bytes()).unwrap();
        prop_assert_eq!(body.parse(), Ok(asked.iter().map(Asked::item).collect()));
    }

    #[test]
    fn any_json_gives_values_in_range_or_errors(json in anything()) {
        let body = json.to_string();
        match LimitBody::read(body.as_bytes()).unwrap().parse() {
            Ok(item) => prop_assert!(in_range(&item), "{:?}", item),
            Err(errors) => prop_assert!((1..=ERRORS_MAX).contains(&errors.len())),
        }
        match MultiLimitBody::read(body.as_bytes()).unwrap().parse() {
            Ok(items) => {
                prop_assert!((1..=100).contains(&items.len()));
                prop_assert!(items.iter().all(in_range), "{:?}", items);
            }
            Err(errors) => prop_assert!((1..=ERRORS_MAX).contains(&errors.len())),
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..256)) {
        for body in [LimitBody::read(&bytes)].into_iter().flatten() {
            prop_assert!(body.parse().is_ok_and(|item| in_range(&item)) || body.parse().is_err());
        }
        let _ = MultiLimitBody::read(&bytes).map(|body| body.parse().is_ok());
    }

    /// A good body in which one byte is changed: close to what is accepted.
    #[test]
    fn a_changed_byte_never_gives_a_value_out_of_range(
        at in 0..GOOD.len(),
        byte in any::<u8>(),
    ) {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(body) = LimitBody::read(&bytes)
            && let Ok(item) = body.parse()
        {
            prop_assert!(in_range(&item), "{:?}", item);
        }
    }
}
