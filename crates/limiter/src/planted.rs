//! Mistakes planted on purpose: the simulator shows with them that its oracles can fail.
//!
//! Without the feature `planted`, which only the simulator switches on, nothing is ever planted and
//! the compiler removes every question.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Planted {
    /// A view is the larger of what is admitted here and what the store holds, not their join.
    MaxMerge,
    /// A process sends what it has not had acknowledged, and the store adds it up.
    Increments,
    /// A store answers with the total that was sent, not with the one it holds.
    EchoTotal,
    /// A replay that failed is not repeated.
    DropDirty,
    /// A store that lost its data is not told again.
    NoResend,
    /// Answers to calls from before a loss count as news of the store.
    NoGenerations,
    /// A subject that was evicted and comes back goes on under the same component.
    SameComponent,
    /// Strict mode ends with the window in which it began.
    StrictBySequence,
    /// A read that failed makes the view fresh.
    FailedReadFresh,
    /// A store keeps cells for ever.
    NoTtl,
    /// A store keeps cells a thousand times as long.
    LongTtl,
    /// The share of the previous window is a float.
    FloatWeights,
    /// A batch takes from what is published, and gives back by subtracting.
    SubtractRollback,
    /// A caller that goes away takes the read with it that others wait for.
    CancelledFlight,
    /// A window that ends takes with it what was not replayed yet.
    RolloverReset,
    /// Whatever was sent is taken as recorded.
    AckSent,
    /// The previous cell is not sent.
    NoPrevious,
    /// A view is fresh from the moment of the answer, not of the question.
    FreshOnArrival,
    /// What the own region published is added to what this process admitted.
    OwnAdded,
    /// What the own region published counts as another region's.
    OwnInForeign,
    /// What the own region published is taken to hold what this process admitted, which is then
    /// not told to it.
    OwnHidesMine,
    /// A region publishes what others published with what it recorded.
    ForeignRepublished,
    /// A region publishes what it reserved or has not recorded.
    PublishUnconfirmed,
    /// What is sent is taken as published, whatever comes of it.
    PublishedEarly,
    /// What others published of a subject that is not served here is forgotten.
    DropUnserved,
    /// A leader publishes only what it serves itself.
    PublishServedOnly,
    /// A published total is of use for one window.
    ExpiredEarly,
    /// A subject is forgotten by the wall clock, however little time has passed.
    WallClockExpiry,
    /// Rows that become visible late are not read.
    CursorSkips,
    /// Rows that are lost are not missed.
    CursorUnchecked,
    /// A total that is imported takes the place of a larger one.
    Overwrite,
    /// What was posted once is not posted again.
    NoRepost,
    /// A store grants what was asked before its component recorded more.
    NoGuard,
    /// All asks of a process have one number.
    SameOperation,
    /// An ask that was not answered in time charges nobody.
    ForgetUnheard,
    /// What is asked of a window that has ended does not count in the next one.
    EndedAskIgnored,
    /// An ask does not say which shard it is meant for.
    AnyToken,
    /// A process admits whatever fits its view, however much of it is not recorded.
    NoCredit,
    /// A request that is to be denied when the region cannot be asked is admitted, if the region
    /// did not answer a moment ago.
    OutageAdmits,
    /// What was asked for in vain by a request that is denied for it is given back, although the
    /// store may hold it.
    OutageForgets,
    /// An answer to what was asked for is about the window in which it is given, although the cost
    /// is in the one before.
    AnswerOfNow,
    /// Who asks while another ask is under way is admitted at once, as if nobody answered.
    AskedAside,
    /// A breaker stays open for six times as long.
    LongOpen,
    /// After one replay that failed, all replays may wait for seconds more.
    LazyReplay,
    /// A leader rests after every row that it published.
    RestingLeader,
    /// An answer does not say that the region was asked in vain.
    DegradedUnsaid,
    /// Who is denied because others wait does not wait.
    ReservedDenied,
    /// A caller is not told when its time is over, but a while later.
    LateAnswer,
    /// A table takes twice its budget.
    TwiceTheBudget,
    /// A batch is admitted if one of its requests is.
    AnyOfBatch,
    /// What is ready is replayed although it is being asked for.
    ReplayBeside,
    /// As many replays are under way as there is something to tell.
    UnboundedReplays,
    /// What the own region published of a cell of which nothing is known here is another region's.
    OwnUnknown,
    /// What was fresh once is never too old.
    NeverStale,
    /// Rows that never came are waited for without end.
    EndlessGaps,
    /// What the store has granted, and has not said yet, was recorded by somebody else.
    GrantIsClash,
    /// A process whose store ends with it does not publish what is left.
    NoLastWords,
    /// Who is to wait for others looks again at once.
    LooksAtOnce,
    /// A subject is asked for although it is being asked for.
    TwoAsks,
    /// Who comes while a read is under way makes another.
    EachReads,
    /// Once many subjects had something to tell, none is forgotten that has told it.
    ManyKept,
    /// A shard is asked ten times as often who it is.
    EagerTokens,
    /// Who has no name is woken to import, and does not.
    NamelessWoken,
    /// A store keeps the total that came last, not the largest.
    LastWrite,
    /// A caller that has given up is told once more.
    ToldAgain,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// Plants a mistake in this thread, or none.
#[cfg(feature = "planted")]
pub fn plant(mistake: Option<Planted>) {
    PLANTED.set(mistake);
}

/// Whether a mistake is planted.
#[cfg(feature = "planted")]
#[inline]
#[must_use]
pub fn is(mistake: Planted) -> bool {
    PLANTED.get() == Some(mistake)
}

/// Whether a mistake is planted: no.
#[cfg(not(feature = "planted"))]
#[inline]
#[must_use]
pub const fn is(_: Planted) -> bool {
    false
}

/// [`Planted::FloatWeights`].
#[cfg(feature = "planted")]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "that is the mistake"
)]
pub(crate) fn float_weight(previous: u64, window_ms: u64, rest_ms: u64) -> u64 {
    (previous as f64 * (rest_ms as f64 / window_ms as f64)) as u64
}

/// [`Planted::StrictBySequence`]: until the end of the window, not for the length of one.
#[cfg(feature = "planted")]
pub(crate) fn strict_until(until_ms: u64, window_ms: u64, now: crate::Now) -> u64 {
    let planted = is(Planted::StrictBySequence);
    if planted { until_ms.saturating_sub(now.unix_ms() % window_ms) } else { until_ms }
}
