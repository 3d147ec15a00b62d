//! What a server says about itself.

use redis::Value;

use super::jitter::mix;

/// The parts of `INFO` that we ask for.
#[derive(Debug)]
pub(super) struct Info(String);

impl Info {
    /// Reads an answer to `INFO`; `None` if it is not text.
    pub(super) fn read(value: &Value) -> Option<Self> {
        match value {
            Value::BulkString(bytes) => Some(Self(String::from_utf8_lossy(bytes).into_owned())),
            Value::VerbatimString { text, .. } | Value::SimpleString(text) => {
                Some(Self(text.clone()))
            }
            _ => None,
        }
    }

    /// Several answers as one.
    pub(super) fn join(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(parts.into_iter().map(|part| part.0).collect::<Vec<_>>().join("\r\n"))
    }

    /// A field.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    /// Whether it follows another server.
    pub(super) fn is_replica(&self) -> bool {
        self.field("role") == Some("slave")
    }

    /// A number for the server: a restart changes its run id, a failover its replication id.
    ///
    /// The replication id of a lonely master also changes when its first replica comes, and an
    /// hour after its last one went; that costs one needless resend.
    pub(super) fn server(&self) -> Option<u64> {
        let (run, replication) = (self.field("run_id")?, self.field("master_replid")?);
        Some(hash(run.bytes().chain([0]).chain(replication.bytes())))
    }
}

/// 64 bits of some bytes: FNV-1a, well mixed. Not against enemies: a server that wants to deceive
/// us can do so in easier ways.
pub(super) fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    mix(bytes.fold(0xcbf2_9ce4_8422_2325, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(run: &str, replication: &str) -> Info {
        let text =
            format!("# Server\r\nrun_id:{run}\r\nrole:master\r\nmaster_replid:{replication}");
        Info(text)
    }

    #[test]
    fn a_restart_and_a_failover_change_the_number() {
        let server = |run, replication| info(run, replication).server().unwrap();
        assert_eq!(server("a", "b"), server("a", "b"));
        assert_ne!(server("a", "b"), server("c", "b"));
        assert_ne!(server("a", "b"), server("a", "c"));
        assert_ne!(server("ab", "c"), server("a", "bc"));
        assert_eq!(Info("run_id:x\r\n".to_owned()).server(), None);
        assert!(!info("a", "b").is_replica());
    }
}
