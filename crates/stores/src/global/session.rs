//! What the calls need of a database: statements, and what they give back.

use std::fmt;

use tidegate_convergence::GlobalError;

/// What is bound to a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// Any number. What cannot hold it keeps its bits.
    Number(u64),
    /// An id or a count. What cannot hold it takes its own largest.
    Place(u64),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// What a statement gave.
#[derive(Debug)]
pub(super) enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

/// One row. Fields are taken in their order.
#[derive(Debug)]
pub(super) struct Record(std::vec::IntoIter<Field>);

/// What a statement did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// How many rows it found to change.
    pub(super) rows: u64,
    /// The id of the row that it inserted, if it did.
    pub(super) id: u64,
}

/// Why a statement came to nothing, and what becomes of the connection.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The row is there already.
    Duplicate,
    /// The server said no, and will listen to the next statement.
    Said(GlobalError),
    /// The connection is of no use any more.
    Lost(GlobalError),
}

/// One connection.
pub(super) trait Session: Send + Sized + 'static {
    /// What its database is told.
    const STATEMENTS: &'static Statements;

    /// Runs a statement that gives rows.
    fn read(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<Vec<Record>, Trouble>> + Send;

    /// Runs a statement that gives none.
    fn write(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<Written, Trouble>> + Send;

    /// Ends the connection politely.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Makes connections.
pub(super) trait Opener: fmt::Debug + Send + Sync + 'static {
    /// What it makes.
    type Session: Session;

    /// Most of them at a time.
    const SESSIONS_MAX: usize;

    /// Makes one.
    fn open(&self) -> impl Future<Output = Result<Self::Session, Trouble>> + Send;
}

/// The statements of one database.
#[derive(Debug)]
pub(super) struct Statements {
    /// (name) → identity, seen, now.
    pub(super) region: &'static str,
    /// (name, identity).
    pub(super) add_region: &'static str,
    /// (name, identity): seen now.
    pub(super) renew: &'static str,
    /// (new identity, name, old identity, old seen): seen now.
    pub(super) take_over: &'static str,
    /// (name, identity): never seen.
    pub(super) release: &'static str,
    /// () → identity, name, seen, now of each.
    pub(super) regions: &'static str,
    /// () → how many.
    pub(super) count_regions: &'static str,
    /// (region, repeats, nonce, written, expires, payload).
    pub(super) publish: &'static str,
    /// (from, with repeats, from, [`GAPS_MAX`](tidegate_convergence::GAPS_MAX) ids, most) → id and
    /// the columns of `publish`.
    pub(super) import: &'static str,
    /// The same without gaps: (from, with repeats, from, most). Planning sixteen ranges costs a
    /// server more than reading a few rows.
    pub(super) import_on: &'static str,
    /// (region, last id, written before, most) → ids.
    pub(super) trim: &'static str,
    /// (expired before, most) → ids.
    pub(super) collect: &'static str,
    /// ([`CHUNK`] ids).
    pub(super) delete: &'static str,
    /// Makes the table of versions.
    pub(super) create_schema: &'static str,
    /// () → the version, or 0.
    pub(super) version: &'static str,
    /// (version): it is reached. Says nothing if it is there already.
    pub(super) reached: &'static str,
    /// What makes each version of the one before. Every statement may run twice, and at the same
    /// time as in another process.
    pub(super) migrations: [&'static [&'static str]; super::schema::VERSIONS],
}

/// How many rows one statement deletes.
pub(super) const CHUNK: usize = 64;

impl Record {
    pub(super) fn new(fields: Vec<Field>) -> Self {
        Self(fields.into_iter())
    }

    /// The next field, a number.
    pub(super) fn number(&mut self) -> Result<u64, Trouble> {
        match self.0.next() {
            Some(Field::Number(number)) => Ok(number),
            _ => Err(foreign()),
        }
    }

    /// The next field, a number of few bits.
    pub(super) fn small(&mut self) -> Result<u32, Trouble> {
        u32::try_from(self.number()?).map_err(|_| foreign())
    }

    /// The next field, bytes.
    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, Trouble> {
        match self.0.next() {
            Some(Field::Bytes(bytes)) => Ok(bytes),
            _ => Err(foreign()),
        }
    }
}

/// A table that is not ours.
pub(super) fn foreign() -> Trouble {
    let why = "a table has other columns than `tidegate migrate` makes";
    Trouble::Said(GlobalError::Schema(why.to_owned()))
}

impl Trouble {
    /// What the caller is told.
    pub(super) fn into_error(self) -> GlobalError {
        match self {
            Self::Duplicate => GlobalError::Refused("the row is there already".to_owned()),
            Self::Said(why) | Self::Lost(why) => why,
        }
    }
}

/// Sixteen places for values: as many as an import may name gaps.
macro_rules! sixteen {
    () => {
        "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
    };
}
pub(super) use sixteen;

const _: () = assert!(tidegate_convergence::GAPS_MAX == 16);
const _: () = assert!(CHUNK == 4 * 16);
