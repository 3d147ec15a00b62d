//! The regional store of a region that is one process.

use std::fmt;
use std::future::ready;
use std::sync::{Mutex, PoisonError};

use super::board::Board;
use crate::board::{BoardCall, Boarding};
use crate::store::{
    Calling, CellReply, Record, RegionalStore, Reply, ShardCall, ShardReply, Token,
};

/// Keeps a board and nothing else: all there is to know of a cell is in the process's own table.
/// What that evicts is forgotten, as in a process without a region; what was published of it comes
/// back from the other regions.
///
/// ```
/// use tidegate_convergence::{PrivateStore, RegionalStore};
///
/// let store = PrivateStore::new(|| 1_700_000_000_000);
/// assert_eq!(store.shards(), 1);
/// ```
pub struct PrivateStore {
    board: Mutex<Board>,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl PrivateStore {
    /// A store with this clock, in milliseconds. The [type](Self) has an example.
    #[must_use]
    pub fn new(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { board: Mutex::default(), clock: Box::new(clock) }
    }
}

impl fmt::Debug for PrivateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateStore").finish_non_exhaustive()
    }
}

impl RegionalStore for PrivateStore {
    fn shards(&self) -> u16 {
        1
    }

    fn call<'a>(&'a self, call: &'a ShardCall) -> Calling<'a> {
        let one = |total| {
            let components = u32::from(total > 0);
            CellReply { sum: total, recorded: total, had: total, components }
        };
        let reply = |record: &Record| {
            let (current, previous) = (one(record.total), one(record.previous_total));
            Some(Reply { current, previous })
        };
        let replies = call.records.iter().map(reply).collect();
        // It is always the same one: it cannot lose what it does not keep.
        let (token, server) = (Token(0), call.identify.then_some(0));
        // A region that is one process has nobody to ask.
        let (present, asked) = (call.present.map(|_| 1), None);
        Box::pin(ready(Ok(ShardReply { token, server, present, replies, asked })))
    }

    fn board<'a>(&'a self, call: &'a BoardCall) -> Boarding<'a> {
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        Box::pin(ready(Ok(board.call(call, (self.clock)()))))
    }
}
