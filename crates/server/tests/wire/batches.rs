//! `ratelimit.multiLimit`, case by case as the contract has it.

use serde_json::{Value, json};

use crate::support::{Client, LIMIT, MULTI_LIMIT, Server, ask};

/// The verdict on the batch, then verdict and remainder of each item.
fn spend(client: &mut Client, items: &[Value]) -> (bool, Vec<(bool, u64)>) {
    let reply = client.post(MULTI_LIMIT, &Value::from(items));
    let answers = reply.data()["limits"].as_array().unwrap();
    assert_eq!(answers.len(), items.len());
    for (answer, item) in answers.iter().zip(items) {
        for field in ["namespace", "identifier", "limit"] {
            assert_eq!(answer[field], item[field], "items keep their order");
        }
    }
    let verdicts = answers
        .iter()
        .map(|answer| (answer["passed"].as_bool().unwrap(), answer["remaining"].as_u64().unwrap()));
    (reply.data()["passed"].as_bool().unwrap(), verdicts.collect())
}

fn remaining(client: &mut Client, identifier: &str, limit: u64) -> Value {
    client.post(LIMIT, &ask(identifier, limit, 0)).data()["remaining"].clone()
}

#[test]
fn a_batch_that_fits_is_spent_as_a_whole() {
    let server = Server::start();
    let mut client = server.client();
    let answer = spend(&mut client, &[ask("a", 10, 3), ask("b", 5, 5), ask("c", 1, 0)]);
    assert_eq!(answer, (true, vec![(true, 7), (true, 0), (true, 1)]));
    assert_eq!(remaining(&mut client, "a", 10), 7, "singles and batches share their counts");
}

#[test]
fn one_item_that_does_not_fit_undoes_the_others_and_all_are_told() {
    let server = Server::start();
    let mut client = server.client();
    client.post(LIMIT, &ask("b", 2, 2));
    let answer = spend(&mut client, &[ask("a", 10, 3), ask("b", 2, 1), ask("c", 4, 1)]);
    assert_eq!(answer, (false, vec![(true, 10), (false, 0), (true, 4)]), "as if it had not been");
    for (identifier, limit) in [("a", 10), ("c", 4)] {
        assert_eq!(remaining(&mut client, identifier, limit), limit);
    }
}

#[test]
fn duplicates_accumulate_in_their_order() {
    let server = Server::start();
    let mut client = server.client();
    let (passed, items) = spend(&mut client, &[ask("a", 1, 1), ask("a", 1, 1)]);
    assert!(!passed);
    assert_eq!(items.iter().map(|item| item.0).collect::<Vec<_>>(), [true, false]);
    assert_eq!(remaining(&mut client, "a", 1), 1);

    let answer = spend(&mut client, &[ask("b", 5, 2), ask("b", 5, 2)]);
    assert_eq!(answer, (true, vec![(true, 3), (true, 1)]));
}

#[test]
fn a_denied_item_says_when_to_come_back_and_the_others_do_not() {
    let server = Server::start();
    let mut client = server.client();
    client.post(LIMIT, &ask("b", 1, 1));
    let items = json!([ask("a", 1, 1), ask("b", 1, 1), ask("c", 1, 2)]);
    let reply = client.post(MULTI_LIMIT, &items);
    let fields = |index: usize| {
        let item = reply.data()["limits"][index].as_object().unwrap();
        item.keys().map(String::as_str).collect::<Vec<_>>()
    };
    let contract = ["identifier", "limit", "namespace", "passed", "remaining", "reset"];
    assert_eq!(fields(0), contract);
    assert_eq!(fields(1), [&contract[..], &["retryAfterMs"]].concat());
    assert_eq!(fields(2), contract, "2 never fit under 1");
}

#[test]
fn a_hundred_items_are_one_batch() {
    let server = Server::start();
    let mut client = server.client();
    let items: Vec<Value> = (0..100).map(|number| ask(&format!("i{number}"), 2, 1)).collect();
    assert_eq!(spend(&mut client, &items), (true, vec![(true, 1); 100]));

    let items = vec![ask("one", 100, 1); 100];
    let (passed, answers) = spend(&mut client, &items);
    assert!(passed);
    let left: Vec<u64> = answers.iter().map(|answer| answer.1).collect();
    assert_eq!(left, (0..100).rev().collect::<Vec<u64>>());
}
