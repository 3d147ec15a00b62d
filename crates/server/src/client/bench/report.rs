//! What was measured: a table for people, an object for programs.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::histogram::Histogram;
use super::line::ErrorKind;
use super::tally::{Tally, get, nanos};
use crate::cli::{BenchArgs, Rate};

/// Of a thousand answers, so many make p99.
const P99: u64 = 990;

/// What was measured.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// `open`, or `closed`: whether requests were due by the clock.
    r#loop: &'static str,
    /// What was asked for; absent in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
    connections: u32,
    seconds: f64,
    sent: u64,
    answered: u64,
    achieved_rate: f64,
    admitted: u64,
    denied: u64,
    degraded: u64,
    errors: Errors,
    /// Due, but the end came before a connection was free.
    unsent: u64,
    /// Sent late because no connection was free.
    queued: u64,
    /// Sent late though one was: the generator is too slow.
    fell_behind: u64,
    /// 99 of 100 were sent no later than this after they were due, if a connection was free.
    schedule_p99_ms: f64,
    latency_ms: Latency,
    #[serde(skip)]
    p99_ns: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Errors {
    unreachable: u64,
    broken: u64,
    late: u64,
    too_many: u64,
    refused: u64,
    failed: u64,
    strange: u64,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Latency {
    fn of(latency: &Histogram) -> Self {
        let at = |per_mille| ms(latency.percentile(per_mille));
        let (p50, p90, p99, p999) = (at(500), at(900), at(P99), at(999));
        Self { p50, p90, p99, p999, max: ms(latency.max()) }
    }
}

impl Errors {
    fn total(&self) -> u64 {
        let Self { unreachable, broken, late, too_many, refused, failed, strange } = self;
        [unreachable, broken, late, too_many, refused, failed, strange].into_iter().sum()
    }
}

impl Report {
    /// `measured` is the time in which requests were sent; `due` how many should have been.
    pub(super) fn new(
        args: &BenchArgs,
        tally: &Tally,
        measured: Duration,
        due: Option<u64>,
    ) -> Self {
        let of = |kind| tally.errors(kind);
        let (sent, answered) = (get(&tally.sent), tally.answered());
        let seconds = measured.as_secs_f64();
        let (r#loop, rate) = match args.rate {
            Rate::PerSecond(rate) => ("open", Some(rate.get())),
            Rate::Max => ("closed", None),
        };
        let achieved_rate = if seconds > 0.0 { answered as f64 / seconds } else { 0.0 };
        Self {
            r#loop,
            rate,
            connections: args.connections,
            seconds: thousandths(seconds),
            sent,
            answered,
            achieved_rate: thousandths(achieved_rate),
            admitted: get(&tally.admitted),
            denied: get(&tally.denied),
            degraded: get(&tally.degraded),
            errors: Errors {
                unreachable: of(ErrorKind::Unreachable),
                broken: of(ErrorKind::Broken),
                // What was still in flight when it ended got no answer in time either.
                late: of(ErrorKind::Late).saturating_add(tally.in_flight()),
                too_many: of(ErrorKind::TooMany),
                refused: of(ErrorKind::Refused),
                failed: of(ErrorKind::Failed),
                strange: of(ErrorKind::Strange),
            },
            unsent: due.unwrap_or(sent).saturating_sub(sent),
            queued: get(&tally.queued),
            fell_behind: get(&tally.fell_behind),
            schedule_p99_ms: ms(tally.lateness.percentile(P99)),
            latency_ms: Latency::of(&tally.latency),
            p99_ns: tally.latency.percentile(P99),
        }
    }

    /// Whether p99 is above that. What got no answer took for ever: with more than one in a
    /// hundred of those it is.
    pub(super) fn is_above(&self, bound: Duration) -> bool {
        let lost = self.errors.total().saturating_add(self.unsent);
        let all = self.sent.saturating_add(self.unsent);
        self.p99_ns > nanos(bound) || lost.saturating_mul(100) > all
    }

    pub(super) const fn has_answers(&self) -> bool {
        self.answered > 0
    }
}

/// In milliseconds.
fn ms(ns: u64) -> f64 {
    thousandths(ns as f64 / 1_000_000.0)
}

fn thousandths(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loop_ = match self.rate {
            Some(rate) => format!("open loop, {rate} requests/s"),
            None => "closed loop".to_owned(),
        };
        let Self { connections, seconds, sent, answered, achieved_rate, .. } = self;
        writeln!(f, "{loop_}, {connections} connections, {seconds:.1} s\n")?;
        writeln!(f, "{:<12}{sent:>12}", "sent")?;
        writeln!(f, "{:<12}{answered:>12}   {achieved_rate:.1} a second", "answered")?;
        writeln!(f, "{:<12}{:>12}", "  admitted", self.admitted)?;
        writeln!(f, "{:<12}{:>12}", "  denied", self.denied)?;
        writeln!(f, "{:<12}{:>12}", "  degraded", self.degraded)?;
        writeln!(f, "{:<12}{:>12}", "errors", self.errors.total())?;
        self.errors.fmt(f)?;
        if self.rate.is_some() {
            self.schedule(f)?;
        }
        let Latency { p50, p90, p99, p999, max } = &self.latency_ms;
        let from = if self.rate.is_some() { "due" } else { "sent" };
        writeln!(f, "\nlatency, from when it was {from}")?;
        for (name, value) in [("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p999)] {
            writeln!(f, "  {name:<10}{value:>12.3} ms")?;
        }
        write!(f, "  {:<10}{max:>12.3} ms", "max")
    }
}

impl Report {
    fn schedule(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fell_behind, queued, unsent, schedule_p99_ms, .. } = self;
        write!(f, "{:<12}{fell_behind:>12}", "fell behind")?;
        // If all waited for a connection, nothing is known of the schedule.
        if *schedule_p99_ms > 0.0 {
            write!(f, "   99 % were sent within {schedule_p99_ms:.3} ms of their time")?;
        }
        writeln!(f)?;
        if *queued > 0 {
            writeln!(f, "{:<12}{queued:>12}   over 1 ms for a free connection", "waited")?;
        }
        if *unsent > 0 {
            let why = "no connection was free before the end";
            writeln!(f, "{:<12}{unsent:>12}   {why}", "never sent")?;
        }
        Ok(())
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count, means) in [
            ("unreachable", self.unreachable, "no connection"),
            ("broken", self.broken, "the connection ended without a reply"),
            ("late", self.late, "no reply in time"),
            ("too many", self.too_many, "429: too many for this workspace"),
            ("refused", self.refused, "another 4xx"),
            ("failed", self.failed, "5xx"),
            ("strange", self.strange, "a reply that is none of this API"),
        ] {
            if count > 0 {
                writeln!(f, "  {name:<12}{count:>10}   {means}")?;
            }
        }
        Ok(())
    }
}
