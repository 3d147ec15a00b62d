//! Which regions there are, and what time it is there: for those who look after them.

use tidegate_convergence::RegionNumber;

use super::pool::Job;
use super::session::{Session, Trouble};

/// A region, as the global store knows it. `MysqlStore` and `SqliteStore` have examples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRegion {
    /// Its number: the feed has no names.
    pub number: RegionNumber,
    /// Its name.
    pub name: String,
    /// How long ago it said that it is there. `None` if it gave its name back.
    pub seen_ms_ago: Option<u64>,
}

/// Reads all of them, by name.
#[derive(Debug)]
pub(super) struct Regions;

impl Job for Regions {
    type Output = Vec<KnownRegion>;

    async fn run<S: Session>(&self, session: &mut S) -> Result<Vec<KnownRegion>, Trouble> {
        let rows = session.read(S::STATEMENTS.regions, &[]).await?;
        let region = |mut row: super::session::Record| {
            let (identity, name) = (row.bytes()?, row.bytes()?);
            let identity = identity.as_slice().try_into().map_err(|_| super::session::foreign())?;
            let number = RegionNumber::of(u128::from_be_bytes(identity));
            let (seen_ms, now_ms) = (row.number()?, row.number()?);
            let seen_ms_ago = (seen_ms > 0).then(|| now_ms.saturating_sub(seen_ms));
            let name = String::from_utf8_lossy(&name).into_owned();
            Ok(KnownRegion { number, name, seen_ms_ago })
        };
        rows.into_iter().map(region).collect()
    }
}

/// What the database takes for the time, in ms since 1970.
#[derive(Debug)]
pub(super) struct Clock;

impl Job for Clock {
    type Output = u64;

    async fn run<S: Session>(&self, session: &mut S) -> Result<u64, Trouble> {
        let row = session.read(S::STATEMENTS.clock, &[]).await?.into_iter().next();
        row.ok_or_else(super::session::foreign)?.number()
    }
}
