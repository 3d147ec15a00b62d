use super::*;

fn said(url: &str) -> String {
    Database::parse(url).unwrap().to_string()
}

#[test]
fn a_place_is_said_without_the_way_in() {
    assert_eq!(said("mysql://me:hush@db:3307/limits"), "mysql database `limits` at db:3307");
    let socket = said("mysql://me:hush@localhost/limits?socket=/run/db.sock");
    assert_eq!(socket, "mysql database `limits` at /run/db.sock");
    assert_eq!(said("sqlite:limits.db"), "sqlite file limits.db");
    assert_eq!(said("sqlite:///var/limits.db"), "sqlite file /var/limits.db");
}

#[test]
fn a_bad_address_is_not_repeated() {
    for bad in ["", "hush", "postgres://hush@db/x", "mysql://hush", "sqlite:", "mysql://u:hush@d"] {
        let why = Database::parse(bad).unwrap_err();
        assert!(!format!("{why} {why:?}").contains("hush"), "{why:?}");
    }
}

#[test]
fn how_things_stand() {
    let counts = |registered, name_clashes, age_ms| {
        let mut counts = GlobeCounts::default();
        (counts.registered, counts.name_clashes, counts.age_ms) =
            (registered, name_clashes, age_ms);
        counts
    };
    assert_eq!(Standing::of(&counts(1, 0, 1_000), 0), Standing::Fine);
    assert_eq!(Standing::of(&counts(1, 0, 60_000), 0), Standing::Away);
    assert_eq!(Standing::of(&counts(0, 3, 0), 2), Standing::Clash);
    assert_eq!(Standing::of(&counts(0, 3, 0), 3), Standing::Away, "it does not answer any more");
}

/// What the operator reads.
const MANUAL: &str = include_str!("../../../../docs/globe.md");

#[test]
fn the_manual_names_the_rights_that_are_needed() {
    use tidegate::mysql::{GC_GRANTS, GRANTS, MIGRATE_GRANTS};
    for grants in [GRANTS, MIGRATE_GRANTS, GC_GRANTS] {
        assert!(MANUAL.contains(grants), "{grants}");
    }
}

#[test]
fn the_manual_explains_every_counter() {
    let counts = format!("{:?}", GlobeCounts::default());
    let (_, fields) = counts.split_once('{').unwrap();
    for field in fields.split(',').filter_map(|pair| pair.split_once(':')) {
        let name = format!("`{}`", field.0.trim());
        assert!(MANUAL.contains(&name), "{name}");
    }
}
