//! The admin listener: metrics and health, for those who look after a server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::json;
use tidegate_lab::RedisServer;

#[cfg(feature = "tls")]
use crate::support::data_dir;
use crate::support::{Client, DEADLINE, KEY, LIMIT, Server, WINDOW_MS, ask, eventually, tidegate};

/// A server with an admin listener, and where that is.
fn start() -> (Server, SocketAddr) {
    start_saying(&[])
}

/// The same, with more to say.
fn start_saying(more: &[&str]) -> (Server, SocketAddr) {
    let server = Server::start_saying(&[&["--admin-listen", "127.0.0.1:0"], more].concat());
    let admin = admin_of(&server);
    (server, admin)
}

/// Where the admin listener of a server is, as it says.
pub(crate) fn admin_of(server: &Server) -> SocketAddr {
    let line = server.wait_for_line("/metrics");
    let admin = line.split("http://").nth(1).and_then(|url| url.strip_suffix("/metrics"));
    admin.unwrap().parse().unwrap()
}

/// One request on a connection of its own: the head of the reply, and its body.
fn look(admin: SocketAddr, method: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

pub(crate) fn scrape(admin: SocketAddr) -> String {
    let (head, body) = look(admin, "GET", "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(
        head.to_ascii_lowercase().contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    body
}

/// The value of a series.
pub(crate) fn value(metrics: &str, series: &str) -> f64 {
    let found = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {series} in {metrics}")).parse().unwrap()
}

/// All series, without their values.
fn names(metrics: &str) -> Vec<&str> {
    let series = metrics.lines().filter(|line| !line.starts_with('#'));
    series.filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect()
}

const ADMITTED: &str =
    r#"tidegate_decisions_total{verdict="admitted",source="local",reason="none"}"#;
const DENIED: &str = r#"tidegate_decisions_total{verdict="denied",source="local",reason="limit"}"#;

#[test]
fn thousands_of_identifiers_make_no_series_and_hostile_names_no_label() {
    let (server, admin) = start();
    let before = scrape(admin);
    let mut client = server.client();
    let hostile = "hush\"}\n tidegate_admitted 1\n{\\";
    let item = |namespace: &str, identifier: String| {
        let limit = json!({"namespace": namespace, "identifier": identifier});
        let mut limit = limit.as_object().unwrap().clone();
        limit.extend([("limit".to_owned(), json!(1)), ("duration".to_owned(), json!(WINDOW_MS))]);
        limit
    };
    for batch in 0..30 {
        let items: Vec<_> =
            (0..100).map(|n| item("crowd", format!("{hostile}{batch}-{n}"))).collect();
        let reply = client.post("/v2/ratelimit.multiLimit", &json!(items));
        assert_eq!(reply.data()["passed"], true);
    }
    let one = json!(item(hostile, hostile.to_owned()));
    assert_eq!(client.post(LIMIT, &one).data()["success"], true);
    assert_eq!(client.post(LIMIT, &one).data()["success"], false);
    let after = scrape(admin);
    assert_eq!(names(&before), names(&after));
    assert!(!after.contains("hush") && !after.contains("crowd"), "{after}");
    assert_eq!((value(&after, ADMITTED), value(&after, DENIED)), (3_001.0, 1.0));
    assert_eq!(value(&after, "tidegate_subjects"), 3_001.0);
    assert_eq!(value(&after, "tidegate_namespaces"), 2.0);
    assert_eq!(value(&after, "tidegate_keys"), 1.0);
}

#[test]
fn a_thousand_namespaces_and_a_thousand_keys_make_no_series() {
    let (server, admin) = start();
    let mut client = server.client();
    let item = |n: usize| {
        let (namespace, mut item) = (format!("space-{n}"), ask("i", 1, 1));
        item["namespace"] = json!(namespace);
        item
    };
    let before = scrape(admin);
    for batch in 0..10 {
        let items: Vec<_> = (0..100).map(|n| item(batch * 100 + n)).collect();
        let reply = client.post("/v2/ratelimit.multiLimit", &json!(items));
        assert_eq!(reply.data()["passed"], true);
    }
    for n in 0..1_000 {
        let mut stranger = Client::connect(server.address, &format!("key-{n}"));
        assert_eq!(stranger.post(LIMIT, &ask("a", 1, 1)).status, 401);
    }
    let after = scrape(admin);
    assert_eq!(names(&before), names(&after));
    assert_eq!(value(&after, "tidegate_namespaces"), 1_000.0);
    assert_eq!(value(&after, r#"tidegate_requests_refused_total{status="401"}"#), 1_000.0);
    assert_eq!(value(&after, r#"tidegate_request_seconds_count{call="limit"}"#), 0.0);
    assert_eq!(value(&after, r#"tidegate_request_seconds_count{call="other"}"#), 1_000.0);
    assert_eq!(value(&after, r#"tidegate_request_seconds_count{call="multi_limit"}"#), 10.0);
    assert!(!after.contains("space-") && !after.contains("key-"), "{after}");
}

#[test]
fn decisions_of_single_workspaces_are_counted_if_they_are_asked_for_and_no_more_than_so_many() {
    let (_plain, admin) = start();
    assert!(!scrape(admin).contains("workspace="), "nobody asked");
    let (server, admin) = start_saying(&["--metrics-workspaces", "1"]);
    let mut client = server.client();
    for _ in 0..3 {
        assert_eq!(client.post(LIMIT, &ask("a", 2, 1)).status, 200);
    }
    let metrics = scrape(admin);
    let own: Vec<&str> =
        names(&metrics).into_iter().filter(|name| name.contains("workspace=\"ws_")).collect();
    assert_eq!(own.len(), 2, "{own:?}");
    let of = |verdict: &str| {
        let series = own.iter().find(|name| name.contains(verdict)).unwrap();
        value(&metrics, series)
    };
    assert_eq!((of("admitted"), of("denied")), (2.0, 1.0));
    let other = r#"tidegate_workspace_decisions_total{workspace="other",verdict="admitted"}"#;
    assert_eq!(value(&metrics, other), 0.0);
}

#[test]
fn how_a_process_stands_is_in_the_metrics() {
    let (server, admin) = start();
    let mut idle = server.client();
    assert_eq!(idle.ask("GET", "/livez").status, 200);
    let metrics = scrape(admin);
    assert_eq!(value(&metrics, "tidegate_connections"), 1.0, "those who look do not count");
    assert!(value(&metrics, "tidegate_connections_max") >= 1.0);
    assert_eq!(value(&metrics, "tidegate_memory_budget_bytes"), f64::from(256 << 20));
    assert!(value(&metrics, "tidegate_memory_accounted_bytes") > 0.0);
    assert!(value(&metrics, "tidegate_process_start_time_seconds") > 1.7e9);
    assert_eq!(value(&metrics, "tidegate_settings_read"), 1.0);
    let version = format!("tidegate_build_info{{version=\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(names(&metrics).iter().any(|name| name.starts_with(&version)), "{metrics}");
}

#[test]
fn what_is_said_to_the_region_is_in_the_metrics() {
    let redis = RedisServer::start().unwrap();
    let (server, admin) = start_saying(&["--redis", &redis.url()]);
    assert_eq!(server.client().post(LIMIT, &ask("a", 10, 1)).data()["success"], true);
    let rises = |series: &'static str| {
        eventually(DEADLINE, || (value(&scrape(admin), series) > 0.0).then_some(()));
    };
    rises("tidegate_region_calls_total");
    rises(r#"tidegate_clock_skew_measured_total{store="region"}"#);
    let skew = value(&scrape(admin), r#"tidegate_clock_skew_seconds{store="region"}"#);
    assert!(skew.abs() < 2.0, "both clocks are this machine's: {skew}");
    let took = scrape(admin);
    let took = |operation: &str| {
        let labels = format!("{{store=\"region\",operation=\"{operation}\"}}");
        value(&took, &format!("tidegate_store_call_seconds_count{labels}"))
    };
    assert!(took("refresh") + took("ask") >= 1.0, "somebody waited for the region");
    let closed = r#"tidegate_breaker_state{store="region",work="refresh",state="closed"}"#;
    assert_eq!(value(&scrape(admin), closed), 1.0);
    assert_eq!(value(&scrape(admin), "tidegate_region_losses_total"), 0.0);
    drop(redis);
    rises("tidegate_region_calls_failed_total");
}

#[test]
fn health_is_on_both_listeners_and_nothing_else_is() {
    let (server, admin) = start();
    for path in ["/livez", "/readyz"] {
        assert!(look(admin, "GET", path).0.starts_with("HTTP/1.1 200 "));
        assert_eq!(server.client().ask("GET", path).status, 200);
    }
    assert!(look(admin, "HEAD", "/metrics").0.starts_with("HTTP/1.1 200 "));
    assert!(look(admin, "POST", "/metrics").0.starts_with("HTTP/1.1 405 "));
    assert!(look(admin, "GET", LIMIT).0.starts_with("HTTP/1.1 404 "));
    assert_eq!(server.client().ask("GET", "/metrics").status, 404, "callers see no metrics");
}

#[test]
fn a_server_that_retires_says_so_until_it_ends() {
    let (mut server, admin) = start_saying(&["--retire-for", "1h"]);
    server.signal("TERM");
    let retires = || look(admin, "GET", "/readyz").0.starts_with("HTTP/1.1 503 ").then_some(());
    eventually(DEADLINE, retires);
    assert_eq!(value(&scrape(admin), "tidegate_retiring"), 1.0);
    server.signal("TERM");
    assert!(server.wait_for_end().success());
}

#[test]
fn those_who_only_sit_there_keep_nobody_from_calling() {
    let (server, admin) = start();
    let sitting: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(admin).unwrap()).collect();
    let mut client = Client::connect(server.address, KEY);
    assert_eq!(client.ask("GET", "/readyz").status, 200);
    scrape(admin);
    drop(sitting);
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let serve = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0"];
    for more in [&[][..], &["--plain-http"]] {
        let (code, said) = Server::run_to_end(&mut tidegate(&[&serve, more].concat()));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("--admin-exposed") && said.contains("--admin-listen"), "{said}");
    }
    let exposed = |value| {
        let mut command = tidegate(&serve);
        command.env("TIDEGATE_ADMIN_EXPOSED", value);
        command
    };
    let (code, said) = Server::run_to_end(&mut exposed("0"));
    assert!(code == Some(2) && said.contains("--admin-exposed"), "{said}");
    let server = Server::start_with(&mut exposed("1"), KEY);
    scrape(admin_of(&server));
}

#[cfg(feature = "tls")]
#[test]
fn a_server_with_tls_can_show_its_metrics_to_others() {
    let certificate = tidegate_lab::Certificate::new().unwrap();
    let home = data_dir();
    std::fs::create_dir_all(&home).unwrap();
    let file = |name: &str, pem: &str| {
        let path = home.join(name);
        std::fs::write(&path, pem).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (cert, key) = (file("c.pem", certificate.pem()), file("k.pem", certificate.key_pem()));
    let args = ["--tls-cert", &cert, "--tls-key", &key, "--admin-listen", "0.0.0.0:0"];
    let server = Server::start_saying(&[&args[..], &["--admin-exposed"]].concat());
    scrape(admin_of(&server));
}
