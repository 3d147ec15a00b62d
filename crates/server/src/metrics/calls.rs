//! Calls to stores: how long they take, and which fail.
//!
//! Promises: a store that is watched does what it did before. A call that is given up counts as
//! late, with the time that was waited.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::{GlobalError, GlobalStore, RegionalStore, StoreError};
use tidegate_convergence::{BoardCall, Boarding, Calling, GlobalCall, GlobalCalling, ShardCall};
use tokio::time::Instant;

use super::histogram::{Histogram, STORE_BOUNDS, Spread};

/// What is asked of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// A read before an admission, which records too.
    Refresh,
    /// An ask for what is to be admitted.
    Ask,
    /// A replay: totals that nobody waits for.
    Record,
    /// Whether a shard still is who it was, and who is present.
    Present,
    /// What is worth publishing, and who leads.
    Board,
    Publish,
    Import,
    /// The name of the region is taken or given back.
    Name,
    /// Rows are deleted.
    Delete,
}

impl Operation {
    pub(super) const OF_REGION: [Self; 5] =
        [Self::Refresh, Self::Ask, Self::Record, Self::Present, Self::Board];
    pub(super) const OF_GLOBE: [Self; 4] = [Self::Publish, Self::Import, Self::Name, Self::Delete];

    fn of_region(call: &ShardCall) -> Self {
        match call {
            ShardCall { ask: Some(_), .. } => Self::Ask,
            ShardCall { awaited: true, .. } => Self::Refresh,
            ShardCall { records, .. } if records.is_empty() => Self::Present,
            _ => Self::Record,
        }
    }

    const fn of_globe(call: &GlobalCall) -> Self {
        match call {
            GlobalCall::Publish(_) => Self::Publish,
            GlobalCall::Import(_) => Self::Import,
            GlobalCall::Register { .. } | GlobalCall::Release { .. } => Self::Name,
            GlobalCall::Trim { .. } | GlobalCall::Collect { .. } => Self::Delete,
        }
    }
}

/// What came of the calls of one operation.
#[derive(Debug)]
struct Calls {
    took: Histogram,
    late: AtomicU64,
    failed: AtomicU64,
}

impl Default for Calls {
    fn default() -> Self {
        let (late, failed) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { took: Histogram::new(STORE_BOUNDS), late, failed }
    }
}

/// The calls of one operation, as they are seen at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct CallsSeen {
    pub(super) took: Spread,
    /// No answer came in time.
    pub(super) late: u64,
    /// The answer was an error, or nothing could be asked.
    pub(super) failed: u64,
}

/// The calls to stores of one process.
#[derive(Debug, Default)]
pub(crate) struct StoreCalls([Calls; 9]);

impl StoreCalls {
    fn of(&self, operation: Operation) -> &Calls {
        let [refresh, ask, record, present, board, publish, import, name, delete] = &self.0;
        match operation {
            Operation::Refresh => refresh,
            Operation::Ask => ask,
            Operation::Record => record,
            Operation::Present => present,
            Operation::Board => board,
            Operation::Publish => publish,
            Operation::Import => import,
            Operation::Name => name,
            Operation::Delete => delete,
        }
    }

    pub(super) fn seen(&self, operation: Operation) -> CallsSeen {
        let Calls { took, late, failed } = self.of(operation);
        // ORDER: relaxed, here and where they are raised. Counts that nothing else follows from.
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CallsSeen { took: took.read(), late: load(late), failed: load(failed) }
    }

    /// A call begins.
    fn begin(&self, operation: Operation) -> UnderWay<'_> {
        UnderWay { calls: self.of(operation), since: Instant::now(), ended: false }
    }
}

/// A call that has not ended.
struct UnderWay<'a> {
    calls: &'a Calls,
    since: Instant,
    ended: bool,
}

impl UnderWay<'_> {
    /// `None` if it succeeded, otherwise whether it was late.
    fn end(mut self, failure: Option<bool>) {
        self.ended = true;
        match failure {
            None => {}
            Some(true) => self.late(),
            Some(false) => _ = self.calls.failed.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn late(&self) {
        self.calls.late.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.calls.took.note(self.since.elapsed());
        if !self.ended {
            self.late();
        }
    }
}

/// A store whose calls are noted.
#[derive(Debug)]
pub(crate) struct Watched<S: ?Sized> {
    store: Arc<S>,
    calls: Arc<StoreCalls>,
}

impl<S: ?Sized> Watched<S> {
    pub(crate) const fn new(store: Arc<S>, calls: Arc<StoreCalls>) -> Self {
        Self { store, calls }
    }
}

impl<S: RegionalStore + ?Sized> RegionalStore for Watched<S> {
    fn shards(&self) -> u16 {
        self.store.shards()
    }

    fn call<'a>(&'a self, call: &'a ShardCall) -> Calling<'a> {
        Box::pin(async move {
            let under_way = self.calls.begin(Operation::of_region(call));
            let answered = self.store.call(call).await;
            under_way.end(answered.as_ref().err().map(|why| matches!(why, StoreError::Timeout)));
            answered
        })
    }

    fn board<'a>(&'a self, call: &'a BoardCall) -> Boarding<'a> {
        Box::pin(async move {
            let under_way = self.calls.begin(Operation::Board);
            let answered = self.store.board(call).await;
            under_way.end(answered.as_ref().err().map(|why| matches!(why, StoreError::Timeout)));
            answered
        })
    }
}

impl<S: GlobalStore + ?Sized> GlobalStore for Watched<S> {
    fn call<'a>(&'a self, call: &'a GlobalCall) -> GlobalCalling<'a> {
        Box::pin(async move {
            let under_way = self.calls.begin(Operation::of_globe(call));
            let answered = self.store.call(call).await;
            under_way.end(answered.as_ref().err().map(|why| matches!(why, GlobalError::Timeout)));
            answered
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use tidegate_convergence::{Shard, Token};
    use tokio::time::timeout;

    use super::*;

    /// Answers the first shard with an error, and the others never.
    #[derive(Debug)]
    struct Bad;

    impl RegionalStore for Bad {
        fn shards(&self) -> u16 {
            2
        }

        fn call<'a>(&'a self, call: &'a ShardCall) -> Calling<'a> {
            match call.shard {
                Shard(0) => Box::pin(ready(Err(StoreError::Refused("no".to_owned())))),
                _ => Box::pin(pending()),
            }
        }

        fn board<'a>(&'a self, _: &'a BoardCall) -> Boarding<'a> {
            Box::pin(ready(Err(StoreError::Timeout)))
        }
    }

    fn call(shard: u16, awaited: bool) -> ShardCall {
        ShardCall { awaited, ..ShardCall::of(Shard(shard), Token(1), Vec::new()) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_fails_or_is_given_up_is_noted_with_its_time() {
        let calls = Arc::new(StoreCalls::default());
        let store = Watched::new(Arc::new(Bad), Arc::clone(&calls));
        assert!(store.call(&call(0, true)).await.is_err());
        let given_up = timeout(Duration::from_millis(15), store.call(&call(1, false))).await;
        assert!(given_up.is_err());
        let (refresh, present) = (calls.seen(Operation::Refresh), calls.seen(Operation::Present));
        assert_eq!((refresh.failed, refresh.late), (1, 0));
        assert_eq!((present.failed, present.late), (0, 1));
        assert!(present.took.sum_us >= 15_000, "{present:?}");
        let slow: u64 =
            present.took.buckets.iter().filter(|(le, _)| *le == "0.02").map(|it| it.1).sum();
        assert_eq!(slow, 1, "{present:?}");
    }
}
