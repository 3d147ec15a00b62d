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
/// [`BoardCall`] has an example.
pub const POSTS_MAX: usize = 1 << 17;

/// How long a board keeps posts that nobody takes. Those who posted them do so again sooner.
/// [`BoardCall`] has an example.
pub const POSTS_LIFE_MS: u64 = 120_000;

/// How long a region's identity outlives the last process that knew it. [`BoardCall`] has an
/// example.
pub const IDENTITY_LIFE_MS: u64 = 90 * 24 * 60 * 60 * 1_000;

/// A cell that is worth publishing, together with the one before it. [`BoardCall`] has an example.
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
///
/// ```
/// use tidegate_convergence::{BoardCall, MemoryRegion, POSTS_LIFE_MS, Post};
/// use tidegate_limiter::Digest;
///
/// let subject = Digest::from_bytes([7; 16]);
/// let post = Post { subject, window_ms: 60_000, sequence: 29_000_000, step: 5 };
/// let (posts, within_ms, lease_ms) = (vec![post], 100, 1_000);
/// let (identity, sure, take_max, hurry) = (7, false, 10, false);
/// let call =
///     BoardCall { who: 1, identity, sure, posts, within_ms, lease_ms, take_max, hurry };
/// let mut region = MemoryRegion::new(1);
/// let reply = region.board(&call, 0);
/// assert!(reply.leads && reply.taken.is_empty(), "it is due in {:?} ms", reply.due_in_ms);
///
/// // Another process posts the same, as smaller news, and does not lead.
/// let other = BoardCall { who: 2, posts: vec![Post { step: 3, ..post }], ..call.clone() };
/// assert!(!region.board(&other, 50).leads);
/// let asks = BoardCall { posts: vec![], ..call };
/// assert_eq!(region.board(&asks, 100).taken, [Post { step: 3, ..post }]);
///
/// // What nobody takes is forgotten.
/// region.board(&other, 200);
/// assert!(region.board(&asks, 200 + POSTS_LIFE_MS).taken.is_empty());
/// ```
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

/// The answer to a [`BoardCall`], which has an example.
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

/// A call to the board under way. [`BoardCall`] has an example.
pub type Boarding<'a> = Pin<Box<dyn Future<Output = Result<BoardReply, StoreError>> + Send + 'a>>;
