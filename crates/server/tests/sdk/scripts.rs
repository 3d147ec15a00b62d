//! Our scripts, each of which uses published clients.

use tidegate_lab::RedisServer;

use crate::program::{Home, node, python};
use crate::support::{Server, Settled};

#[test]
fn the_typescript_limiter_works_unmodified() {
    let (server, home) = (Server::start(), Home::new());
    node(&home, "ratelimit.mjs").against(&server).succeeds();
}

#[test]
fn the_typescript_client_works_unmodified() {
    let (server, home) = (Server::start(), Home::new());
    node(&home, "api.mjs").against(&server).succeeds();
    node(&home, "overrides.mjs").against(&server).succeeds();
    node(&home, "idempotency.mjs").against(&server).succeeds();
}

#[test]
fn the_python_client_works_unmodified() {
    let settled = Settled::start(&[]);
    python("client.py").against_settled(&settled).succeeds();
    python("control.py").against_settled(&settled).succeeds();
}

#[test]
fn what_may_not_be_done_is_a_typed_error_of_the_typescript_clients() {
    let (settled, home) = (Settled::start(&[]), Home::new());
    node(&home, "rights.mjs").against_settled(&settled).succeeds();
}

#[test]
fn all_of_them_understand_a_server_in_a_region() {
    let (redis, home) = (RedisServer::start().unwrap(), Home::new());
    all_understand(&home, &Settled::in_region(&redis));
}

#[test]
fn all_of_them_understand_a_server_whose_region_is_away() {
    let (mut redis, home) = (RedisServer::start().unwrap(), Home::new());
    let settled = Settled::in_region(&redis);
    redis.kill_9();
    all_understand(&home, &settled);
}

fn all_understand(home: &Home, settled: &Settled) {
    for script in ["ratelimit.mjs", "overrides.mjs", "idempotency.mjs", "rights.mjs"] {
        node(home, script).against_settled(settled).succeeds();
    }
    node(home, "api.mjs").against_settled(settled).with_added("source,ageMs,degraded").succeeds();
    for script in ["client.py", "control.py"] {
        python(script).against_settled(settled).succeeds();
    }
}
