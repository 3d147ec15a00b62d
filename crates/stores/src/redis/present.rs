//! Who is present: how that becomes a command, and an answer a count.

use redis::{Cmd, Value};
use tidegate_convergence::PRESENCE_LIFE_MS;

use super::script::{Code, Script, Tag, number};

impl Script {
    /// The command for a process that is present on a shard.
    pub(super) fn present(&self, tag: Tag, incarnation: u128) -> Cmd {
        self.present_on(&format!("{}present", self.start(tag)), incarnation, PRESENCE_LIFE_MS)
    }

    /// The same with any key, for that long.
    pub(super) fn present_on(&self, key: &str, incarnation: u128, life_ms: u64) -> Cmd {
        let mut command = self.run_on(Code::Present, &[key.to_owned()]);
        command.arg(&incarnation.to_be_bytes()).arg(life_ms);
        command
    }
}

/// Reads the answer to an execution; `None` if it is not one.
pub(super) fn read(value: &Value) -> Option<u32> {
    u32::try_from(number(value)?).ok()
}
