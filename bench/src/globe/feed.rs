//! The global store that our processes speak with.

use std::collections::BTreeMap;

use tidegate_convergence::{GlobalCall, GlobalError, GlobalReply, GlobalStore, MemoryGlobe};
use tidegate_stores::{MysqlConfig, MysqlStore};

use super::database::Database;
use crate::Failure;

/// From the commit of a row to its being there for others.
pub(crate) const VISIBLE_MS: u64 = 200;

/// A feed whose readers see what was committed a while ago, as if they read a replica.
pub(crate) struct Feed<'a> {
    place: Place<'a>,
    /// Rows that are committed and not visible yet, by their random numbers, and when they will be.
    unseen: BTreeMap<u64, u64>,
}

/// The model of one, or a real one.
enum Place<'a> {
    /// In memory.
    Memory(MemoryGlobe),
    /// In a database.
    Real(MysqlStore, &'a Database),
}

impl<'a> Feed<'a> {
    /// An empty one in a database.
    pub(crate) fn real(database: &'a Database) -> Result<Self, Failure> {
        let store = MysqlStore::new(MysqlConfig::parse(&database.server.url())?)?;
        database.runtime.block_on(store.migrate())?;
        Ok(Self { place: Place::Real(store, database), unseen: BTreeMap::new() })
    }

    /// An empty one in memory.
    pub(crate) fn memory() -> Self {
        Self { place: Place::Memory(MemoryGlobe::default()), unseen: BTreeMap::new() }
    }

    /// Makes one call, and waits for the answer.
    pub(crate) fn call(
        &mut self,
        call: &GlobalCall,
        now_ms: u64,
    ) -> Result<GlobalReply, GlobalError> {
        let mut reply = match &mut self.place {
            Place::Memory(globe) => globe.call(call, now_ms),
            Place::Real(store, database) => database.runtime.block_on(store.call(call)),
        }?;
        self.unseen.retain(|_, visible_ms| *visible_ms > now_ms);
        if let GlobalCall::Publish(batch) = call {
            self.unseen.insert(batch.nonce, now_ms + VISIBLE_MS);
        }
        if let GlobalReply::Imported(rows) = &mut reply {
            // They were committed last, and have the last ids: whoever reads misses nothing before.
            rows.retain(|row| !self.unseen.contains_key(&row.batch.nonce));
        }
        Ok(reply)
    }
}
