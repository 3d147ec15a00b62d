//! What a run came to.

use std::collections::BTreeMap;
use std::fmt;

use crate::chance::mix;
use crate::coverage::Coverage;
use crate::truth::Cause;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which oracle saw it.
    pub oracle: &'static str,
    /// What it saw.
    pub what: String,
    /// When, in virtual microseconds.
    pub at_us: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] at {} us: {}", self.oracle, self.at_us, self.what)
    }
}

/// Why what a process knows of another region is not in the feed, and stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Excuse {
    /// A leader whose clock is ahead took the cell as over, and deleted its rows.
    Trimmed,
    /// A failover lost it, and a leader whose clock is ahead took the cell as over.
    Outlived,
    /// A failover lost it, and who wrote it has lost its name to another region.
    Mute,
    /// A failover lost it before its own region had read it, and who wrote it has ended.
    Unread,
    /// A failover lost it, and so did the store of its region before its leader looked.
    Twice,
}

/// What the feed does not say of a cell of a region, and somebody has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excused {
    /// Why.
    pub why: Excuse,
    /// Its cost.
    pub missing: u64,
    /// The same as a share of the limit, in thousandths.
    pub permille: u64,
}

/// How long regions took to know of each other, and what they had to get over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// After everything was mended, and the stores were whole.
    pub took_ms: u64,
    /// A region may have lost who it is.
    pub names: bool,
    /// The global store lost rows, or a replica lagged.
    pub rows: bool,
    /// The store of a region had lost something that still counted.
    pub lossy: bool,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Events that did something.
    pub events: u64,
    /// Requests admitted; items of a batch count each.
    pub admitted: u64,
    /// Requests denied by their limit.
    pub denied: u64,
    /// Requests refused for want of memory.
    pub refused: u64,
    /// Requests decided without a region that should have been asked.
    pub degraded: u64,
    /// Requests denied only because others waited for the room that was left; of bounded ones,
    /// where the region did not answer.
    pub reserved: u64,
    /// Asks that the store answered.
    pub asks: u64,
    /// Cost that it granted.
    pub granted: u64,
    /// Requests and batches that it did not grant.
    pub declined: u64,
    /// Requests admitted, or denied if they want that, although the region did not say whether it
    /// grants them.
    pub unheard: u64,
    /// Requests denied because the region could not be asked.
    pub outages: u64,
    /// Cost of them that is charged all the same, because the store may hold it.
    pub charged: u64,
    /// Cost granted to a process that was killed before it could answer: it is used, and nobody was
    /// admitted.
    pub unanswered: u64,
    /// Cost granted to nobody because an ask arrived twice, and in between the store lost its first
    /// answer. At most what such an ask carries.
    pub regranted: u64,
    /// The largest share of its limit that was admitted to a cell by the bounded rule where every
    /// ask was answered, in thousandths.
    pub bounded_permille: u64,
    /// Calls that the store answered.
    pub calls: u64,
    /// Subjects dropped from a table.
    pub evicted: u64,
    /// How often each kind of fault struck, and into what.
    pub faults: Coverage,
    /// Admitted cost that the store does not have, by cause.
    pub lost: BTreeMap<Cause, u64>,
    /// The largest share of its limit that was admitted to a cell, in thousandths.
    pub worst_permille: u64,
    /// How long the region was looked at after everything was mended, in milliseconds: until it
    /// was whole, and at least as long as it takes to notice that it is not.
    pub healed_ms: u64,
    /// When in that time something was unrecorded for the last time: since then it is whole.
    pub whole_ms: u64,
    /// Rows that regions published.
    pub published: u64,
    /// Times that rows were deleted.
    pub trims: u64,
    /// How long regions took to know of each other, after everything was mended: by the rule that
    /// is shipped, and where no regional store had lost anything.
    pub settled_ms: u64,
    /// The same of all worlds by the rule that is shipped.
    pub agreed: Option<Agreed>,
    /// What is not in the feed in the end, and is excused.
    pub excused: Vec<Excused>,
    /// Admissions of a new window that did not count what other regions were already known to have
    /// used of it: it is told to the table with the next answer of the region.
    pub unheeded: u64,
    /// Several regions.
    pub global: bool,
    /// Cells that the last audit compared.
    pub audited: u64,
    /// Views that it compared with them.
    pub compared: u64,
    /// The first broken promise.
    pub broken: Option<Violation>,
    /// A hash of everything that happened, in order.
    pub trace: u64,
}

impl Report {
    /// Adds numbers to the hash.
    pub(crate) fn note(&mut self, words: &[u64]) {
        for word in words {
            self.trace = mix(self.trace.rotate_left(7) ^ word);
        }
    }

    /// A run that exercised nothing proves nothing.
    #[must_use]
    pub fn is_vacuous(&self) -> bool {
        let silent = self.global && self.published == 0;
        silent || self.admitted == 0 || self.denied == 0 || self.calls == 0 || self.compared == 0
    }
}
