//! Times that jump: one wrong clock must not make everything after it late.
//!
//! A request that comes more than a day after all before it is believed only if the next one
//! agrees with it. So a pause of a week is a pause, and a line of the year 2099 is malformed.

use super::Record;

/// How far ahead is doubtful: more than any daily pause of traffic.
const JUMP_MS: u64 = 86_400_000;
/// What is wrong with a request that nobody agrees with.
pub(super) const REASON: &str =
    "expected a time within a day of the line before; it jumps, and the next line does not follow";

/// Where a request stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// The number of its line.
    pub(super) line: u64,
    /// How it begins.
    pub(super) sample: String,
}

/// What is to be done with a request.
#[derive(Debug)]
pub(super) struct Heard {
    /// It is given out; otherwise the next one decides.
    pub(super) believed: bool,
    /// The one that was doubted, if it is malformed.
    pub(super) refuted: Option<Place>,
}

const BELIEVED: Heard = Heard { believed: true, refuted: None };

#[derive(Debug, Default)]
pub(super) struct Jumps {
    /// The latest time that was believed.
    latest_ms: Option<u64>,
    doubted: Option<(Record, Place)>,
    /// One that waits for its turn after the one it has confirmed.
    after: Option<(Record, Place)>,
}

impl Jumps {
    /// The request that waits for its turn, if there is one.
    pub(super) fn waiting(&mut self, record: &mut Record) -> Option<Place> {
        let (waiting, place) = self.after.take()?;
        *record = waiting;
        Some(place)
    }

    /// A request was read. If it confirms the one that was doubted, they change places.
    #[inline]
    pub(super) fn hear(&mut self, record: &mut Record, place: impl FnOnce() -> Place) -> Heard {
        let at_ms = record.at_unix_ms();
        let near = self.latest_ms.is_some_and(|latest| at_ms <= latest.saturating_add(JUMP_MS));
        if near && self.doubted.is_none() {
            self.latest_ms = self.latest_ms.max(Some(at_ms));
            return BELIEVED;
        }
        self.doubt(record, place(), near)
    }

    #[cold]
    fn doubt(&mut self, record: &mut Record, place: Place, near: bool) -> Heard {
        let at_ms = record.at_unix_ms();
        let Some((mut doubted, its)) = self.doubted.take() else {
            self.doubted = Some((std::mem::take(record), place));
            return Heard { believed: false, refuted: None };
        };
        let before_ms = doubted.at_unix_ms();
        if at_ms.saturating_add(JUMP_MS) >= before_ms {
            std::mem::swap(record, &mut doubted);
            self.after = Some((doubted, place));
            self.latest_ms = Some(before_ms);
            return BELIEVED;
        }
        if near {
            self.latest_ms = self.latest_ms.max(Some(at_ms));
        } else {
            self.doubted = Some((std::mem::take(record), place));
        }
        Heard { believed: near, refuted: Some(its) }
    }

    /// Nothing more comes: the one that is doubted still, and whether it is all there is.
    pub(super) fn end(&mut self) -> Option<(Record, Place, bool)> {
        let (record, place) = self.doubted.take()?;
        Some((record, place, self.latest_ms.is_none()))
    }
}
