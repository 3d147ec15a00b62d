//! The same sliding window as a script that Redis runs for every request.

use redis::Script;
use tidegate_lab::RedisServer;

use crate::Failure;

/// One key for each window of a subject; what the window before still weighs is what of it lies
/// within the last window's length.
const SOURCE: &str = "
local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local sequence = math.floor(now / window)
local left = window - now % window
local current = KEYS[1] .. ':' .. sequence
local used = tonumber(redis.call('GET', current) or '0')
local before = tonumber(redis.call('GET', KEYS[1] .. ':' .. (sequence - 1)) or '0')
local weighs = used + math.floor(before * left / window)
if weighs + cost > limit then
  return {0, limit, math.max(limit - weighs, 0), now + left}
end
redis.call('INCRBY', current, cost)
redis.call('PEXPIRE', current, 2 * window)
return {1, limit, limit - weighs - cost, now + left}
";

/// What the script is called by.
pub(super) fn hash() -> String {
    Script::new(SOURCE).get_hash().to_owned()
}

/// The words of one call.
pub(super) fn words(key: &str, limit: u64, window_ms: u64) -> [String; 7] {
    let number = |number: u64| number.to_string();
    let (limit, window) = (number(limit), number(window_ms));
    ["EVALSHA".to_owned(), hash(), number(1), key.to_owned(), limit, window, number(1)]
}

/// The same for the front.
pub(super) fn call(key: &str, limit: u64, window_ms: u64, cost: u64) -> redis::Cmd {
    thread_local! {
        static HASH: String = hash();
    }
    let mut command = redis::cmd("EVALSHA");
    HASH.with(|hash| command.arg(hash).arg(1).arg(key).arg(limit).arg(window_ms).arg(cost));
    command
}

/// Gives the script to a server.
pub(super) fn load(server: &RedisServer) -> Result<(), Failure> {
    let loaded = server.command(&["SCRIPT", "LOAD", SOURCE])?.text();
    if loaded.trim() == hash() { Ok(()) } else { Err(format!("SCRIPT LOAD: {loaded}").into()) }
}
