//! What the processes of a region leave for the one of them that publishes.
//!
//! Whoever sees that a cell is worth publishing *posts* it on the board of the regional store. One
//! process, which leads for as long as it renews its lease, *takes* the posts. It need not serve
//! the cells itself: the board says which they are, and the regional store what they hold.

use std::future::Future;
use std::pin::Pin;

use tidegate_limiter::Digest;

use crate::store::StoreError;

/// Most posts a board holds. What is posted beyond them is not kept: whoever posted it does so
/// again, because nobody publishes it. A fleet of a quarter of a million windows has a thousandth.
pub const POSTS_MAX: usize = 1 << 17;

/// How long a board keeps posts that nobody takes. Those who posted them do so again sooner.
pub const POSTS_LIFE_MS: u64 = 120_000;

/// How long a region's identity outlives the last process that knew it.
pub const IDENTITY_LIFE_MS: u64 = 90 * 24 * 60 * 60 * 1_000;

/// A cell that is worth publishing, together with the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Post {
    /// The subject.
    pub subject: Digest,
    /// The length of its windows.
    pub window_ms: u64,
    /// The current cell.
    pub sequence: u64,
    /// How much has to be new for it to be worth publishing again. Of two posts of a cell the
    /// smaller stands.
    pub step: u64,
}

/// One call to the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardCall {
    /// The incarnation of the process.
    pub who: u128,
    /// Who the region is: kept if there is nothing yet, or if it is `sure`.
    pub identity: u128,
    /// The identity is the one that the global store knows.
    pub sure: bool,
    /// What is posted.
    pub posts: Vec<Post>,
    /// When these have to be taken: all that is there is taken when the first of all is due.
    pub within_ms: u64,
    /// For how long it wants to lead. 0 gives up what it has.
    pub lease_ms: u64,
    /// Most posts it takes, if it leads and something is due.
    pub take_max: usize,
    /// Takes what is there even if nothing is due.
    pub hurry: bool,
}

/// The answer to a [`BoardCall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardReply {
    /// Who the region is.
    pub identity: u128,
    /// Whether the process that asked leads.
    pub leads: bool,
    /// What it took: it is not on the board any more.
    pub taken: Vec<Post>,
    /// When something on the board is due.
    pub due_in_ms: Option<u64>,
}

/// A call to the board under way.
pub type Boarding<'a> = Pin<Box<dyn Future<Output = Result<BoardReply, StoreError>> + Send + 'a>>;
