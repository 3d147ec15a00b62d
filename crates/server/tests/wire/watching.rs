//! The alerts and the dashboard, asked of a real Prometheus that scrapes real servers.

mod prometheus;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_lab::{MariaDbServer, RedisServer};

use crate::support::{DEADLINE, KEY, LIMIT, MULTI_LIMIT, Server, ask, eventually, tidegate};
use prometheus::Prometheus;

const RULES: &str = include_str!("../../../../packaging/prometheus/tidegate.rules.yml");
const UNIT_TESTS: &str = include_str!("../../../../packaging/prometheus/tests.yml");
const DASHBOARD: &str = include_str!("../../../../packaging/grafana/tidegate.json");
const PAGE: &str = include_str!("../../../../docs/operations.md");

/// How long an alert may take to come and to go: a store that is away is asked less and less often,
/// and comes back with a jitter.
const PATIENCE: Duration = Duration::from_secs(90);

/// The alerts, each with what is said about it.
fn alerts() -> Vec<(&'static str, &'static str)> {
    let all: Vec<_> = RULES.split("- alert: ").skip(1).collect();
    all.into_iter().map(|rule| rule.split_once('\n').unwrap()).collect()
}

fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let all = dashboard["panels"].as_array().unwrap().iter();
    all.filter(|panel| panel["type"] != "row").cloned().collect()
}

/// Every question of the dashboard, with what stands for its variables.
fn questions() -> Vec<String> {
    let plain = |target: &Value| {
        let expression = target["expr"].as_str().unwrap();
        let plain = expression.replace("$__rate_interval", "30s");
        let plain = plain.replace("$region", ".*").replace("$instance", ".*");
        assert!(!plain.contains('$'), "{plain}");
        plain
    };
    let targets = |panel: Value| panel["targets"].as_array().unwrap().clone();
    panels().into_iter().flat_map(targets).map(|target| plain(&target)).collect()
}

/// The selectors of an expression: a name, and what follows it in braces.
fn selectors(expression: &str) -> Vec<String> {
    let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let (mut found, mut rest) = (Vec::new(), expression);
    while let Some(start) = rest.find("tidegate_") {
        let from = &rest[start..];
        let end = from.find(|char| !is_word(char)).unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        let labels = after.strip_prefix('{').and_then(|labels| labels.find('}'));
        let labels = labels.map_or("", |end| &after[..=end + 1]);
        found.push(format!("{name}{labels}"));
        rest = after;
    }
    found
}

#[test]
fn promtool_finds_nothing_wrong_and_every_alert_does_as_its_tests_say() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus");
    let run = |args: &[&str]| {
        let ran = Command::new("promtool").args(args).current_dir(&directory).output();
        let ran = ran.unwrap_or_else(|why| panic!("`promtool` ({why}); run `cargo xtask setup`"));
        let said = [ran.stdout, ran.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert!(ran.status.success(), "{args:?}: {said}");
    };
    run(&["check", "rules", "tidegate.rules.yml"]);
    run(&["check", "config", "prometheus.yml"]);
    run(&["test", "rules", "tests.yml"]);
}

#[test]
fn every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_is_quiet() {
    let tests: Vec<&str> = UNIT_TESTS.split("alertname: ").skip(1).collect();
    let tested = |name: &str, quiet: bool| {
        let of = tests.iter().filter_map(|test| test.strip_prefix(name)?.strip_prefix('\n'));
        of.filter(|test| test.trim_start().starts_with("exp_alerts: []") == quiet).count() > 0
    };
    assert!(alerts().len() >= 15);
    for (name, _) in alerts() {
        assert!(tested(name, false), "{name} never fires");
        assert!(tested(name, true), "{name} is never quiet");
    }
    assert!(!tested("NoSuchAlert", true), "one can be missed");
}

#[test]
fn every_alert_says_how_bad_it_is_and_where_it_is_explained() {
    let headings: BTreeSet<String> =
        PAGE.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_owned).collect();
    for (name, rule) in alerts() {
        let of = |key: &str| {
            let line = rule.lines().find_map(|line| line.trim_start().strip_prefix(key));
            line.unwrap_or_else(|| panic!("{name} has no {key}")).trim().to_owned()
        };
        assert!(["critical", "warning", "info"].contains(&of("severity:").as_str()), "{name}");
        assert!(of("summary:").len() > 20, "{name}");
        let anchor = format!("docs/operations.md#{}", name.to_lowercase());
        assert_eq!(of("runbook:"), anchor);
        assert!(headings.contains(name), "docs/operations.md says nothing of {name}");
        let (_, section) = PAGE.split_once(&format!("### {name}\n")).unwrap();
        let section = section.split("\n#").next().unwrap();
        for part in ["What it means.", "What to look at.", "What to do."] {
            assert!(section.contains(part), "{name}: {part}");
        }
        assert!(section.contains(&of("expr:")), "{name} is explained for another expression");
    }
    let known: BTreeSet<String> = alerts().iter().map(|(name, _)| (*name).to_owned()).collect();
    let explained = headings.into_iter().filter(|it| it.starts_with("Tidegate"));
    assert_eq!(explained.collect::<BTreeSet<_>>(), known, "every explained alert is there");
}

#[test]
fn every_panel_says_what_it_shows_and_in_which_unit() {
    let mut ids = BTreeSet::new();
    for panel in panels() {
        let title = panel["title"].as_str().unwrap();
        assert!(!title.is_empty() && ids.insert(panel["id"].to_string()), "{title}");
        assert!(panel["description"].as_str().unwrap().len() > 10, "{title}");
        assert!(!panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap().is_empty(), "{title}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        assert!(!panel["targets"].as_array().unwrap().is_empty(), "{title}");
    }
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let variables: Vec<_> = variables.map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(variables, ["datasource", "region", "instance"]);
    let rows = dashboard["panels"].as_array().unwrap().iter().filter(|it| it["type"] == "row");
    assert_eq!(rows.count(), 8);
}

/// Two regions of one server each, and who looks at them.
struct Watched {
    redis: RedisServer,
    _other: RedisServer,
    _database: MariaDbServer,
    servers: [Server; 2],
    prometheus: Prometheus,
}

impl Watched {
    fn start() -> Self {
        let database = MariaDbServer::start().unwrap();
        let (code, said) =
            Server::run_to_end(&mut tidegate(&["migrate", "--globe", &database.url()]));
        assert_eq!(code, Some(0), "{said}");
        let redis = [RedisServer::start().unwrap(), RedisServer::start().unwrap()];
        let serve = |region: &str, redis: &RedisServer| {
            let (globe, redis) = (database.url(), redis.url());
            let stores = ["--globe", &globe, "--region", region, "--redis", &redis];
            let admin = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
            Server::start_with(&mut tidegate(&[&admin[..], &stores].concat()), KEY)
        };
        let servers = [serve("eu", &redis[0]), serve("us", &redis[1])];
        let [eu, us] = servers.each_ref().map(crate::metrics::admin_of);
        let targets = [(eu.to_string(), "eu"), (us.to_string(), "us")];
        let prometheus = Prometheus::start(&targets);
        let [redis, other] = redis;
        let watched = Self { redis, _other: other, _database: database, servers, prometheus };
        eventually(DEADLINE, || (watched.prometheus.series("up == 1").len() == 2).then_some(()));
        watched
    }

    /// Some requests of every kind.
    fn call(&self) {
        for server in &self.servers {
            let mut client = server.client();
            for _ in 0..3 {
                assert_eq!(client.post(LIMIT, &ask("a", 2, 1)).status, 200);
            }
            let batch = json!([ask("b", 9, 1), ask("c", 9, 1)]);
            assert_eq!(client.post(MULTI_LIMIT, &batch).data()["passed"], true);
            assert_eq!(client.post(LIMIT, &json!({})).status, 400);
        }
    }

    /// Whether the alert about Redis waits or fires for one region.
    fn redis_is_away(&self, region: &str) -> bool {
        let alerts = self.prometheus.alerts("TidegateRedisAway");
        alerts.iter().any(|alert| alert["labels"]["region"] == region)
    }
}

#[test]
fn a_real_prometheus_understands_every_question_and_an_alert_comes_and_goes() {
    let mut watched = Watched::start();
    watched.call();
    let prometheus = &watched.prometheus;
    let named = prometheus.ask("label/__name__/values", &[]);
    let named: BTreeSet<&str> =
        named.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let rules = prometheus.ask("rules", &[]);
    let rules = rules["groups"][0]["rules"].as_array().unwrap().clone();
    assert_eq!(rules.len(), alerts().len());
    let asked = rules.iter().map(|rule| rule["query"].as_str().unwrap().to_owned());
    let mut used = BTreeSet::new();
    for expression in questions().into_iter().chain(asked) {
        prometheus.series(&expression); // no error
        for selector in selectors(&expression) {
            let name = selector.split('{').next().unwrap().to_owned();
            assert!(named.contains(name.as_str()), "nobody has {name}: {expression}");
            let found = prometheus.series(&format!("count({selector})"));
            assert_eq!(found.len(), 1, "{selector} finds nothing: {expression}");
            used.insert(name);
        }
    }
    assert!(used.len() > 50, "{}", used.len());
    let measured = || prometheus.series("tidegate_clock_skew_measured_total > 0").len();
    eventually(DEADLINE, || (measured() == 4).then_some(())); // of Redis and MariaDB, by both
    assert!(prometheus.series("no_such_metric").is_empty(), "one can be missed");
    let healthy = || {
        let rules = watched.prometheus.ask("rules", &[]);
        let rules = rules["groups"][0]["rules"].as_array().unwrap().clone();
        rules.iter().all(|rule| rule["health"] == "ok").then_some(())
    };
    eventually(DEADLINE, healthy);

    assert!(!watched.redis_is_away("eu") && !watched.redis_is_away("us"));
    watched.redis.kill_9();
    eventually(PATIENCE, || watched.redis_is_away("eu").then_some(()));
    assert!(!watched.redis_is_away("us"), "the other region is well");
    assert_eq!(watched.servers[0].client().ask("GET", "/readyz").status, 200);
    watched.redis.restart().unwrap();
    eventually(PATIENCE, || (!watched.redis_is_away("eu")).then_some(()));
}
