//! The reference's writes alone, as fast as Redis takes them: what an admission costs Redis does
//! not depend on the rate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_lab::RedisServer;

use super::wire::Wire;
use super::{LIFE_WINDOWS, WORKERS};
use crate::Failure;
use crate::decide::keys::Script;
use crate::region::lab::Work;
use crate::region::ours::Terms;
use crate::region::time::now;

/// Commands in a round trip while the keys are made.
const FILL_DEPTH: usize = 256;

/// How the workers write.
#[derive(Clone, Copy)]
pub(crate) struct Closed {
    /// Admissions in one round trip: 1 is the reference's.
    pub(crate) depth: usize,
    /// For how long.
    pub(crate) duration: Duration,
}

/// Writes admissions, all to keys that exist: as with ours, the cells are made before the clock
/// starts. Says how many there were, and what Redis did for them.
pub(crate) async fn run(
    server: &RedisServer,
    script: &Arc<Script>,
    terms: Terms,
    closed: Closed,
) -> Result<(u64, Work), Failure> {
    write(server, script, terms, (FILL_DEPTH, None)).await?;
    let before = Work::of(server)?;
    let end = now() + closed.duration;
    let admitted = write(server, script, terms, (closed.depth, Some(end))).await?;
    Ok((admitted, Work::since(server, &before)?))
}

/// Every key once, or until `end`.
async fn write(
    server: &RedisServer,
    script: &Arc<Script>,
    terms: Terms,
    (depth, end): (usize, Option<Instant>),
) -> Result<u64, Failure> {
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let mut wire = Wire::connect(server.port()).await?;
        let script = Arc::clone(script);
        workers.push(tokio::spawn(async move {
            let (mut written, mut at) = (0, worker);
            while end.map_or(at < script.len(), |end| now() < end) {
                let mut keys = Vec::with_capacity(depth);
                for _ in 0..depth {
                    keys.extend(name(&script, at, terms));
                    at += WORKERS;
                }
                written += round_trip(&mut wire, &keys, terms).await?;
            }
            Ok::<u64, Failure>(written)
        }));
    }
    let mut written = 0;
    for worker in workers {
        written += worker.await??;
    }
    Ok(written)
}

async fn round_trip(wire: &mut Wire, keys: &[String], terms: Terms) -> Result<u64, Failure> {
    for key in keys {
        wire.push(&["INCRBY", key, "1"]);
    }
    wire.send().await?;
    let mut first = Vec::new();
    for key in keys {
        if wire.answer().await? == Some(1) {
            first.push(key);
        }
    }
    let life = (LIFE_WINDOWS * terms.window_ms / 1_000).to_string();
    for key in first {
        wire.ask(&["EXPIRE", key, &life]).await?;
    }
    Ok(u64::try_from(keys.len())?)
}

/// The reference's key: the texts as they are. The sequence is any.
fn name(script: &Script, at: usize, terms: Terms) -> Option<String> {
    let key = script.key(at % script.len())?;
    let (workspace, namespace, identifier) = (key.workspace, key.namespace, key.identifier);
    Some(format!("{workspace}-{namespace}-{identifier}-{}:28333334", terms.window_ms))
}
