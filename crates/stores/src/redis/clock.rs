//! What the server takes for the time.

use redis::{Pipeline, Value};
use tidegate_convergence::{Shard, StoreError};

use super::RedisStore;
use super::script::Tag;

impl RedisStore {
    /// The server's clock, in ms since 1970. Of a cluster, that of one server.
    ///
    /// ```
    /// # let server = tidegate_lab::RedisServer::start()?;
    /// # let url = server.url();
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let store = tidegate_stores::RedisStore::new(url.parse()?, 42)?;
    /// assert!(store.clock_unix_ms().await? > 1_700_000_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub async fn clock_unix_ms(&self) -> Result<u64, StoreError> {
        let link = self.route.link(Tag::Shard(Shard(0))).await?;
        let mut commands = Pipeline::new();
        commands.cmd("TIME");
        let answered = link.ask(commands).await?;
        let time = answered.values.first().and_then(read);
        time.ok_or_else(|| StoreError::Refused("TIME gave a strange answer".to_owned()))
    }
}

/// Seconds and microseconds, as text.
fn read(value: &Value) -> Option<u64> {
    let Value::Array(parts) = value else { return None };
    let number = |part: Option<&Value>| match part? {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse::<u64>().ok(),
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    let (seconds, micros) = (number(parts.first())?, number(parts.get(1))?);
    Some(seconds.saturating_mul(1_000).saturating_add(micros / 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_microseconds_become_milliseconds() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let time = Value::Array(vec![text("1700000000"), text("42999")]);
        assert_eq!(read(&time), Some(1_700_000_000_042));
        assert_eq!(read(&Value::Array(vec![text("1700000000")])), None);
        assert_eq!(read(&Value::Array(vec![text("noon"), text("1")])), None);
        assert_eq!(read(&Value::Okay), None);
    }
}
