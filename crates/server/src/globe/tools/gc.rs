//! `tidegate gc`: deletes what nobody needs any more, in bounded steps.
//!
//! Promises: what was deleted is said, also when something fails afterwards; an address that is
//! not one is refused before anything is deleted.

use std::process::ExitCode;

use serde_json::{Map, Value, json};
use tidegate::{Clock, GlobalError, SystemClock};
use tidegate_convergence::{GlobalCall, GlobalReply};

use super::{Done, ToolError};
use crate::cli::output::{say, say_json};
use crate::cli::{GcArgs, Output};
use crate::globe::database::Database;
use crate::place;

/// It did what it may do at once, and there is more.
const MORE_LEFT: u8 = 3;
/// Nothing is deleted that expired by less than this: clocks differ.
const GRACE_MS: u64 = 60_000;

/// `tidegate gc`: deletes what expired, and what is old in the audit. [`migrate`](super::migrate)
/// has an example.
///
/// # Errors
/// What was wrong: an address, a database, its tables, or the rights to them.
pub fn gc(args: &GcArgs) -> Done {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let globe = args.globe.as_deref().map(Database::parse).transpose()?;
    let audit = args.audit_older_than.map(|age_ms| Ok::<_, ToolError>((age_ms, audit_of(args)?)));
    let audit = audit.transpose()?;
    let now_ms = SystemClock::new().now().unix_ms();
    let mut gone = Vec::new();
    let done = runtime.block_on(async {
        if let Some(database) = &globe {
            let before_ms = now_ms.saturating_sub(GRACE_MS);
            let step = async |rows_max| expired(database, before_ms, rows_max).await;
            delete(args, Deleted::of("feed", database), step, &mut gone).await?;
        }
        if let Some((age_ms, database)) = &audit {
            let (store, before_ms) = (database.control(), now_ms.saturating_sub(*age_ms));
            let step = async |rows_max| {
                let forgotten = store.forget_audit(before_ms, rows_max).await?;
                Ok((forgotten.rows, forgotten.more))
            };
            delete(args, Deleted::of("audit", database), step, &mut gone).await?;
        }
        Ok(())
    });
    show(args.output, &gone);
    let more = gone.iter().any(|deleted| deleted.more);
    done.map(|()| if more { ExitCode::from(MORE_LEFT) } else { ExitCode::SUCCESS })
}

/// Where the audit is: as for a server that is told the same.
fn audit_of(args: &GcArgs) -> Result<Database, ToolError> {
    match (&args.place.database, &args.globe) {
        (Some(url), _) => Database::parse(url).map_err(ToolError::BadDatabase),
        (None, Some(url)) => Ok(Database::parse(url)?),
        (None, None) => {
            let dir = place::data_dir(args.place.data.as_deref())?;
            Database::parse(&place::database_url(&dir)).map_err(ToolError::BadDatabase)
        }
    }
}

/// Deletes some of what expired; says how many rows, and whether there is more.
async fn expired(
    database: &Database,
    expired_before_ms: u64,
    rows_max: usize,
) -> Result<(u64, bool), GlobalError> {
    let call = GlobalCall::Collect { expired_before_ms, rows_max };
    let GlobalReply::Deleted { rows } = database.call(&call).await? else { return Ok((0, false)) };
    Ok((rows, usize::try_from(rows).is_ok_and(|rows| rows >= rows_max)))
}

/// What was deleted of one kind.
struct Deleted {
    /// The table.
    of: &'static str,
    database: String,
    rows: u64,
    steps: u32,
    /// Whether there is more.
    more: bool,
    failed: bool,
}

impl Deleted {
    fn of(of: &'static str, database: &Database) -> Self {
        let database = database.to_string();
        Self { of, database, rows: 0, steps: 0, more: true, failed: false }
    }
}

/// Goes on as long as there is more, but not for ever. What was deleted is noted whatever happens.
async fn delete(
    args: &GcArgs,
    mut deleted: Deleted,
    step: impl AsyncFn(usize) -> Result<(u64, bool), GlobalError>,
    noted: &mut Vec<Deleted>,
) -> Result<(), ToolError> {
    let rows_max = usize::try_from(args.batch).unwrap_or(usize::MAX);
    let mut done = Ok(());
    while deleted.more && deleted.steps < args.max_batches {
        match step(rows_max).await {
            Ok((rows, more)) => {
                deleted.rows = deleted.rows.saturating_add(rows);
                (deleted.steps, deleted.more) = (deleted.steps + 1, more);
            }
            Err(why) => {
                deleted.failed = true;
                done = Err(ToolError::Store(deleted.database.clone(), why));
                break;
            }
        }
    }
    if done.is_ok() || deleted.rows > 0 {
        noted.push(deleted);
    }
    done
}

fn show(output: Output, gone: &[Deleted]) {
    match output {
        Output::Text => gone.iter().for_each(Deleted::say),
        Output::Json if gone.is_empty() => {}
        Output::Json => {
            let parts = gone.iter().map(|deleted| (deleted.of.to_owned(), deleted.json()));
            say_json(&parts.collect::<Map<String, Value>>());
        }
    }
}

impl Deleted {
    fn say(&self) {
        let Self { of, database, rows, steps, more, failed } = self;
        if *failed {
            say(&format_args!("{database}: {rows} rows of the {of} deleted before it failed"));
            return;
        }
        let left = match (more, *of) {
            (true, _) => "more is left",
            (false, "audit") => "nothing that is older is left",
            (false, _) => "nothing that expired is left",
        };
        say(&format_args!(
            "{database}: rows deleted: {rows} of the {of}, in steps: {steps}; {left}"
        ));
    }

    fn json(&self) -> Value {
        let Self { database, rows, steps, more, .. } = self;
        json!({"database": database, "rowsDeleted": rows, "steps": steps, "more": more})
    }
}
