//! Names are bytes: what differs in anything is another name.

use tidegate_convergence::GlobalError;
use tidegate_stores::control::{Change, ControlError, ID_BYTES_MAX, NAME_BYTES_MAX};

use crate::support::{Place, add_workspace, set_override};

/// Pairs that collations, terminators or trimming would take for the same.
const NAMES: [&str; 12] = [
    "email",
    "EMAIL",
    "email ",
    " email",
    "email\0",
    "email\0\0",
    "\u{e9}",
    "e\u{301}",
    "e",
    "stra\u{df}e",
    "strasse",
    "\u{1f600}",
];

fn named(names: &[&str]) -> Change {
    let names = (0..).zip(names).map(|(n, name)| (format!("rlns_{n}"), (*name).to_owned()));
    Change::AddNamespaces { workspace: "ws".to_owned(), names: names.collect() }
}

#[tokio::test]
async fn names_and_patterns_that_differ_in_anything_are_different() {
    for (_place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        let made = store.make(&named(&NAMES)).await;
        assert_eq!(made.namespaces.len(), NAMES.len());
        for (n, pattern) in NAMES.iter().enumerate() {
            store.make(&set_override(&format!("rlor_{n}"), "rlns_0", pattern, 5)).await;
        }
        let all = store.all().await;
        assert_eq!((all.namespaces.len(), all.overrides.len()), (NAMES.len(), NAMES.len()));
        for (n, name) in NAMES.iter().enumerate() {
            let id = format!("rlns_{n}");
            let row = all.namespaces.iter().find(|row| row.id == id).unwrap();
            assert_eq!(row.name, *name);
            let id = format!("rlor_{n}");
            let row = all.overrides.iter().find(|row| row.id == id).unwrap();
            assert_eq!(row.pattern, *name);
        }
    }
}

#[tokio::test]
async fn the_longest_names_fit_and_longer_ones_are_refused() {
    for (_place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        let longest = "\u{1f600}".repeat(NAME_BYTES_MAX / 4);
        let (other, longer) =
            (format!("x{}", &longest[..longest.len() - 4]), format!("{longest}x"));
        store.make(&named(&[&longest, &other])).await;
        store.make(&set_override("rlor_0", "rlns_0", &longest, 5)).await;
        store.make(&set_override("rlor_1", "rlns_0", &other, 5)).await;
        let all = store.all().await;
        assert!(all.namespaces.iter().any(|row| row.name == longest));
        assert!(all.overrides.iter().any(|row| row.pattern == longest));
        let id = "x".repeat(ID_BYTES_MAX + 1);
        for change in [
            named(&[&longer]),
            set_override("rlor_2", "rlns_0", &longer, 5),
            set_override(&id, "rlns_0", "x", 5),
            set_override("", "rlns_0", "x", 5),
            Change::AddWorkspace { id: "ws_2".to_owned(), name: longer.clone() },
        ] {
            let refused = store.apply(&change).await;
            assert!(
                matches!(refused, Err(ControlError::Store(GlobalError::Refused(_)))),
                "{refused:?}"
            );
        }
        assert_eq!(store.all().await, all);
    }
}
