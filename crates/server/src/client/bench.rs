//! `tidegate bench`: a load that comes by the clock, and how long its answers took.
//!
//! Promises: in an open loop the latency of a request counts from when it was due, so a stall of
//! the server is in the numbers of all that were due meanwhile; a load that this machine cannot
//! send is said (`fell behind`). Memory does not grow with the time it runs.
//! Refuses: to begin if the server cannot be reached or does not know the key.
//! Fails: a request that fails is counted by its kind, and its connection is made anew.

mod draw;
mod histogram;
mod line;
mod report;
mod schedule;
mod tally;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::http::request::Parts;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, timeout_at};

use super::failure::Failure;
use super::http::{ANSWER_WITHIN, Server};
use super::{DENIED, Done, Session, print};
use crate::accept::files;
use crate::cli::output::say_json;
use crate::cli::{AskedArgs, BenchArgs, Output};
use crate::signals::Signals;
use draw::Bodies;
use line::{ErrorKind, Line, Outcome};
use report::Report;
use schedule::Schedule;
use tally::{Tally, get};

/// How long what is due at the end may wait to be sent: the last ones are due just before it.
const TAIL: Duration = Duration::from_millis(100);
/// How long replies are waited for once Ctrl-C ended it.
const HURRY: Duration = Duration::from_secs(1);
/// How long a sender rests when there is no connection: it would spin.
const REST: Duration = Duration::from_millis(100);
/// How often the line of progress is written.
const PROGRESS: Duration = Duration::from_secs(1);

/// Loads a server, and reports.
pub(super) fn bench(args: &BenchArgs) -> Done {
    let session = Session::new(&args.server)?;
    let server = if args.http2 { session.server.speaking_http2() } else { session.server };
    let possible = files::allow(args.connections);
    if possible < args.connections {
        let why = format!("this process may open files for {possible} --connections (`ulimit -n`)");
        return Err(Failure::Usage(why));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::System)?;
    let report = runtime.block_on(run(args, server));
    runtime.shutdown_background();
    let report = report?;
    match args.server.output {
        Output::Text => print(&report),
        Output::Json => say_json(&report),
    }
    if !report.has_answers() {
        return Err(Failure::Unanswered);
    }
    Ok(if report.is_above() { ExitCode::from(DENIED) } else { ExitCode::SUCCESS })
}

/// What all senders share.
struct Load {
    server: Server,
    head: Parts,
    bodies: Bodies,
    tally: Tally,
}

async fn run(args: &BenchArgs, server: Server) -> Result<Report, Failure> {
    let mut signals = Signals::catch().map_err(Failure::System)?;
    check(&args.asked, &server).await?;
    let bodies = Bodies::new(&args.asked);
    let head = server.head(bodies.path())?;
    let load = Arc::new(Load { server, head, bodies, tally: Tally::new(args.fail_above) });
    let lines = connect(args, &load).await?;
    let schedule = Arc::new(Schedule::new(args.rate, args.warm_up, args.time));
    let clock = schedule.keep(lines.len());
    let mut senders = JoinSet::new();
    for line in lines {
        senders.spawn(send(Arc::clone(&load), Arc::clone(&schedule), line));
    }
    let progress = io::stderr().is_terminal();
    let progress = progress.then(|| tokio::spawn(show(Arc::clone(&load), Arc::clone(&schedule))));
    let ended_early = tokio::select! {
        () = all(&mut senders, schedule.end() + TAIL) => false,
        () = signals.next() => true,
    };
    schedule.stop();
    let (end, due) = (Instant::now(), schedule.counted_by_now());
    let patience = if ended_early { HURRY } else { ANSWER_WITHIN };
    tokio::select! {
        () = all(&mut senders, end + patience) => {}
        () = signals.next() => {}
    }
    if let Some(progress) = progress {
        progress.abort();
        tell(format_args!("\r\u{1b}[K"));
    }
    // It has seen the stop, or sees it within milliseconds; a panic in it would be a bug to see.
    if clock.is_some_and(|clock| clock.join().is_err()) {
        return Err(Failure::System(io::Error::other("the schedule broke")));
    }
    let end = end.min(schedule.end().max(schedule.measured_from()));
    let measured = end.saturating_duration_since(schedule.measured_from());
    Ok(Report::new(args, &load.tally, measured, due))
}

/// Asks once, for nothing: what is wrong with address, key or request is said at once.
async fn check(asked: &AskedArgs, server: &Server) -> Result<(), Failure> {
    let bodies = Bodies::new(&AskedArgs { cost: 0, identifiers: 1, zipf: None, ..asked.clone() });
    server.post(bodies.path(), bodies.body(0), None).await?.check()?;
    Ok(())
}

/// Makes all connections, before the clock starts.
async fn connect(args: &BenchArgs, load: &Arc<Load>) -> Result<Vec<Line>, Failure> {
    let streams = args.http2.then_some(args.streams);
    let mut connecting = JoinSet::new();
    for _ in 0..args.connections {
        let load = Arc::clone(load);
        connecting.spawn(async move {
            let mut lines = Line::of_connection(streams);
            for line in &mut lines {
                line.connect(&load.server).await?;
            }
            Ok(lines)
        });
    }
    let mut lines = Vec::new();
    while let Some(connected) = connecting.join_next().await {
        let connected = connected.map_err(io::Error::other).flatten();
        lines.extend(connected.map_err(|why| load.server.unreachable(&why))?);
    }
    Ok(lines)
}

/// Sends what is due, one at a time, until nothing more is.
async fn send(load: Arc<Load>, schedule: Arc<Schedule>, mut line: Line) {
    while let Some(ticket) = schedule.next().await {
        load.tally.begin(&ticket);
        let body = Full::new(load.bodies.body(ticket.number));
        let request = Request::from_parts(load.head.clone(), body);
        let outcome = line.call(&load.server, request).await;
        load.tally.end(&ticket, outcome);
        if outcome == Outcome::Error(ErrorKind::Unreachable) {
            schedule.rest(REST).await;
        }
    }
}

/// Waits until all have ended, or until the deadline.
async fn all(senders: &mut JoinSet<()>, deadline: Instant) {
    let ended = async { while senders.join_next().await.is_some() {} };
    let _ = timeout_at(deadline, ended).await;
}

/// Says how far it is, on a line that is written over.
async fn show(load: Arc<Load>, schedule: Arc<Schedule>) {
    let mut ticks = interval(PROGRESS);
    loop {
        ticks.tick().await;
        let left = schedule.end().saturating_duration_since(Instant::now()).as_secs();
        let Load { tally, .. } = &*load;
        let p99_us = tally.latency.percentile(990) / 1_000;
        tell(format_args!(
            "\r\u{1b}[K{left} s left: {} sent, {} answered, p99 {}.{:03} ms",
            get(&tally.sent),
            tally.answered(),
            p99_us / 1_000,
            p99_us % 1_000,
        ));
    }
}

fn tell(text: std::fmt::Arguments<'_>) {
    let mut out = io::stderr().lock();
    // Nobody may be watching.
    let _ = out.write_fmt(text);
    let _ = out.flush();
}
