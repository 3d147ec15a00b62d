//! The commands that look after the shared store. Each ends by itself.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use thiserror::Error;
use tidegate::mysql::{KnownRegion, SCHEMA_VERSION};
use tidegate::{Clock, GlobalError, Part, RequestError, Subject, SystemClock, Window};
use tidegate_convergence::{GlobalCall, GlobalReply, Import, unpack};
use tidegate_limiter::{Digest, FleetSecret};

use super::GlobeError;
use super::database::Database;
use crate::cli::{GcArgs, GlobeUrl, ShowArgs, fleet_secret_bytes};

/// `gc` did what it may do at once, and there is more.
const MORE_LEFT: u8 = 3;
/// Nothing is deleted that expired by less than this: clocks differ.
const GRACE_MS: u64 = 60_000;
/// Rows read at a time.
const ROWS_AT_ONCE: usize = 256;
/// Shorter windows are not shared.
const WINDOW_MIN_MS: u64 = 60_000;

/// Why a command came to nothing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ToolError {
    /// Not an address.
    #[error("the shared store (TIDEGATE_GLOBE or --globe): {0}.")]
    BadUrl(#[from] GlobeError),
    /// Not a subject.
    #[error("{0}")]
    BadSubject(#[from] RequestError),
    /// Not a fleet secret.
    #[error("the fleet secret (TIDEGATE_FLEET_SECRET or --fleet-secret) {0}.")]
    BadSecret(&'static str),
    /// The database said no, or nothing.
    #[error("{0}: {1}")]
    Store(String, GlobalError),
    /// The operating system refused something.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl ToolError {
    /// 2 if it was said wrongly or the tables are not those we know, 1 if it could not be done.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Store(_, GlobalError::Schema(_)) => ExitCode::from(2),
            Self::Store(..) | Self::System(_) => ExitCode::from(1),
            _ => ExitCode::from(2),
        }
    }
}

/// What a command is made of.
type Done = Result<ExitCode, ToolError>;

/// `tidegate migrate`: makes the tables, or brings them up to date.
///
/// # Errors
/// What was wrong: the address, the database, or the tables.
pub fn migrate(url: &GlobeUrl) -> Done {
    with(url, async |database| {
        let before = database.check().await;
        if before.is_ok() {
            say(&format_args!("{database}: the tables are of version {SCHEMA_VERSION} already"));
            return Ok(ExitCode::SUCCESS);
        }
        database.migrate().await.map_err(|why| at(database, why))?;
        say(&format_args!("{database}: the tables are now of version {SCHEMA_VERSION}"));
        Ok(ExitCode::SUCCESS)
    })
}

/// `tidegate gc`: deletes what expired, in bounded steps.
///
/// # Errors
/// What was wrong: the address, the database, or the tables.
pub fn gc(args: &GcArgs) -> Done {
    with(&args.url, async |database| {
        let expired_before_ms = SystemClock::new().now().unix_ms().saturating_sub(GRACE_MS);
        let rows_max = usize::try_from(args.batch).unwrap_or(usize::MAX);
        let (mut deleted, mut batches, mut more) = (0, 0, true);
        while more && batches < args.max_batches {
            let call = GlobalCall::Collect { expired_before_ms, rows_max };
            let reply = database.call(&call).await.map_err(|why| {
                if deleted > 0 {
                    say(&format_args!("{database}: {deleted} rows deleted before it failed"));
                }
                at(database, why)
            })?;
            let GlobalReply::Deleted { rows } = reply else { break };
            (deleted, batches) = (deleted + rows, batches + 1);
            more = rows >= u64::from(args.batch);
        }
        let left = if more { "more is left" } else { "nothing that expired is left" };
        say(&format_args!("{database}: rows deleted: {deleted}, in steps: {batches}; {left}"));
        Ok(if more { ExitCode::from(MORE_LEFT) } else { ExitCode::SUCCESS })
    })
}

/// `tidegate globe regions`: lists the regions.
///
/// # Errors
/// What was wrong: the address, the database, or the tables.
pub fn regions(url: &GlobeUrl) -> Done {
    with(url, async |database| {
        let known = database.regions().await.map_err(|why| at(database, why))?;
        if known.is_empty() {
            say(&format_args!("{database}: no region was ever there"));
            return Ok(ExitCode::SUCCESS);
        }
        say(&format_args!("{:8}  {:<48}  last seen", "number", "region"));
        for region in known {
            let seen = Seen(region.seen_ms_ago);
            say(&format_args!("{:08x}  {:<48}  {seen}", region.number.0, region.name));
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// `tidegate globe show`: what each region published of a subject.
///
/// # Errors
/// What was wrong: the address, the database, or the tables.
pub fn show(args: &ShowArgs) -> Done {
    let secret = fleet_secret_bytes(args.fleet_secret.as_deref()).map_err(ToolError::BadSecret)?;
    let secret = secret.map_or_else(FleetSecret::default, FleetSecret::from_bytes);
    let part = |text| Part::new(text);
    let (workspace, namespace) = (part(&args.workspace)?, part(&args.namespace)?);
    let window = Window::from_millis(args.window)?;
    let subject = Subject::new(workspace, namespace, part(&args.identifier)?, window);
    let digest = Digest::of(&subject, &secret);
    with(&args.url, async |database| {
        if args.window < WINDOW_MIN_MS {
            say(&"windows of less than a minute are not shared between regions");
            return Ok(ExitCode::SUCCESS);
        }
        let known = database.regions().await.map_err(|why| at(database, why))?;
        let found = read(database, digest, args.window).await?;
        let now_ms = SystemClock::new().now().unix_ms();
        let current = now_ms / args.window;
        let rest_ms = args.window - now_ms % args.window;
        let ends = format!("ends in {} s", rest_ms / 1_000);
        say(&Cell {
            what: "current",
            sequence: current,
            when: &ends,
            found: &found,
            known: &known,
        });
        let previous = current.saturating_sub(1);
        let counts = format!("counts for {} % now", rest_ms.saturating_mul(100) / args.window);
        let (what, when) = ("previous", counts.as_str());
        say(&Cell { what, sequence: previous, when, found: &found, known: &known });
        Ok(ExitCode::SUCCESS)
    })
}

/// The largest total of each (sequence, region) of a subject in the feed.
type Found = BTreeMap<(u64, u32), u64>;

/// Reads the whole feed.
async fn read(database: &Database, digest: Digest, window_ms: u64) -> Result<Found, ToolError> {
    let (mut found, mut from) = (Found::new(), 0);
    loop {
        let import = Import { from, gaps: Vec::new(), repeats: true, rows_max: ROWS_AT_ONCE };
        let reply = database.call(&GlobalCall::Import(import)).await;
        let GlobalReply::Imported(rows) = reply.map_err(|why| at(database, why))? else {
            return Ok(found);
        };
        for row in &rows {
            let counters = unpack(&row.batch.payload).unwrap_or_default();
            let ours = |counter: &&tidegate_convergence::Counter| {
                counter.subject == digest && counter.window_ms == window_ms
            };
            for counter in counters.iter().filter(ours) {
                let count = found.entry((counter.sequence, row.batch.region.0)).or_insert(0);
                *count = counter.count.max(*count);
            }
        }
        match rows.last() {
            Some(last) if rows.len() >= ROWS_AT_ONCE && last.id > from => from = last.id,
            _ => return Ok(found),
        }
    }
}

/// One cell, as it is shown.
struct Cell<'a> {
    what: &'a str,
    sequence: u64,
    when: &'a str,
    found: &'a Found,
    known: &'a [KnownRegion],
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.found.range((self.sequence, 0)..=(self.sequence, u32::MAX));
        let total: u64 = all.clone().map(|(_, count)| *count).sum();
        let Self { what, sequence, when, .. } = self;
        write!(f, "{what} window, number {sequence}, {when}: {total} published")?;
        for ((_, region), count) in all {
            let known = self.known.iter().find(|known| known.number.0 == *region);
            let name = known.map_or("(a former region)", |known| known.name.as_str());
            write!(f, "\n{region:08x}  {name:<48}  {count}")?;
        }
        Ok(())
    }
}

/// When something was last seen.
struct Seen(Option<u64>);

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("gave its name back"),
            Some(ms) if ms < 120_000 => write!(f, "{} s ago", ms / 1_000),
            Some(ms) if ms < 7_200_000 => write!(f, "{} min ago", ms / 60_000),
            Some(ms) if ms < 172_800_000 => write!(f, "{} h ago", ms / 3_600_000),
            Some(ms) => write!(f, "{} days ago", ms / 86_400_000),
        }
    }
}

fn with(url: &GlobeUrl, job: impl AsyncFnOnce(&Database) -> Done) -> Done {
    let database = Database::parse(&url.globe)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(job(&database))
}

fn at(database: &Database, why: GlobalError) -> ToolError {
    ToolError::Store(database.to_string(), why)
}

/// Tells whoever reads; a closed pipe is not an error.
fn say(text: &dyn fmt::Display) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}
