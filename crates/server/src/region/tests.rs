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

fn region() -> Region {
    Region::parse("redis://user:hush@cache", None).unwrap()
}

#[tokio::test]
async fn a_redis_in_order_is_nothing_to_speak_of() {
    let (region, mut report) = (region(), Report::default());
    let (fine, events) = Standing::Unknown.next(&region, 0, Ok(&report));
    assert!(fine == Standing::Fine && events.is_empty(), "{events:?}");
    assert!(fine.is_settled(0) && !fine.is_settled(1));

    let (address, policy) = ("cache:6379".to_owned(), "allkeys-lru".to_owned());
    report.warnings.push(Warning::Evicts { address, policy });
    let (_, events) = Standing::Unknown.next(&region, 0, Ok(&report));
    let [Event::RegionUnfit { what, .. }] = &events[..] else { panic!("{events:?}") };
    assert!(format!("{what:?}").contains("noeviction"), "{what:?}");
}

#[tokio::test]
async fn going_away_and_coming_back_are_said_once_each() {
    let (region, report) = (region(), Report::default());
    for (was, breakers_open, looked) in [
        (Standing::Unknown, 0, Err(&StoreError::Timeout)),
        (Standing::Fine, 1, Err(&StoreError::Timeout)),
        (Standing::Fine, 1, Ok(&report)),
    ] {
        let (away, events) = was.next(&region, breakers_open, looked);
        assert!(matches!(&events[..], [Event::RegionAway { .. }]), "{events:?}");
        let (still, events) = away.next(&region, 1, Err(&StoreError::Timeout));
        assert!(still == away && events.is_empty(), "{events:?}");
        let (still, events) = away.next(&region, 1, Ok(&report));
        assert!(still == away && events.is_empty(), "a breaker is open: {events:?}");
        let (back, events) = away.next(&region, 0, Ok(&report));
        assert!(back == Standing::Fine, "{back:?}");
        assert!(matches!(&events[..], [Event::RegionBack { .. }]), "{events:?}");
    }
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
