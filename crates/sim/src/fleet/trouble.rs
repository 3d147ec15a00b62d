//! What goes wrong in a fleet, and when.

use super::net::{Event, Net};
use super::{Fleet, FleetOptions};

/// Something that goes wrong for a while. [`TroubleKind`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What.
    pub kind: TroubleKind,
    /// When it begins, after the first call.
    pub from_us: u64,
    /// How long it lasts.
    pub for_us: u64,
}

/// What can go wrong.
///
/// ```
/// use tidegate_sim::{Fleet, FleetOptions, Trouble, TroubleKind};
///
/// // The store of the first region is away for half a minute, after five.
/// let kind = TroubleKind::StoreAway { region: 0 };
/// let trouble = Trouble { kind, from_us: 300_000_000, for_us: 30_000_000 };
/// let fleet = Fleet::new(FleetOptions { troubles: vec![trouble], ..FleetOptions::default() });
/// # let _ = fleet;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// The store of a region says nothing.
    StoreAway {
        /// Which region.
        region: usize,
    },
    /// It keeps every call for a while.
    StoreSlow {
        /// Which region.
        region: usize,
        /// How long at most.
        by_us: u64,
    },
    /// The global store says nothing to anybody.
    GlobalAway,
    /// It says nothing to one region.
    CutOff {
        /// Which region.
        region: usize,
    },
    /// A process ends, with everything it has not recorded, and another starts in its place.
    Kill {
        /// Which region.
        region: usize,
        /// Which process of it.
        node: usize,
    },
}

impl Trouble {
    pub(super) const fn after_us(self, us: u64) -> Self {
        Self { from_us: self.from_us.saturating_add(us), ..self }
    }

    /// The process that it ends, if it is one of the fleet.
    fn killed(self, options: &FleetOptions, warm_up_us: u64) -> Option<(Self, usize)> {
        let TroubleKind::Kill { region, node } = self.kind else { return None };
        let is_there = region < options.regions && node < options.nodes;
        is_there.then(|| (self.after_us(warm_up_us), region * options.nodes + node))
    }

    const fn is_on(&self, now_us: u64) -> bool {
        self.from_us <= now_us && now_us < self.from_us.saturating_add(self.for_us)
    }
}

impl Net {
    fn on(&self) -> impl Iterator<Item = TroubleKind> {
        self.troubles.iter().filter(|trouble| trouble.is_on(self.now_us)).map(|it| it.kind)
    }

    pub(super) fn is_store_away(&self, home: usize) -> bool {
        self.on().any(|kind| kind == TroubleKind::StoreAway { region: home })
    }

    pub(super) fn is_global_away(&self, home: usize) -> bool {
        let cut = TroubleKind::CutOff { region: home };
        self.on().any(|kind| kind == TroubleKind::GlobalAway || kind == cut)
    }

    /// How long the store of a region keeps a call at most, if it is slow.
    pub(super) fn slow_us(&self, home: usize) -> Option<u64> {
        let slow = self.on().filter_map(|kind| match kind {
            TroubleKind::StoreSlow { region, by_us } if region == home => Some(by_us),
            _ => None,
        });
        slow.max()
    }
}

impl Fleet {
    /// Puts the ends of processes, and the starts of those that follow them, into the queue: of
    /// all that is still to come.
    pub(super) fn schedule_kills(&mut self, warm_up_us: u64) {
        let (options, net) = (&self.options, &mut self.net);
        for trouble in &options.troubles {
            let Some((trouble, node)) = trouble.killed(options, warm_up_us) else { continue };
            let back_us = trouble.from_us.saturating_add(trouble.for_us);
            if trouble.from_us >= net.now_us {
                net.queue.push(trouble.from_us, Event::Kill { node });
            }
            if back_us >= net.now_us {
                net.queue.push(back_us, Event::Start { node });
            }
        }
    }

    /// Whether a process has ended, and none has started in its place yet.
    pub(super) fn is_killed(&self, node: usize, warm_up_us: u64) -> bool {
        let kills = self.options.troubles.iter();
        let mut kills = kills.filter_map(|trouble| trouble.killed(&self.options, warm_up_us));
        kills.any(|(trouble, killed)| killed == node && trouble.is_on(self.net.now_us))
    }
}
