//! The commands that speak to a server: what a terminal or a script says over HTTP.
//!
//! Promises: one call, in time, or an error that says what to do; exit codes a script can rely on
//! ([`run`]). What a server sends is shown without the control characters in it. A key is never
//! printed.
//! Refuses: an address that cannot be one, limits that are no JSON, before anything is sent.
//! Fails: with 2 if it was said wrongly, with 3 if the server is away, slow or broken, or says that
//! it may be tried again. Nothing is sent twice: whoever wants to try again does, with an
//! `--idempotency-key` if it must count once.

mod bench;
mod failure;
mod http;
mod read;
mod show;
#[cfg(feature = "tls")]
mod tls;
mod tree;
pub(crate) mod words;

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use bytes::Bytes;
use clap::CommandFactory;
use serde::Serialize;
use serde_json::{Value, json};
use tidegate::{Clock, SystemClock};

use crate::cli::output::say_json;
use crate::cli::{
    Cli, ClientCommand, ExplainArgs, InspectArgs, LimitArgs, ListArgs, MultiLimitArgs, Output,
    OverrideCommand, RequestArgs, ServerArgs, SetOverrideArgs, SubjectArgs, WhichOverrideArgs,
};
use crate::idempotency::IdempotencyKey;
use failure::Failure;
use http::{Answer, Server};
use show::{Batch, Limited, Overrides, Page};

/// It was denied, and that was to be a failure.
const DENIED: u8 = 1;
/// The server is there, but wants nobody.
const NOT_READY: u8 = 3;
/// Most pages of a list: more than any namespace has. A server whose pages have no end is broken.
const PAGES_MAX: usize = 100_000;

/// Where overrides are listed.
const LIST: &str = "/v2/ratelimit.listOverrides";

/// Does what was said.
///
/// Ends with 0 if it is done, also if the answer is a denial; with 1 for a denial that was to be a
/// failure; with 2 if it was said wrongly; with 3 if the server could not be reached, failed, or
/// asked for the same again later.
///
/// ```
/// use std::process::ExitCode;
///
/// use clap::Parser;
/// use tidegate_server::cli::{Cli, Command};
///
/// let line = "tidegate inspect --namespace n --identifier i --window 1h --root-key k --url here";
/// let Command::Client(command) = Cli::try_parse_from(line.split(' '))?.command else {
///     unreachable!()
/// };
/// assert_eq!(tidegate_server::client::run(&command), ExitCode::from(2), "`here` is no address");
/// # Ok::<(), clap::Error>(())
/// ```
#[must_use]
pub fn run(command: &ClientCommand) -> ExitCode {
    let done = match command {
        ClientCommand::Limit(args) => limit(args),
        ClientCommand::MultiLimit(args) => multi_limit(args),
        ClientCommand::Override(OverrideCommand::Set(args)) => set(args),
        ClientCommand::Override(OverrideCommand::Get(args)) => get(args),
        ClientCommand::Override(OverrideCommand::List(args)) => list(args),
        ClientCommand::Override(OverrideCommand::Delete(args)) => delete(args),
        ClientCommand::Explain(args) => explain(args),
        ClientCommand::Inspect(args) => inspect(args),
        ClientCommand::Bench(args) => bench::bench(args),
        ClientCommand::Health { url } => health(url),
        ClientCommand::Man { directory } => man(directory),
        ClientCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "tidegate", &mut script);
            print_bytes(&script);
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|why| {
        // Nobody may be listening.
        let _ = writeln!(io::stderr().lock(), "{why}");
        why.exit_code()
    })
}

/// Asks whether the server wants clients.
fn health(url: &str) -> Done {
    let server = Server::without_key(url)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answer = runtime.map_err(Failure::System)?.block_on(server.get("/readyz"))?;
    match answer.status() {
        200 => print(&"ready"),
        503 => {
            print(&"retiring");
            return Ok(ExitCode::from(NOT_READY));
        }
        // Whoever this is.
        _ => drop(answer.check()?),
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for every command.
fn man(directory: &Path) -> Done {
    let made = std::fs::create_dir_all(directory);
    let written = made.and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
    written.map_err(Failure::System)?;
    Ok(ExitCode::SUCCESS)
}

/// What a command ends with.
type Done = Result<ExitCode, Failure>;

/// The body of a request. `None` is not sent.
#[derive(Default, Serialize)]
struct Body<'a> {
    namespace: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    identifier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
}

impl<'a> Body<'a> {
    fn about(subject: &'a SubjectArgs) -> Self {
        let identifier = Some(subject.identifier.as_str());
        Self { namespace: &subject.namespace, identifier, ..Self::default() }
    }

    fn of(args: &'a RequestArgs) -> Self {
        let (limit, duration) = (Some(args.limit), Some(args.window));
        Self { limit, duration, cost: args.cost, ..Self::about(&args.subject) }
    }

    fn bytes(&self) -> Bytes {
        // Strings and integers can always be encoded.
        Bytes::from(serde_json::to_vec(self).unwrap_or_default())
    }
}

/// One call to a server, and what is printed of it.
struct Session<'a> {
    server: Server,
    args: &'a ServerArgs,
}

impl<'a> Session<'a> {
    fn new(args: &'a ServerArgs) -> Result<Self, Failure> {
        let lacking = || {
            let how = "there is no root key: set TIDEGATE_ROOT_KEY. `tidegate serve` printed one \
                       when it first started, and `tidegate key create` makes another";
            Failure::Usage(how.to_owned())
        };
        let key = args.root_key.as_deref().ok_or_else(lacking)?;
        Ok(Self { server: Server::new(&args.url, key)?, args })
    }

    /// Sends a call. As JSON the reply is printed here, whatever it says.
    fn call(&self, path: &str, body: Bytes, key: Option<&str>) -> Result<Answer, Failure> {
        let answer = self.send(path, body, key)?;
        if self.is_json() {
            print(&answer.line());
        }
        answer.check()
    }

    /// Sends a call whose reply is one part of what will be printed. A refusal is all of it.
    fn call_for_part(&self, path: &str, body: Bytes) -> Result<Answer, Failure> {
        let answer = self.send(path, body, None)?;
        if self.is_json() && !answer.is_success() {
            print(&answer.line());
        }
        answer.check()
    }

    fn send(&self, path: &str, body: Bytes, key: Option<&str>) -> Result<Answer, Failure> {
        if key.is_some_and(|key| IdempotencyKey::parse(key.as_bytes()).is_err()) {
            let why = "--idempotency-key must have 1 to 255 visible ASCII characters";
            return Err(Failure::Usage(why.to_owned()));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::System)?;
        runtime.block_on(self.server.post(path, body, key))
    }

    /// Prints, unless the reply was printed as it is.
    fn say(&self, text: &dyn Display) {
        if !self.is_json() {
            print(text);
        }
    }

    fn is_json(&self) -> bool {
        self.args.output == Output::Json
    }
}

fn limit(args: &LimitArgs) -> Done {
    let session = Session::new(&args.server)?;
    let key = args.idempotency_key.as_deref();
    let answer = session.call("/v2/ratelimit.limit", Body::of(&args.request).bytes(), key)?;
    let limited: Limited = answer.data()?;
    session.say(&limited.shown(now_ms(), answer.replayed));
    Ok(verdict(limited.success, args.fail))
}

fn multi_limit(args: &MultiLimitArgs) -> Done {
    let session = Session::new(&args.server)?;
    let body = read::limits(&args.limits)?;
    let key = args.idempotency_key.as_deref();
    let answer = session.call("/v2/ratelimit.multiLimit", body, key)?;
    let batch: Batch = answer.data()?;
    session.say(&batch.shown(now_ms(), answer.replayed));
    Ok(verdict(batch.passed, args.fail))
}

fn verdict(admitted: bool, fail: bool) -> ExitCode {
    if fail && !admitted { ExitCode::from(DENIED) } else { ExitCode::SUCCESS }
}

fn set(args: &SetOverrideArgs) -> Done {
    let session = Session::new(&args.server)?;
    let (limit, duration) = (Some(args.limit), Some(args.window));
    let body = Body { limit, duration, ..Body::about(&args.subject) };
    let answer = session.call("/v2/ratelimit.setOverride", body.bytes(), None)?;
    let set: show::SetOverride = answer.data()?;
    session.say(&format_args!("set: {}", words::visible(&set.override_id)));
    Ok(ExitCode::SUCCESS)
}

fn get(args: &WhichOverrideArgs) -> Done {
    let session = Session::new(&args.server)?;
    let answer =
        session.call("/v2/ratelimit.getOverride", Body::about(&args.subject).bytes(), None)?;
    let one: show::Override = answer.data()?;
    session.say(&Overrides(&[one]));
    Ok(ExitCode::SUCCESS)
}

fn delete(args: &WhichOverrideArgs) -> Done {
    let session = Session::new(&args.server)?;
    session.call("/v2/ratelimit.deleteOverride", Body::about(&args.subject).bytes(), None)?;
    session.say(&"deleted");
    Ok(ExitCode::SUCCESS)
}

fn list(args: &ListArgs) -> Done {
    let session = Session::new(&args.server)?;
    if args.page_size.is_none() && args.cursor.is_none() {
        return list_all(&session, &args.namespace);
    }
    let (limit, cursor) = (args.page_size.map(u64::from), args.cursor.as_deref());
    let body = Body { namespace: &args.namespace, limit, cursor, ..Body::default() };
    let answer = session.call(LIST, body.bytes(), None)?;
    let overrides: Vec<show::Override> = answer.data()?;
    session.say(&Page { overrides: &overrides, next: answer.next_page()?.as_deref() });
    Ok(ExitCode::SUCCESS)
}

/// All pages, as one reply that has no more.
fn list_all(session: &Session<'_>, namespace: &str) -> Done {
    let (mut cursor, mut parts) = (None, Vec::new());
    for _ in 0..PAGES_MAX {
        let body = Body { namespace, cursor: cursor.as_deref(), ..Body::default() };
        let answer = session.call_for_part(LIST, body.bytes())?;
        parts.extend(answer.data::<Vec<Value>>()?);
        let next = answer.next_page()?;
        if next.is_none() {
            let overrides = show::overrides(&parts)?;
            session.say(&Page { overrides: &overrides, next: None });
            if session.is_json() {
                let pagination = json!({"hasMore": false});
                say_json(&json!({"meta": answer.meta()?, "data": parts, "pagination": pagination}));
            }
            return Ok(ExitCode::SUCCESS);
        }
        if next == cursor {
            break;
        }
        cursor = next;
    }
    Err(Failure::Strange("its list of overrides has no end".to_owned()))
}

fn explain(args: &ExplainArgs) -> Done {
    show_data(&args.server, "/v2/tidegate.explain", &Body::of(&args.request))
}

fn inspect(args: &InspectArgs) -> Done {
    let body = Body { duration: Some(args.window), ..Body::about(&args.subject) };
    show_data(&args.server, "/v2/tidegate.inspect", &body)
}

/// Prints what came back, whatever it is.
fn show_data(server: &ServerArgs, path: &str, body: &Body<'_>) -> Done {
    let session = Session::new(server)?;
    let answer = session.call(path, body.bytes(), None)?;
    let data: tree::Tree = answer.data()?;
    session.say(&data);
    Ok(ExitCode::SUCCESS)
}

fn now_ms() -> u64 {
    SystemClock::new().now().unix_ms()
}

fn print(text: &dyn Display) {
    print_bytes(format!("{text}\n").as_bytes());
}

/// Tells whoever reads; a closed pipe is not an error.
fn print_bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(bytes);
    let _ = out.flush();
}
