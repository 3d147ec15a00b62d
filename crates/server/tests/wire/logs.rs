//! What a server says while it runs, to programs and to people, and what it never says.

use std::process::Command;

use serde_json::{Value, json};
use tidegate_lab::{MariaDbServer, RedisOptions, RedisServer};

use crate::support::{
    Client, DEADLINE, KEY, LIMIT, MULTI_LIMIT, Server, WINDOW_MS, ask, data_dir, eventually,
    tidegate,
};

const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

/// Every line, each of which is one object.
fn lines(server: &Server) -> Vec<Value> {
    let read = |line: &String| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        for field in ["time", "level", "event", "message"] {
            assert!(value[field].is_string(), "{line}");
        }
        value
    };
    server.warned().iter().map(read).collect()
}

fn event(server: &Server, name: &str) -> Value {
    eventually(DEADLINE, || lines(server).into_iter().find(|line| line["event"] == name))
}

#[test]
fn programs_are_told_of_the_beginning_and_the_end() {
    let mut server = Server::start_for_programs(&mut tidegate(&SERVE), KEY);
    let started = event(&server, "started");
    assert_eq!((&started["tls"], &started["root_key"]), (&json!(false), &json!("given")));
    assert_eq!(started["memory_bytes"], 256 << 20);
    let mut client = server.client();
    for success in [true, false] {
        assert_eq!(client.post(LIMIT, &ask("a", 1, 1)).data()["success"], success);
    }
    server.signal("TERM");
    assert_eq!(server.wait_for_end().code(), Some(0));
    event(&server, "stopping");
    let stopped = event(&server, "stopped");
    assert_eq!((&stopped["admitted"], &stopped["denied"]), (&json!(1), &json!(1)));
    let all = lines(&server);
    assert_eq!(all.len(), 3, "a request is no event: {all:?}");
    assert_eq!(server.said(), [""; 0], "nothing is said twice");
}

#[test]
fn a_server_that_nobody_watches_puts_its_first_key_into_a_file() {
    let data = data_dir();
    let start = || {
        let mut command = tidegate(&SERVE);
        command.env_remove("TIDEGATE_ROOT_KEY").env("TIDEGATE_DATA", &data);
        Server::start_for_programs(&mut command, "")
    };
    let first = start();
    let path = event(&first, "key_made")["path"].as_str().unwrap().to_owned();
    assert_eq!(path, data.join("root-key").display().to_string());
    let key = std::fs::read_to_string(&path).unwrap().trim().to_owned();
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let mode = std::fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    }
    let mut client = Client::connect(first.address, &key);
    assert_eq!(client.post(LIMIT, &ask("a", 1, 1)).data()["success"], true);
    assert!(!first.warned().join("\n").contains(&key));
    drop(first);
    std::fs::remove_file(&path).unwrap();
    let second = start();
    assert_eq!(event(&second, "started")["root_key"], "known");
    assert!(!std::path::Path::new(&path).exists(), "it is made once");
}

#[test]
fn a_start_that_fails_is_an_event_too() {
    let mut command = tidegate(&[&SERVE[..], &["--redis", "s3cret"]].concat());
    let (code, said) = Server::run_to_end(command.env("TIDEGATE_LOG_FORMAT", "json"));
    assert_eq!(code, Some(2), "{said}");
    let line: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!((&line["event"], &line["level"]), (&json!("not_started"), &json!("error")));
    assert!(line["why"].as_str().unwrap().contains("TIDEGATE_REDIS") && !said.contains("s3cret"));
}

#[test]
fn a_region_that_comes_and_goes_is_said_each_time() {
    let mut redis = RedisServer::start().unwrap();
    let url = redis.url();
    let args = [&SERVE[..], &["--redis", &url]].concat();
    let server = Server::start_for_programs(&mut tidegate(&args), KEY);
    let mut client = server.client();
    client.post(LIMIT, &ask("a", 100, 1));
    redis.kill_9();
    eventually(DEADLINE, || {
        client.post(LIMIT, &ask("a", 100, 1));
        lines(&server).into_iter().find(|line| line["event"] == "region_away")
    });
    redis.restart().unwrap();
    let back = event(&server, "region_back");
    assert!(back["away_ms"].as_u64().is_some(), "{back}");
    event(&server, "region_lost_data");
}

/// What must never be seen: each is found by its first word.
const SECRETS: [&str; 8] = [
    "canaryrootkey",
    "canaryotherkey",
    "canaryredispassword",
    "canarymysqlpassword",
    "canaryonce",
    "canaryidentifier",
    "canarynamespace",
    // The fleet secret, which is hexadecimal.
    "c0ffeec0ffee",
];

/// Stores that are reached with passwords, and a server that has everything that is secret.
struct Guarded {
    redis: RedisServer,
    database: MariaDbServer,
    server: Server,
}

impl Guarded {
    fn start(start: impl Fn(&mut Command, &str) -> Server) -> Self {
        let users = "user default on nopass ~* &* +@all\n\
                     user tidegate on >canaryredispassword ~tg:* &* +@all";
        // What is kept can be read as it is.
        let options = RedisOptions::new().set("rdbcompression", "no");
        let redis = RedisServer::start_with(&options.acl(users)).unwrap();
        let database = MariaDbServer::start().unwrap();
        let (code, said) =
            Server::run_to_end(&mut tidegate(&["migrate", "--globe", &database.url()]));
        assert_eq!(code, Some(0), "{said}");
        database
            .query(
                "CREATE USER 'tidegate'@'%' IDENTIFIED BY 'canarymysqlpassword'; \
                 GRANT ALL ON *.* TO 'tidegate'@'%'",
            )
            .unwrap();
        let globe =
            format!("mysql://tidegate:canarymysqlpassword@127.0.0.1:{}/tidegate", database.port());
        let mut command = tidegate(&[&SERVE[..], &["--log-level", "debug"]].concat());
        command
            .env("TIDEGATE_ROOT_KEY", "canaryrootkey")
            .env("TIDEGATE_FLEET_SECRET", "c0ffee".repeat(11).get(..64).unwrap())
            .env(
                "TIDEGATE_REDIS",
                format!("redis://tidegate:canaryredispassword@{}", redis.address()),
            )
            .env("TIDEGATE_GLOBE", globe)
            .env("TIDEGATE_REGION", "eu");
        let server = start(&mut command, "canaryrootkey");
        Self { redis, database, server }
    }

    /// Good calls and bad ones, with secrets wherever they can be.
    fn call(&self) {
        let mut client = self.server.client();
        let body = json!({
            "namespace": "canarynamespace\n\u{1b}[2J",
            "identifier": "canaryidentifier\r\nX: y",
            "limit": 1_000, "duration": WINDOW_MS,
        });
        for _ in 0..3 {
            client.post(LIMIT, &body);
        }
        client.post(MULTI_LIMIT, &json!([body, body]));
        let framing =
            format!("Idempotency-Key: canaryonce\r\nContent-Length: {}", body.to_string().len());
        for _ in 0..2 {
            let head = client.head(LIMIT, &framing);
            client.send(&[head.as_bytes(), body.to_string().as_bytes()]);
            client.reply();
        }
        client.post_bytes(LIMIT, b"{\"identifier\":\"canaryidentifier\",");
        client.post(LIMIT, &json!({"namespace": "canarynamespace", "canaryidentifier": 1}));
        client.post("/v2/ratelimit.setOverride", &body);
        client.post("/v2/canaryidentifier", &body);
        let mut stranger = Client::connect(self.server.address, "canaryotherkey");
        assert_eq!(stranger.post(LIMIT, &body).status, 401);
    }

    /// Takes everything through good and bad, up to the end. Gives all that was said.
    fn endure(mut self) -> (Vec<String>, Vec<String>) {
        self.call();
        self.redis.kill_9();
        self.database.kill_9();
        self.call();
        self.server.wait_for_warning("region_away");
        self.server.wait_for_warning("settings_unreadable");
        self.redis.restart().unwrap();
        self.database.restart().unwrap();
        self.server.wait_for_warning("region_back");
        self.server.wait_for_warning("settings_back");
        // What Redis says to a wrong password, and to a right that is missing.
        self.redis
            .command(&["ACL", "SETUSER", "tidegate", "resetpass", ">other", "-@all"])
            .unwrap();
        self.redis.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
        self.call();
        let aways =
            || self.server.warned().iter().filter(|line| line.contains("region_away")).count();
        eventually(DEADLINE, || {
            self.call();
            (aways() >= 2).then_some(())
        });
        self.server.signal("TERM");
        self.server.wait_for_end();
        (self.server.said(), self.server.warned())
    }
}

fn holds_no_secret(said: &[String]) {
    for line in said {
        assert!(!line.chars().any(|char| char.is_control()), "{line:?}");
        for secret in SECRETS {
            assert!(!line.contains(secret), "{line:?}");
        }
    }
}

#[test]
fn no_secret_is_told_to_programs_whatever_happens() {
    let (said, warned) = Guarded::start(Server::start_for_programs).endure();
    assert_eq!(said, [""; 0]);
    holds_no_secret(&warned);
    for line in &warned {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(line.is_object());
    }
}

#[test]
fn no_secret_is_told_to_people_whatever_happens() {
    let (said, warned) = Guarded::start(Server::start_with).endure();
    holds_no_secret(&[said, warned].concat());
}

#[test]
fn stores_hold_digests_and_no_identifier() {
    let guarded = Guarded::start(Server::start_for_programs);
    guarded.call();
    // So much that other regions are told.
    let mut body = ask("canaryidentifier", 100, 90);
    body["namespace"] = json!("canarynamespace");
    assert_eq!(guarded.server.client().post(LIMIT, &body).data()["success"], true);
    let held = || -> Vec<String> {
        let keys = guarded.redis.command(&["KEYS", "*"]).unwrap();
        let keys = keys.items().iter().map(tidegate_lab::Value::text);
        let dump = |key: &str| guarded.redis.command(&["DUMP", key]).unwrap();
        keys.map(|key| format!("{key} {}", dump(&key).text())).collect()
    };
    let is_cell = |text: &String| text.split_once(' ').unwrap().0.split(':').count() == 5;
    eventually(DEADLINE, || held().iter().any(is_cell).then_some(()));
    assert_eq!(held().iter().filter(|text| text.contains("canary")).count(), 0, "{:?}", held());
    let probe = "canaryprobe".repeat(9);
    guarded.redis.command(&["HSET", "probe", "s", &probe]).unwrap();
    assert!(held().iter().any(|text| text.contains(&probe)), "it would be found");
    let query = |sql: &str| guarded.database.query(sql).unwrap();
    eventually(DEADLINE, || {
        let rows = query("SELECT COUNT(*) FROM tidegate.tidegate_feed");
        (rows.concat().concat() != "0").then_some(())
    });
    for table in ["feed", "regions", "keys", "workspaces", "revision"] {
        let rows = format!("{:?}", query(&format!("SELECT * FROM tidegate.tidegate_{table}")));
        assert!(!rows.contains("canary"), "{table}: {rows}");
    }
    // Names of namespaces, and what an operator set by hand, are settings: there they are.
    let names = format!("{:?}", query("SELECT * FROM tidegate.tidegate_namespaces"));
    assert!(names.contains("canarynamespace") && !names.contains("canaryidentifier"), "{names}");
}
