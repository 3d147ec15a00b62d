//! What the processes of a fleet say to other regions.

use tidegate_convergence::{
    BoardCall, BoardReply, GlobalCall, GlobalError, GlobalReply, GlobeEffect, GlobeId, ShardCall,
    ShardReply, StoreError,
};

use super::Fleet;
use super::net::{Event, Net, Whose};
use super::process::Process;

/// What goes to a store.
#[derive(Debug)]
pub(super) enum Errand {
    Board(BoardCall),
    Read(ShardCall),
    Global(GlobalCall),
}

/// What comes back.
#[derive(Debug)]
pub(super) enum Returned {
    Board(Result<BoardReply, StoreError>),
    Read(Result<ShardReply, StoreError>),
    Global(Result<GlobalReply, GlobalError>),
}

/// To whom an errand goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Board,
    Read,
    Global,
}

impl Kind {
    /// What an errand returns that took too long.
    pub(super) const fn late(self) -> Returned {
        match self {
            Self::Board => Returned::Board(Err(StoreError::Timeout)),
            Self::Read => Returned::Read(Err(StoreError::Timeout)),
            Self::Global => Returned::Global(Err(GlobalError::Timeout)),
        }
    }
}

impl Process {
    /// Sends what the globe wants to be sent.
    pub(super) fn pump_globe(&mut self, net: &mut Net) {
        let Some(globe) = &mut self.globe else { return };
        let mut effects = Vec::new();
        globe.take_effects(&mut effects);
        for effect in effects {
            let (id, errand, kind, timeout_ms) = match effect {
                GlobeEffect::Board { id, call, timeout_ms } => {
                    (id, Errand::Board(call), Kind::Board, timeout_ms)
                }
                GlobeEffect::Region { id, call, timeout_ms } => {
                    (id, Errand::Read(call), Kind::Read, timeout_ms)
                }
                GlobeEffect::Global { id, call, timeout_ms } => {
                    (id, Errand::Global(call), Kind::Global, timeout_ms)
                }
            };
            let whose = self.whose;
            let late_us = net.now_us.saturating_add(timeout_ms * 1_000);
            net.queue.push(late_us, Event::GlobeTimeout { whose, id, kind });
            let arrives_us = match kind {
                Kind::Global => net.global_arrival(whose.home),
                Kind::Board | Kind::Read => net.store_arrival(whose, 0),
            };
            if let Some(at_us) = arrives_us {
                net.queue.push(at_us, Event::Errand { whose, id, errand: Box::new(errand) });
            }
        }
    }

    /// The globe hears what came of a call. One that comes too late, or twice, finds nobody.
    pub(super) fn returned(&mut self, net: &mut Net, id: GlobeId, returned: Returned) {
        let (Some(globe), now) = (&mut self.globe, net.now()) else { return };
        match returned {
            Returned::Board(reply) => globe.board_replied(&self.table, id, reply, now),
            Returned::Read(reply) => globe.region_replied(&self.table, id, reply, now),
            Returned::Global(reply) => globe.global_replied(&self.table, id, reply, now),
        }
    }
}

impl Fleet {
    /// A call arrives at its store.
    pub(super) fn errand_arrives(&mut self, whose: Whose, id: GlobeId, errand: Errand) {
        let now_ms = self.net.now_us / 1_000;
        let away = match errand {
            Errand::Global(_) => self.net.is_global_away(whose.home),
            Errand::Board(_) | Errand::Read(_) => self.net.is_store_away(whose.home),
        };
        let Some(home) = self.homes.get_mut(whose.home).filter(|_| !away) else { return };
        let work = &mut self.net.work;
        let (returned, at_us) = match errand {
            Errand::Board(call) => {
                work.region_calls += 1;
                let reply = home.store.board(&call, now_ms);
                (Returned::Board(Ok(reply)), self.net.store_arrival(whose, 1))
            }
            Errand::Read(call) => {
                work.count_call(&call);
                let reply = home.store.call(&call, now_ms);
                (Returned::Read(Ok(reply)), self.net.store_arrival(whose, 1))
            }
            Errand::Global(call) => {
                let reply = self.globe.call(&call, now_ms);
                work.statements += 1;
                match &reply {
                    Ok(GlobalReply::Published { .. }) => work.rows_written += 1,
                    Ok(GlobalReply::Imported(rows)) => work.rows_read += rows.len() as u64,
                    _ => {}
                }
                (Returned::Global(reply), self.net.global_arrival(whose.home))
            }
        };
        if let Some(at_us) = at_us {
            self.net.queue.push(at_us, Event::Return { whose, id, returned: Box::new(returned) });
        }
    }
}
