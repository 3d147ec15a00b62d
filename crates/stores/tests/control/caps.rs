//! There is a most of everything.

use tidegate_stores::control::{
    Change, ControlError, KEYS_MAX, NAMESPACES_AT_ONCE_MAX, NAMESPACES_MAX, OVERRIDES_MAX,
    PERMISSIONS_BYTES_MAX, WORKSPACES_MAX,
};

use crate::support::{Place, add_key, add_namespaces, add_workspace, set_override};

/// Numbers from 0 to 99,999, as a table.
fn numbers() -> String {
    let digits: Vec<String> = (1..10).map(|digit| format!("UNION ALL SELECT {digit}")).collect();
    let digits = format!("(SELECT 0 AS d {})", digits.join(" "));
    format!(
        "(SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n \
         FROM {digits} a, {digits} b, {digits} c, {digits} e, {digits} f) AS t"
    )
}

impl Place {
    /// Writes so many rows; `columns` is said with `#` for bytes that are different in each.
    pub(crate) async fn fill(&self, table: &str, columns: &str, rows: u64) {
        let insert = |bytes: &str| {
            let columns = columns.replace('#', bytes);
            format!("INSERT INTO {table} SELECT {columns} FROM {} WHERE n < {rows}", numbers())
        };
        let server = insert("CAST(CONCAT('fill-', n) AS BINARY)");
        self.either(&server, &insert("CAST('fill-' || n AS BLOB)")).await;
    }
}

fn full(what: &'static str, max: u64) -> Result<(), ControlError> {
    Err(ControlError::Full { what, max })
}

#[tokio::test]
async fn there_is_a_most_of_workspaces_keys_and_namespaces() {
    for (place, store) in Place::ready().await {
        let apply = async |change: &Change| store.apply(change).await.map(drop);
        place.fill("tidegate_workspaces", "#, #, 1, NULL, 5, 1", WORKSPACES_MAX - 1).await;
        assert_eq!(apply(&add_workspace("ws")).await, Ok(()));
        assert_eq!(apply(&add_workspace("ws_2")).await, full("workspaces", WORKSPACES_MAX));
        assert_eq!(apply(&add_workspace("ws")).await, Ok(()), "the one that is there");
        // The id is as good as any for bytes that differ.
        let digest = "x'7773', #, ";
        let fill = format!("#, {digest}D, #, 1, 5, NULL, NULL, 1");
        let (server, file) = ("UNHEX(SHA2(n, 256))", "CAST(printf('%032d', n) AS BLOB)");
        let digest = if matches!(place, Place::Server(_)) { server } else { file };
        place.fill("tidegate_keys", &fill.replace('D', digest), KEYS_MAX - 1).await;
        assert_eq!(apply(&add_key("key_1", "ws", 1)).await, Ok(()));
        assert_eq!(apply(&add_key("key_2", "ws", 2)).await, full("keys", KEYS_MAX));
        assert_eq!(apply(&add_key("key_2", "fill-7", 2)).await, Ok(()), "another workspace");
        // Half of them were deleted: rows stay.
        let fill = "#, x'7773', #, 0, 5, CASE WHEN n % 2 = 0 THEN 6 ELSE NULL END, 1, NULL, NULL";
        place.fill("tidegate_namespaces", fill, NAMESPACES_MAX - 2).await;
        let before = store.all().await.revision;
        let three = add_namespaces(&["a", "b", "c"]);
        assert_eq!(apply(&three).await, full("namespaces", NAMESPACES_MAX), "none of them");
        assert_eq!(store.control().revision().await, Ok(before));
        assert_eq!(apply(&add_namespaces(&["a", "b", "fill-3"])).await, Ok(()));
        assert_eq!(apply(&add_namespaces(&["c"])).await, full("namespaces", NAMESPACES_MAX));
    }
}

#[tokio::test]
async fn there_is_a_most_of_overrides() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        store.make(&add_namespaces(&["email", "sms"])).await;
        let email = "x'726c6e735f656d61696c'";
        let fill = format!("#, {email}, #, 5, 1000, 5, NULL, 1");
        place.fill("tidegate_overrides", &fill, OVERRIDES_MAX - 1).await;
        store.make(&set_override("rlor_1", "rlns_email", "one", 5)).await;
        let refused = store.apply(&set_override("rlor_2", "rlns_email", "two", 5)).await;
        assert_eq!(refused.map(drop), full("overrides", OVERRIDES_MAX));
        store.make(&set_override("rlor_2", "rlns_email", "one", 6)).await;
        store.make(&set_override("rlor_2", "rlns_sms", "two", 5)).await;
    }
}

#[tokio::test]
async fn a_change_has_a_most_of_what_it_carries() {
    for (_place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        let names = |count: usize| {
            let names = (0..count).map(|n| (format!("rlns_{n}"), format!("name-{n}"))).collect();
            Change::AddNamespaces { workspace: "ws".to_owned(), names }
        };
        let key = |permissions: Vec<String>| match add_key("key_1", "ws", 1) {
            Change::AddKey { id, workspace, name, digest, expires_ms, .. } => {
                Change::AddKey { id, workspace, name, digest, permissions, expires_ms }
            }
            other => other,
        };
        for refused in [
            names(NAMESPACES_AT_ONCE_MAX + 1),
            key(vec!["x".repeat(PERMISSIONS_BYTES_MAX)]),
            key(vec!["one\ntwo".to_owned()]),
            key(vec![String::new()]),
        ] {
            assert!(matches!(store.apply(&refused).await, Err(ControlError::Store(_))));
        }
        let made = store.make(&names(NAMESPACES_AT_ONCE_MAX)).await.namespaces;
        assert_eq!(made.len(), NAMESPACES_AT_ONCE_MAX);
        let most = vec!["x".repeat(PERMISSIONS_BYTES_MAX - 3), "y".to_owned()];
        assert_eq!(store.make(&key(most.clone())).await.keys[0].permissions, most);
        assert_eq!(store.all().await.keys[0].permissions, most);
    }
}
