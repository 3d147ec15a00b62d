//! What was measured: a table for people, an object for programs.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::histogram::Histogram;
use super::line::ErrorKind;
use super::tally::{Tally, get};
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
    /// How many are not in the latency, because there was no time to measure.
    untimed: u64,
    /// Verdicts within `--fail-above`, if that was said.
    #[serde(skip)]
    in_time: Option<u64>,
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
        let all = due.unwrap_or(sent).max(sent);
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
            unsent: all.saturating_sub(sent),
            queued: get(&tally.queued),
            fell_behind: get(&tally.fell_behind),
            schedule_p99_ms: ms(tally.lateness.percentile(P99)),
            latency_ms: Latency::of(&tally.latency),
            untimed: all.saturating_sub(tally.latency.count()),
            in_time: args.fail_above.map(|_| get(&tally.in_time)),
        }
    }

    /// Whether more than one in a hundred of all that were due had no verdict within
    /// `--fail-above`. What got none took for ever, and so did what was never sent: p99 of those
    /// that were answered would hide them.
    pub(super) fn is_above(&self) -> bool {
        let all = self.sent.saturating_add(self.unsent);
        let above = |in_time| all.saturating_sub(in_time).saturating_mul(100) > all;
        self.in_time.is_some_and(above)
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
        write!(f, "\nlatency, from when it was {from}")?;
        if self.untimed > 0 {
            write!(f, "; of those that were answered: {} were not", self.untimed)?;
        }
        writeln!(f)?;
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

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tokio::time::{Instant, advance};

    use super::super::line::Outcome;
    use super::super::schedule::Ticket;
    use super::*;
    use crate::cli::{Cli, ClientCommand, Command};

    const FAST: Duration = Duration::from_millis(1);
    const SLOW: Duration = Duration::from_millis(6);
    const VERDICT: Outcome = Outcome::Verdict { admitted: true, degraded: false };

    /// Of 1,000 that are due, some become what is said, `unsent` are never sent, and the rest is
    /// answered in time.
    async fn of_1000(others: &[(u64, Duration, Outcome)], unsent: u64) -> Report {
        let line = ["tidegate", "bench", "--fail-above", "5ms"];
        let Command::Client(ClientCommand::Bench(args)) = Cli::parse_from(line).command else {
            panic!("no load");
        };
        let tally = Tally::new(args.fail_above);
        let fast = 1_000 - unsent - others.iter().map(|(count, ..)| count).sum::<u64>();
        for (count, took, outcome) in others.iter().chain(&[(fast, FAST, VERDICT)]) {
            for number in 0..*count {
                let due = Instant::now();
                let ticket = Ticket { number, due, counts: true, awaited: true };
                tally.begin(&ticket);
                advance(*took).await;
                tally.end(&ticket, *outcome);
            }
        }
        Report::new(&args, &tally, Duration::from_secs(1), Some(1_000))
    }

    const fn lost(count: u64) -> (u64, Duration, Outcome) {
        (count, FAST, Outcome::Error(ErrorKind::Unreachable))
    }

    const fn slow(count: u64) -> (u64, Duration, Outcome) {
        (count, SLOW, VERDICT)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_slow_and_what_is_lost_count_together() {
        let report = of_1000(&[lost(9), slow(9)], 0).await;
        assert!(report.latency_ms.p99 < 5.0, "of those that were answered");
        assert!(report.is_above(), "18 of 1,000 had no answer within 5 ms");
        for (others, unsent, above) in [
            (&[][..], 0, false),
            (&[lost(5), slow(5)], 0, false),
            (&[lost(5), slow(6)], 0, true),
            (&[lost(4), slow(4)], 2, false),
            (&[lost(4), slow(4)], 3, true),
            (&[], 11, true),
            (&[(11, FAST, Outcome::Error(ErrorKind::Failed))], 0, true),
            (&[(10, SLOW, Outcome::Error(ErrorKind::Failed))], 0, false),
        ] {
            let report = of_1000(others, unsent).await;
            assert_eq!(report.is_above(), above, "{others:?}, {unsent} never sent");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn percentiles_say_who_is_not_in_them() {
        let head = "latency, from when it was due";
        let report = of_1000(&[lost(9), slow(9)], 2).await;
        let said = report.to_string();
        let whole = format!("{head}; of those that were answered: 11 were not\n");
        assert!(said.contains(&whole) && report.untimed == 11, "{said}");
        let said = of_1000(&[slow(9)], 0).await.to_string();
        assert!(said.contains(&format!("{head}\n")), "{said}");
    }
}
