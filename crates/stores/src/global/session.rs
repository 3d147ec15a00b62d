//! What the calls need of a database: statements, and what they give back.

use std::fmt;

use tidegate_convergence::GlobalError;

use crate::control::ControlStatements;

/// What is bound to a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    /// Any number. What cannot hold it keeps its bits.
    Number(u64),
    /// An id or a count. What cannot hold it takes its own largest.
    Place(u64),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Nothing.
    Null,
}

/// What a statement gave.
#[derive(Debug)]
pub(crate) enum Field {
    Number(u64),
    Bytes(Vec<u8>),
    Null,
}

/// One row. Fields are taken in their order.
#[derive(Debug)]
pub(crate) struct Record(std::vec::IntoIter<Field>);

/// What a statement did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// How many rows it found to change.
    pub(crate) rows: u64,
    /// The id of the row that it inserted, if it did.
    pub(crate) id: u64,
}

/// Why a statement came to nothing, and what becomes of the connection.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The row is there already.
    Duplicate,
    /// The server said no, and will listen to the next statement.
    Said(GlobalError),
    /// The connection is of no use any more, and nothing was done that must not be done again.
    Lost(GlobalError),
    /// The connection was lost while a transaction ended: nobody knows how.
    Unsure(GlobalError),
}

/// One connection.
pub(crate) trait Session: Send + Sized + 'static {
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
pub(crate) trait Opener: fmt::Debug + Send + Sync + 'static {
    /// What it makes.
    type Session: Session;

    /// Most of them at a time.
    const SESSIONS_MAX: usize;

    /// Makes one.
    fn open(&self) -> impl Future<Output = Result<Self::Session, Trouble>> + Send;
}

/// The statements of one database.
#[derive(Debug)]
pub(crate) struct Statements {
    /// (name) → identity, seen, now.
    pub(crate) region: &'static str,
    /// (name, identity).
    pub(crate) add_region: &'static str,
    /// (name, identity): seen now.
    pub(crate) renew: &'static str,
    /// (new identity, name, old identity, old seen): seen now.
    pub(crate) take_over: &'static str,
    /// (name, identity): never seen.
    pub(crate) release: &'static str,
    /// () → identity, name, seen, now of each.
    pub(crate) regions: &'static str,
    /// () → now.
    pub(crate) clock: &'static str,
    /// () → how many.
    pub(crate) count_regions: &'static str,
    /// (region, repeats, nonce, written, expires, payload).
    pub(crate) publish: &'static str,
    /// (from, with repeats, from, [`GAPS_MAX`](tidegate_convergence::GAPS_MAX) ids, most) → id and
    /// the columns of `publish`.
    pub(crate) import: &'static str,
    /// The same without gaps: (from, with repeats, from, most). Planning sixteen ranges costs a
    /// server more than reading a few rows.
    pub(crate) import_on: &'static str,
    /// (region, last id, written before, most) → ids.
    pub(crate) trim: &'static str,
    /// (expired before, most) → ids.
    pub(crate) collect: &'static str,
    /// ([`CHUNK`] ids).
    pub(crate) delete: &'static str,
    /// Begins a transaction that can make tables; `None` where each table ends one.
    pub(crate) begin_migration: Option<&'static str>,
    /// Makes the table of versions.
    pub(crate) create_schema: &'static str,
    /// () → the version, or 0.
    pub(crate) version: &'static str,
    /// (version): it is reached. Says nothing if it is there already.
    pub(crate) reached: &'static str,
    /// Those of the control plane.
    pub(crate) control: ControlStatements,
    /// What makes each version of the one before.
    pub(crate) migrations: [super::schema::Migration; super::schema::VERSIONS],
    /// What was added since, that older builds need not know.
    pub(crate) additions: [super::schema::Addition; super::schema::ADDITIONS],
}

/// How many rows one statement deletes.
pub(crate) const CHUNK: usize = 64;

impl Record {
    pub(crate) fn new(fields: Vec<Field>) -> Self {
        Self(fields.into_iter())
    }

    /// The next field, a number.
    pub(crate) fn number(&mut self) -> Result<u64, Trouble> {
        match self.0.next() {
            Some(Field::Number(number)) => Ok(number),
            _ => Err(foreign()),
        }
    }

    /// The next field, a number of few bits.
    pub(crate) fn small(&mut self) -> Result<u32, Trouble> {
        u32::try_from(self.number()?).map_err(|_| foreign())
    }

    /// The next field, a number or nothing.
    pub(crate) fn number_if_any(&mut self) -> Result<Option<u64>, Trouble> {
        match self.0.next() {
            Some(Field::Number(number)) => Ok(Some(number)),
            Some(Field::Null) => Ok(None),
            _ => Err(foreign()),
        }
    }

    /// The next field, text. Bytes that are none were not written by us and harm nobody.
    pub(crate) fn text(&mut self) -> Result<String, Trouble> {
        let text = String::from_utf8(self.bytes()?);
        Ok(text.unwrap_or_else(|not| String::from_utf8_lossy(not.as_bytes()).into_owned()))
    }

    /// The next field, bytes.
    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Trouble> {
        match self.0.next() {
            Some(Field::Bytes(bytes)) => Ok(bytes),
            _ => Err(foreign()),
        }
    }
}

/// A table that is not ours.
pub(crate) fn foreign() -> Trouble {
    let why = "a table has other columns than `tidegate migrate` makes";
    Trouble::Said(GlobalError::Schema(why.to_owned()))
}

impl Trouble {
    /// What the caller is told.
    pub(crate) fn into_error(self) -> GlobalError {
        match self {
            Self::Duplicate => GlobalError::Refused("the row is there already".to_owned()),
            Self::Said(why) | Self::Lost(why) | Self::Unsure(why) => why,
        }
    }
}

/// Sixteen places for values: as many as an import may name gaps.
macro_rules! sixteen {
    () => {
        "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
    };
}
pub(crate) use sixteen;

const _: () = assert!(tidegate_convergence::GAPS_MAX == 16);
const _: () = assert!(CHUNK == 4 * 16);
