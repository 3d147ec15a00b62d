//! The commands that look into the shared store.

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate::mysql::KnownRegion;
use tidegate::{Clock, Part, Subject, SystemClock, Window};
use tidegate_convergence::{GlobalCall, GlobalReply, Import, unpack};
use tidegate_limiter::{Digest, FleetSecret};

use super::{Done, ToolError, at, with};
use crate::cli::output::{say, say_json};
use crate::cli::{Output, RegionsArgs, ShowArgs, fleet_secret_bytes};
use crate::globe::database::Database;

/// Rows read at a time.
const ROWS_AT_ONCE: usize = 256;
/// Shorter windows are not shared.
const WINDOW_MIN_MS: u64 = 60_000;

/// `tidegate globe regions`: lists the regions. [`migrate`](super::migrate) has an example.
///
/// # Errors
/// What was wrong: the address, the database, or the tables.
pub fn regions(args: &RegionsArgs) -> Done {
    with(&args.url.globe, async |database| {
        let known = database.regions().await.map_err(|why| at(database, why))?;
        if args.output == Output::Json {
            say_json(&known.iter().map(region).collect::<Vec<_>>());
            return Ok(ExitCode::SUCCESS);
        }
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

fn region(known: &KnownRegion) -> Value {
    let number = format!("{:08x}", known.number.0);
    json!({"number": number, "name": known.name, "seenMsAgo": known.seen_ms_ago})
}

/// `tidegate globe show`: what each region published of a subject. [`migrate`](super::migrate) has
/// an example.
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
    with(&args.url.globe, async |database| {
        if args.window < WINDOW_MIN_MS {
            match args.output {
                Output::Text => {
                    say(&"windows of less than a minute are not shared between regions")
                }
                Output::Json => say_json(&json!({"shared": false})),
            }
            return Ok(ExitCode::SUCCESS);
        }
        let known = database.regions().await.map_err(|why| at(database, why))?;
        let found = read(database, digest, args.window).await?;
        let now_ms = SystemClock::new().now().unix_ms();
        let sequence = now_ms / args.window;
        let current = Cell { sequence, window_ms: args.window, found: &found, known: &known };
        let previous = Cell { sequence: sequence.saturating_sub(1), ..current };
        match args.output {
            Output::Json => say_json(&json!({
                "shared": true, "current": current.json(), "previous": previous.json(),
            })),
            Output::Text => {
                let rest_ms = args.window - now_ms % args.window;
                current.say("current", &format!("ends in {} s", rest_ms / 1_000));
                let percent = rest_ms.saturating_mul(100) / args.window;
                previous.say("previous", &format!("counts for {percent} % now"));
            }
        }
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
#[derive(Clone, Copy)]
struct Cell<'a> {
    sequence: u64,
    window_ms: u64,
    found: &'a Found,
    known: &'a [KnownRegion],
}

impl Cell<'_> {
    /// Number, name and total of each region.
    fn totals(&self) -> Vec<(u32, Option<&str>, u64)> {
        let all = self.found.range((self.sequence, 0)..=(self.sequence, u32::MAX));
        let named = all.map(|((_, number), count)| {
            let known = self.known.iter().find(|known| known.number.0 == *number);
            (*number, known.map(|known| known.name.as_str()), *count)
        });
        named.collect()
    }

    fn published(totals: &[(u32, Option<&str>, u64)]) -> u64 {
        totals.iter().fold(0, |sum, (_, _, count)| sum.saturating_add(*count))
    }

    fn say(&self, what: &str, when: &str) {
        let (totals, sequence) = (self.totals(), self.sequence);
        let published = Self::published(&totals);
        say(&format_args!("{what} window, number {sequence}, {when}: {published} published"));
        for (number, name, count) in totals {
            let name = name.unwrap_or("(a former region)");
            say(&format_args!("{number:08x}  {name:<48}  {count}"));
        }
    }

    /// Times are in milliseconds since 1970.
    fn json(&self) -> Value {
        let totals = self.totals();
        let starts_at = self.sequence.saturating_mul(self.window_ms);
        let regions = totals.iter().map(|(number, name, count)| {
            json!({"number": format!("{number:08x}"), "name": name, "count": count})
        });
        json!({
            "sequence": self.sequence,
            "startsAt": starts_at,
            "endsAt": starts_at.saturating_add(self.window_ms),
            "published": Self::published(&totals),
            "regions": regions.collect::<Vec<_>>(),
        })
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
