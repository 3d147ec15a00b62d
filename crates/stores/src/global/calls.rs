//! The calls, in words that both databases understand.

use tidegate_convergence::{
    Batch, CALL_ROWS_MAX, GAPS_MAX, GlobalCall, GlobalError, GlobalReply, Import, NAME_LAPSE_MS,
    RegionName, RegionNumber, Row,
};

use super::pool::Job;
use super::session::{CHUNK, Record, Session, Trouble, Value};

/// How often a registration begins again because another one was quicker. Each time, one of them
/// was done.
const ROUNDS_MAX: usize = 8;

impl Job for GlobalCall {
    type Output = GlobalReply;

    async fn run<S: Session>(&self, session: &mut S) -> Result<GlobalReply, Trouble> {
        match self {
            Self::Register { name, identity } => register(session, name, *identity).await,
            Self::Release { name, identity } => {
                let identity = identity.to_be_bytes();
                let values = [text(name), Value::Bytes(&identity)];
                session.write(S::STATEMENTS.release, &values).await?;
                Ok(GlobalReply::Released)
            }
            Self::Publish(batch) => publish(session, batch).await,
            Self::Import(import) => read(session, import).await,
            Self::Trim { region, up_to, written_before_ms, rows_max } => {
                let region = Value::Number(region.0.into());
                let (last, before) = (Value::Place(*up_to), Value::Number(*written_before_ms));
                let values = [region, last, before, most(*rows_max)];
                delete(session, S::STATEMENTS.trim, &values).await
            }
            Self::Collect { expired_before_ms, rows_max } => {
                let values = [Value::Number(*expired_before_ms), most(*rows_max)];
                delete(session, S::STATEMENTS.collect, &values).await
            }
        }
    }
}

async fn register<S: Session>(
    session: &mut S,
    name: &RegionName,
    identity: u128,
) -> Result<GlobalReply, Trouble> {
    for _ in 0..ROUNDS_MAX {
        if try_register(session, name, identity).await? {
            let rows = session.read(S::STATEMENTS.count_regions, &[]).await?;
            let mut counted = rows.into_iter().next().ok_or_else(super::session::foreign)?;
            return Ok(GlobalReply::Registered { regions: counted.small()? });
        }
    }
    let why = "several regions register the same name at the same time";
    Err(Trouble::Said(GlobalError::Busy(why.to_owned())))
}

/// `false` if the row changed, or came to be, between the look at it and the change.
async fn try_register<S: Session>(
    session: &mut S,
    name: &RegionName,
    identity: u128,
) -> Result<bool, Trouble> {
    let (ours, statements) = (identity.to_be_bytes(), S::STATEMENTS);
    let found = session.read(statements.region, &[text(name)]).await?;
    let Some(mut row) = found.into_iter().next() else {
        let values = [text(name), Value::Bytes(&ours)];
        return match session.write(statements.add_region, &values).await {
            Ok(_) => Ok(true),
            Err(Trouble::Duplicate) => Ok(false),
            Err(why) => Err(why),
        };
    };
    let (theirs, seen_ms, now_ms) = (row.bytes()?, row.number()?, row.number()?);
    let changed = if theirs == ours {
        session.write(statements.renew, &[text(name), Value::Bytes(&ours)]).await?
    } else {
        let seen_ms_ago = now_ms.saturating_sub(seen_ms);
        if seen_ms_ago < NAME_LAPSE_MS {
            return Err(Trouble::Said(GlobalError::NameTaken { seen_ms_ago }));
        }
        let (ours, theirs) = (Value::Bytes(&ours), Value::Bytes(&theirs));
        let values = [ours, text(name), theirs, Value::Number(seen_ms)];
        session.write(statements.take_over, &values).await?
    };
    Ok(changed.rows > 0)
}

async fn publish<S: Session>(session: &mut S, batch: &Batch) -> Result<GlobalReply, Trouble> {
    let values = [
        Value::Number(batch.region.0.into()),
        Value::Number(batch.repeats.into()),
        Value::Number(batch.nonce),
        Value::Number(batch.written_ms),
        Value::Number(batch.expires_ms),
        Value::Bytes(&batch.payload),
    ];
    let written = session.write(S::STATEMENTS.publish, &values).await?;
    Ok(GlobalReply::Published { id: written.id })
}

async fn read<S: Session>(session: &mut S, import: &Import) -> Result<GlobalReply, Trouble> {
    if !import.is_sound() {
        return Err(refused("an import asks about too many gaps"));
    }
    let from = Value::Place(import.from);
    let mut values = vec![from, Value::Number(import.repeats.into()), from];
    let statement = if import.gaps.is_empty() {
        S::STATEMENTS.import_on
    } else {
        values.extend(import.gaps.iter().map(|id| Value::Place(*id)));
        // One statement for any number of gaps; `from` is asked for anyway.
        values.resize(3 + GAPS_MAX, from);
        S::STATEMENTS.import
    };
    values.push(most(import.rows_max));
    let rows = session.read(statement, &values).await?;
    let rows: Result<Vec<Row>, Trouble> = rows.into_iter().map(row).collect();
    Ok(GlobalReply::Imported(rows?))
}

fn row(mut record: Record) -> Result<Row, Trouble> {
    let id = record.number()?;
    let (region, repeats) = (RegionNumber(record.small()?), record.number()? != 0);
    let (nonce, written_ms, expires_ms) = (record.number()?, record.number()?, record.number()?);
    let payload = record.bytes()?;
    Ok(Row { id, batch: Batch { region, repeats, nonce, written_ms, expires_ms, payload } })
}

/// Looks for rows without locking any, then deletes them by their ids, a few at a time: only the
/// rows themselves are locked, always in the same order, and never for long.
async fn delete<S: Session>(
    session: &mut S,
    which: &'static str,
    values: &[Value<'_>],
) -> Result<GlobalReply, Trouble> {
    let found = session.read(which, values).await?;
    let ids: Result<Vec<u64>, Trouble> = found.into_iter().map(|mut row| row.number()).collect();
    let mut rows: u64 = 0;
    for chunk in ids?.chunks(CHUNK) {
        let mut values: Vec<Value<'_>> = chunk.iter().map(|id| Value::Place(*id)).collect();
        values.resize(CHUNK, chunk.last().map_or(Value::Place(0), |id| Value::Place(*id)));
        let deleted = session.write(S::STATEMENTS.delete, &values).await?;
        rows = rows.saturating_add(deleted.rows);
    }
    Ok(GlobalReply::Deleted { rows })
}

fn text(name: &RegionName) -> Value<'_> {
    Value::Bytes(name.as_str().as_bytes())
}

fn most(rows_max: usize) -> Value<'static> {
    Value::Place(u64::try_from(rows_max.min(CALL_ROWS_MAX)).unwrap_or(u64::MAX))
}

fn refused(why: &str) -> Trouble {
    Trouble::Said(GlobalError::Refused(why.to_owned()))
}
