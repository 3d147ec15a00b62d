use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// A call, as far as these tests care.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    at_ms: u64,
    origin: u64,
    ip: String,
    path: String,
    status: String,
    user: Option<String>,
}

fn options(traffic: Traffic) -> GenerateOptions {
    GenerateOptions { traffic, requests: 20_000, identifiers: 500, ..GenerateOptions::default() }
}

fn calls(options: &GenerateOptions) -> Vec<Seen> {
    let mut generator = Generator::new(options);
    let mut all = Vec::new();
    while let Some(made) = generator.next() {
        let named = |name| made.named(name).unwrap_or_default().to_owned();
        let user = made.named("user").map(str::to_owned);
        let (ip, path, status) = (named("ip"), named("path"), named("status"));
        let (at_ms, origin) = (made.at_unix_ms, made.origin);
        all.push(Seen { at_ms, origin, ip, path, status, user });
    }
    all
}

fn busiest(calls: &[Seen]) -> (String, usize) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls {
        *counts.entry(&call.ip).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count).unwrap();
    (most.0.to_owned(), most.1)
}

#[test]
fn every_kind_has_as_many_calls_as_were_asked_for_in_order_and_within_the_time() {
    for traffic in Traffic::ALL {
        assert_eq!(Traffic::of_name(traffic.name()), Some(traffic));
        for (requests, duration_ms) in [(20_000, 3_600_000), (20_000, 10), (1, 1), (7, 90_000_000)]
        {
            let options = GenerateOptions { requests, duration_ms, ..options(traffic) };
            let calls = calls(&options);
            assert_eq!(calls.len() as u64, requests, "{traffic:?} {duration_ms}");
            assert!(calls.is_sorted_by_key(|call| call.at_ms), "{traffic:?} {duration_ms}");
            let start_ms = options.start_unix_ms;
            let end_ms = start_ms + duration_ms + options.window_ms;
            assert!(calls.iter().all(|call| (start_ms..end_ms).contains(&call.at_ms)));
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_trace_and_another_seed_another() {
    for traffic in Traffic::ALL {
        let once = calls(&options(traffic));
        assert_eq!(once, calls(&options(traffic)));
        assert_ne!(once, calls(&GenerateOptions { seed: 2, ..options(traffic) }));
    }
}

#[test]
fn a_million_identifiers_nearly_all_come_in_ten_million_calls() {
    // A hundredth of that, which is the same share.
    let options =
        GenerateOptions { requests: 100_000, identifiers: 10_000, ..options(Traffic::Steady) };
    let ips: BTreeSet<String> = calls(&options).into_iter().map(|call| call.ip).collect();
    assert!((9_500..=10_000).contains(&ips.len()), "{}", ips.len());
}

#[test]
fn a_day_is_busier_than_a_night() {
    let options = GenerateOptions { duration_ms: 86_400_000, ..options(Traffic::Diurnal) };
    let mut hours = [0; 24];
    for call in calls(&options) {
        hours[usize::try_from(call.at_ms / 3_600_000 % 24).unwrap()] += 1;
    }
    assert!(hours[14] > 5 * hours[3], "{hours:?}");
}

#[test]
fn in_a_burst_one_caller_sends_hundreds_within_seconds() {
    let calls = calls(&options(Traffic::Burst));
    let worst = calls.chunk_by(|a, b| a.at_ms / 2_000 == b.at_ms / 2_000).max_by_key(|it| it.len());
    let (_, most) = busiest(worst.unwrap());
    assert!(most > 150, "{most}");
}

#[test]
fn who_hugs_the_boundary_sends_around_it() {
    let options = options(Traffic::BoundaryHugging);
    let calls = calls(&options);
    let near = |call: &&Seen| {
        let within_ms = call.at_ms % options.window_ms;
        !(1_200..58_800).contains(&within_ms)
    };
    assert!(calls.iter().filter(near).count() > calls.len() * 3 / 4);
}

#[test]
fn who_hops_comes_from_all_regions() {
    let (ip, _) = busiest(&calls(&options(Traffic::RegionHopping)));
    let regions = |traffic| -> BTreeSet<u64> {
        let own = calls(&options(traffic)).into_iter().filter(|call| call.ip == ip);
        own.map(|call| call.origin).collect()
    };
    assert_eq!(regions(Traffic::RegionHopping).len(), 3);
    assert_eq!(regions(Traffic::Steady).len(), 1, "others stay where they are");
}

#[test]
fn an_attack_is_a_few_addresses_that_fail_as_many_users() {
    let calls = calls(&options(Traffic::CredentialStuffing));
    let failed: Vec<&Seen> = calls.iter().filter(|call| call.status == "401").collect();
    let ips: BTreeSet<&str> = failed.iter().map(|call| call.ip.as_str()).collect();
    let users: BTreeSet<&str> = failed.iter().filter_map(|call| call.user.as_deref()).collect();
    assert!(failed.len() > calls.len() / 3 && failed.iter().all(|call| call.path == "/login"));
    assert!((ips.len(), users.len()) == (5, 500), "{} {}", ips.len(), users.len());
}

#[test]
fn a_field_that_nobody_makes_up_is_an_error_if_it_is_needed() {
    let mut fields = Fields::default();
    fields.want_if_there("header.x");
    assert!(Generated::new(&options(Traffic::Steady), fields.clone()).is_ok());
    fields.want("tenant");
    let why = Generated::new(&options(Traffic::Steady), fields).unwrap_err().to_string();
    assert!(why.contains("`tenant`") && why.contains("ip, method, path"), "{why}");
}

#[test]
fn a_log_in_json_has_all_fields() {
    let mut log = Vec::new();
    let options = GenerateOptions { requests: 500, ..options(Traffic::RegionHopping) };
    assert_eq!(write_log(&options, LogFormat::Json, &mut log).unwrap(), 500);
    let mut with_user = 0;
    for line in String::from_utf8(log).unwrap().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["time"].as_str().unwrap().starts_with("2023-11-15T00:"), "{line}");
        assert!(line["status"].is_u64() && line["region"].is_string(), "{line}");
        with_user += u64::from(line["user"].is_string());
    }
    assert!((250..450).contains(&with_user), "{with_user}");
}
