//! The global store that our processes speak with.

use tidegate_convergence::{GlobalCall, GlobalError, GlobalReply, GlobalStore, MemoryGlobe};
use tidegate_stores::{MysqlConfig, MysqlStore};

use super::database::Database;
use crate::Failure;

/// A feed: the model of one, or a real one.
pub(crate) enum Feed<'a> {
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
        Ok(Self::Real(store, database))
    }

    /// Makes one call, and waits for the answer.
    pub(crate) fn call(
        &mut self,
        call: &GlobalCall,
        now_ms: u64,
    ) -> Result<GlobalReply, GlobalError> {
        match self {
            Self::Memory(globe) => globe.call(call, now_ms),
            Self::Real(store, database) => database.runtime.block_on(store.call(call)),
        }
    }
}
