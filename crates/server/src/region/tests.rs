use tidegate::RegionCounts;
use tidegate::redis::{ACL, Warning};

use super::*;

fn said(url: &str) -> String {
    place(&RedisConfig::parse(url).unwrap().topology)
}

#[test]
fn a_place_is_said_without_the_way_in() {
    assert_eq!(said("redis://user:hush@cache:6380/3"), "redis at cache:6380");
    assert_eq!(
        said("redis://:hush@s1,s2/?sentinel=main"),
        "redis `main` of the sentinels at s1:26379, s2:26379"
    );
    assert_eq!(
        said("redis://:hush@n1:7000,[::1]/?cluster=true"),
        "redis cluster at n1:7000, [::1]:6379"
    );
}

#[test]
fn a_region_never_shows_a_password() {
    let region = Region::parse("redis://user:hush@cache/?prefix=limits", None).unwrap();
    assert!(!format!("{region} {region:?}").contains("hush"));
}

#[test]
fn a_redis_in_order_is_nothing_to_speak_of() {
    let (place, mut report) = ("redis at cache:6379", Report::default());
    assert_eq!(Looked { place, report: &report, was_away: false }.to_string(), "");
    let back = Looked { place, report: &report, was_away: true }.to_string();
    assert_eq!(back, "redis at cache:6379 answers now: limits are shared.\n");

    let (address, policy) = ("cache:6379".to_owned(), "allkeys-lru".to_owned());
    report.warnings.push(Warning::Evicts { address, policy });
    let warned = Looked { place, report: &report, was_away: false }.to_string();
    assert!(warned.starts_with("warning: ") && warned.contains("noeviction"), "{warned}");
}

/// What the operator reads.
const MANUAL: &str = include_str!("../../../../docs/redis.md");

#[test]
fn the_manual_names_the_rights_that_are_needed() {
    assert!(MANUAL.contains(&format!("~tg:* {ACL}\n")), "{ACL}");
}

#[test]
fn the_manual_explains_every_counter() {
    let counts = format!("{:?}", RegionCounts::default());
    let (_, fields) = counts.split_once('{').unwrap();
    for field in fields.split(',').filter_map(|pair| pair.split_once(':')) {
        let name = format!("`{}`", field.0.trim());
        assert!(MANUAL.contains(&name), "{name}");
    }
}
