//! A trial says what a server does: a trace through both, and every verdict is compared.

use std::sync::Mutex;

use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use tidegate_trial::{
    Call, Decide, Fields, GenerateOptions, Generated, OneProcess, Plan, Policy, StoreWork,
    TopologyFacts, Traffic, Trial, Verdict,
};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::accept::{Entrance, Limits};

/// Two limits, of which the second is for some calls only: so some are singles, some batches.
const POLICY: &str = r#"
[[limit]]
name = "per-ip"
by = "ip"
limit = 30
window = "10s"
[[limit.override]]
identifier = "10.0.0.1*"
limit = 3
[[limit.override]]
identifier = "10.*.7"
limit = 50
window = "20s"
[[limit]]
name = "post"
by = "user"
limit = 5
window = "1m"
cost = 2
when = { method = "POST" }
[[limit.override]]
identifier = "user-4"
limit = 0
"#;
const REQUESTS: u64 = 6_000;
const WINDOW_MS: u64 = 10_000;
/// Far more than it takes.
const PATIENCE: Duration = Duration::from_secs(240);

/// A call as the trial decided it: limits, identifiers and costs.
struct Tried {
    at_unix_ms: u64,
    items: Vec<(usize, String, u64)>,
    verdict: Verdict,
}

/// Decides as a trial does, and keeps what was decided.
struct Recorder {
    one: OneProcess,
    tried: Arc<Mutex<Vec<Tried>>>,
}

impl Decide for Recorder {
    fn offer(&mut self, call: &Call<'_>, verdicts: &mut Vec<Verdict>) {
        self.one.offer(call, verdicts);
        let verdict = *verdicts.last().unwrap();
        assert_eq!(verdict.call, call.number);
        let items = call.checks.iter().map(|it| (it.limit, it.name.to_owned(), it.cost)).collect();
        self.tried.lock().unwrap().push(Tried { at_unix_ms: call.at_unix_ms, items, verdict });
    }

    fn finish(&mut self, verdicts: &mut Vec<Verdict>) {
        self.one.finish(verdicts);
    }

    fn store_work(&self) -> Option<StoreWork> {
        None
    }
}

/// The trace, as a trial decides it.
fn trial(policy: &Policy) -> Vec<Tried> {
    let tried = Arc::default();
    let recorder = Recorder { one: OneProcess::default(), tried: Arc::clone(&tried) };
    let plan = Plan {
        policies: vec![(policy.clone(), Box::new(recorder))],
        suggest: None,
        topology: TopologyFacts::default(),
        top: 0,
    };
    let mut fields = Fields::default();
    let trial = Trial::new(plan, &mut fields);
    let options = GenerateOptions {
        traffic: Traffic::BoundaryHugging,
        requests: REQUESTS,
        identifiers: 40,
        duration_ms: 30 * WINDOW_MS,
        window_ms: WINDOW_MS,
        start_unix_ms: MINUTE_MS,
        ..GenerateOptions::default()
    };
    trial.run(&mut Generated::new(&options, fields).unwrap(), &mut |_| {}).unwrap();
    std::mem::take(&mut tried.lock().unwrap())
}

/// A door that is reached over a socket, and whose clock is stepped.
struct Served {
    world: World,
    client: SendRequest<Full<Bytes>>,
    now_ms: u64,
}

impl Served {
    /// With the namespaces and overrides of a policy.
    async fn new(policy: &Policy) -> Self {
        let world = World::new().await;
        for limit in &policy.limits {
            let first = json!({"namespace": limit.name, "identifier": "nobody", "limit": 1,
                               "duration": limit.window_ms, "cost": 0});
            world.data("limit", first).await;
            for one in limit.overrides.as_slice() {
                let duration = one.window_ms.unwrap_or(limit.window_ms);
                let body = json!({"namespace": limit.name, "identifier": one.pattern,
                                  "limit": one.limit, "duration": duration});
                world.data("setOverride", body).await;
            }
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = Limits { connections_max: 10, per_address_max: 10 };
        let mut entrance = Entrance::new(listener, Arc::clone(&world.door), limits, None);
        tokio::spawn(async move { entrance.accept_until(std::future::pending()).await });
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (client, connection) = handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self { world, client, now_ms: MINUTE_MS }
    }

    /// Time passes, and a call comes. Whether it was admitted, and a bit for each item without
    /// room.
    async fn verdict(&mut self, policy: &Policy, tried: &Tried) -> (bool, u128) {
        let passed = Duration::from_millis(tried.at_unix_ms - self.now_ms);
        self.world.clock.advance(passed);
        self.now_ms = tried.at_unix_ms;
        let bodies = tried.items.iter().map(|item| body(policy, item)).collect::<Vec<_>>();
        if let [one] = bodies.as_slice() {
            let data = self.post(LIMIT_PATH, one).await;
            let admitted = data["success"].as_bool().unwrap();
            return (admitted, u128::from(!admitted));
        }
        let data = self.post(MULTI_LIMIT_PATH, &Value::from(bodies)).await;
        let items = data["limits"].as_array().unwrap().iter().enumerate();
        let full = items.fold(0, |full, (at, item)| {
            full | u128::from(!item["passed"].as_bool().unwrap()) << at
        });
        (data["passed"].as_bool().unwrap(), full)
    }

    async fn post(&mut self, path: &str, body: &Value) -> Value {
        let mut request = post(path, body);
        request.headers_mut().insert(HOST, "localhost".parse().unwrap());
        self.client.ready().await.unwrap();
        let reply = self.client.send_request(request).await.unwrap();
        let status = reply.status();
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        serde_json::from_slice::<Value>(&body).unwrap()["data"].clone()
    }
}

/// What a client sends: the limit's own numbers. Overrides are the server's affair.
fn body(policy: &Policy, (limit, identifier, cost): &(usize, String, u64)) -> Value {
    let limit = &policy.limits[*limit];
    json!({"namespace": limit.name, "identifier": identifier, "limit": limit.limit,
           "duration": limit.window_ms, "cost": cost})
}

#[tokio::test]
async fn a_trial_decides_every_call_as_a_live_server_does() {
    let policy = Policy::parse("policy.toml", POLICY).unwrap();
    let tried = trial(&policy);
    let replayed = async {
        let mut served = Served::new(&policy).await;
        for (number, one) in tried.iter().enumerate() {
            let expected = (one.verdict.admitted, one.verdict.full);
            let said = served.verdict(&policy, one).await;
            assert_eq!(said, expected, "call {number}, {:?} at {}", one.items, one.at_unix_ms);
        }
    };
    tokio::time::timeout(PATIENCE, replayed).await.unwrap();
    // What was exercised: a trace that shows nothing proves nothing.
    let count = |such: &dyn Fn(&Tried) -> bool| tried.iter().filter(|one| such(one)).count();
    assert_eq!(tried.len() as u64, REQUESTS);
    for (what, many) in [
        ("admitted", count(&|one| one.verdict.admitted)),
        ("denied", count(&|one| !one.verdict.admitted)),
        ("singles", count(&|one| one.items.len() == 1)),
        ("batches denied by one item", count(&|one| matches!(one.verdict.full, 1 | 2))),
        ("around a boundary", count(&|one| (one.at_unix_ms + 50) % WINDOW_MS < 100)),
        ("of an override", count(&|one| one.items[0].1.ends_with(".7"))),
    ] {
        assert!(many >= 300, "{what}: {many}");
    }
    let boundary = count(&|one| one.at_unix_ms.is_multiple_of(WINDOW_MS));
    assert!(boundary > 0, "in the first moment of a window: {boundary}");
}
