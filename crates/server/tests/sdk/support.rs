//! Starting the binary and waiting, as the tests of the wire do.

#[path = "../wire/support/http.rs"]
#[expect(dead_code, reason = "here it is others who speak HTTP")]
mod http;
#[path = "../wire/support/place.rs"]
#[expect(dead_code, reason = "the tests of the wire use more of it")]
mod place;
#[path = "../wire/support/server.rs"]
#[expect(dead_code, reason = "the tests of the wire use more of it")]
mod server;

use std::time::Duration;

use http::Client;
use place::Place;
use serde_json::json;
pub(crate) use server::Server;
use server::{KEY, data_dir, tidegate};
use tidegate_lab::RedisServer;

/// Long enough for a server to start, on the slowest machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// A server, and callers who may not do everything there.
pub(crate) struct Settled {
    pub(crate) server: Server,
    /// A key that may look, and neither spend nor touch overrides.
    pub(crate) powerless: String,
    /// A key of a workspace that may make no calls.
    pub(crate) throttled: String,
}

impl Settled {
    /// A namespace that was deleted.
    pub(crate) const DELETED: &str = "deleted-namespace";

    /// `args` say where it is.
    pub(crate) fn start(args: &[&str]) -> Self {
        let place = Place::file();
        let (powerless, _) = place.key(&["--permission", "ratelimit.*.look"]);
        place.run(&["workspace", "create", "capped"], 0);
        place.run(&["workspace", "set", "capped", "--requests-per-minute", "0"], 0);
        let (throttled, _) = place.key(&["--workspace", "capped"]);
        let args = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        let server = Server::start_with(&mut place.command(&args), KEY);
        let (mut client, name) = (server.client(), Self::DELETED);
        let body = json!({"namespace": name, "identifier": "a", "limit": 1, "duration": 1_000});
        let mut status = || client.post("/v2/ratelimit.limit", &body).status;
        assert_eq!(status(), 200);
        place.run(&["namespace", "delete", name], 0);
        eventually(DEADLINE, || (status() == 410).then_some(()));
        Self { server, powerless, throttled }
    }

    /// One that shares its limits, and says in every reply how well it knew them.
    pub(crate) fn in_region(redis: &RedisServer) -> Self {
        Self::start(&["--redis", &redis.url()])
    }
}

/// Waits until `condition` gives something.
pub(crate) fn eventually<T>(deadline: Duration, condition: impl FnMut() -> Option<T>) -> T {
    tidegate_lab::eventually("what is waited for happens", deadline, condition)
        .unwrap_or_else(|why| panic!("{why}"))
}
