//! What can be said to the load generator.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;

use super::ServerArgs;
use super::globe::duration_ms;

/// Most requests a second that can be asked for. One machine does not send more.
const RATE_MAX: u32 = 1_000_000;
/// Most connections: a process may rarely open more files.
const CONNECTIONS_MAX: i64 = 10_000;
/// Most requests at a time on a connection of HTTP/2; servers allow about as many.
const STREAMS_MAX: i64 = 128;
/// Longest run, and longest warm-up. Longer is a slip of the keyboard.
const RUN_MS_MAX: u64 = 86_400_000;
/// Most identifiers. With --zipf, each takes 8 bytes.
const IDENTIFIERS_MAX: i64 = 10_000_000;
/// The steepest law: beyond it the first identifier gets nearly everything.
const ZIPF_MAX: f64 = 10.0;
/// Most limits of one request, as the API has it.
const BATCH_MAX: i64 = 100;

pub(super) const BENCH_EXAMPLES: &str = "\
With --rate N the loop is open: requests are due by the clock, whether the earlier ones were \
answered or not, and the latency of each counts from when it was due. A server that stalls for a \
second delays all that were due in that second, and all of them are in the percentiles. A \
generator that waits for replies before it goes on would have sent, and counted, one.

With --rate max the loop is closed: every connection sends its next request when the last is \
answered. That measures how much a server can do, and hides its stalls.

It spends: use a namespace for it, as the default is. A first request with the cost 0 checks \
address and key.

Exit codes: 0 measured, 1 --fail-above was given and more than one in a hundred of all that were \
due had no answer in that time, 2 said wrongly or refused, 3 the server could not be reached or \
answered nothing. Ctrl-C ends it early, with the report.

Examples:
  tidegate bench --rate 2000 --for 30s
  tidegate bench --rate max --connections 64 --http2
  tidegate bench --rate 500 --identifiers 100000 --zipf 1.0 --batch 5 --output json
  tidegate bench --rate 1000 --fail-above 5ms";

/// How to load a server. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Requests a second, or `max` for as many as are answered.
    #[arg(long, value_name = "N|max", default_value = "1000", value_parser = rate)]
    pub rate: Rate,
    /// How many connections.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 32,
        value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX)
    )]
    pub connections: u32,
    /// For how long to measure.
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = run_time)]
    pub time: Duration,
    /// For how long to send before that; it is not in the report.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = warm_up)]
    pub warm_up: Duration,
    /// Speak HTTP/2 instead of HTTP/1.1.
    #[arg(long)]
    pub http2: bool,
    /// Requests at a time on a connection of HTTP/2.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 8,
        requires = "http2",
        value_parser = clap::value_parser!(u32).range(1..=STREAMS_MAX)
    )]
    pub streams: u32,
    /// End with 1 if p99 is above this; what got no answer, or was never sent, is above it too.
    #[arg(long, value_name = "DURATION", value_parser = run_time)]
    pub fail_above: Option<Duration>,
    /// What every request asks for.
    #[command(flatten)]
    pub asked: AskedArgs,
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What the load asks for. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct AskedArgs {
    /// What is limited.
    #[arg(long, default_value = "bench")]
    pub namespace: String,
    /// How many are limited: `user-0`, `user-1` and so on, drawn at random.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..=IDENTIFIERS_MAX)
    )]
    pub identifiers: u32,
    /// Draw them by Zipf's law with this exponent, instead of all alike.
    #[arg(long, value_name = "EXPONENT", value_parser = zipf)]
    pub zipf: Option<f64>,
    /// How much is admitted in a window.
    #[arg(long, default_value_t = 1_000_000)]
    pub limit: u64,
    /// The length of the window: a number with ms, s, m, h or d.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration_ms)]
    pub window: u64,
    /// How much each spends.
    #[arg(long, default_value_t = 1)]
    pub cost: u64,
    /// Ask for so many limits together, with multiLimit.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=BATCH_MAX))]
    pub batch: Option<u32>,
}

/// How often to send. The [module](crate::cli) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// So many a second, by the clock.
    PerSecond(NonZeroU32),
    /// The next when the last is answered.
    Max,
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    let rate = text.parse().ok().filter(|rate: &NonZeroU32| rate.get() <= RATE_MAX);
    rate.map(Rate::PerSecond).ok_or_else(|| "expected `max`, or a number up to 1000000".to_owned())
}

fn warm_up(text: &str) -> Result<Duration, String> {
    match duration_ms(text)? {
        ms if ms > RUN_MS_MAX => Err("must be at most 1d".to_owned()),
        ms => Ok(Duration::from_millis(ms)),
    }
}

fn run_time(text: &str) -> Result<Duration, String> {
    match warm_up(text)? {
        Duration::ZERO => Err("must be more than nothing".to_owned()),
        time => Ok(time),
    }
}

fn zipf(text: &str) -> Result<f64, String> {
    let exponent = text.parse().ok().filter(|it| (0.0..=ZIPF_MAX).contains(it));
    exponent.ok_or_else(|| "expected a number from 0 to 10, such as 1.0".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::error::ErrorKind;

    use super::super::{Cli, ClientCommand, Command};
    use super::*;

    fn parse(more: &[&str]) -> Result<BenchArgs, ErrorKind> {
        let all = ["tidegate", "bench"].iter().chain(more);
        match Cli::try_parse_from(all).map_err(|error| error.kind())?.command {
            Command::Client(ClientCommand::Bench(args)) => Ok(*args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_load_is_said_in_words() {
        let args = parse(&["--rate", "250", "--for", "3s", "--zipf", "1.1"]).unwrap();
        assert_eq!(args.rate, Rate::PerSecond(NonZeroU32::new(250).unwrap()));
        assert_eq!((args.time, args.asked.zipf), (Duration::from_secs(3), Some(1.1)));
        assert_eq!(parse(&["--rate", "max"]).unwrap().rate, Rate::Max);
        assert_eq!(parse(&["--warm-up", "0s"]).unwrap().warm_up, Duration::ZERO);
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        use ErrorKind::{MissingRequiredArgument, ValueValidation};
        for (args, kind) in [
            (&["--rate", "0"][..], ValueValidation),
            (&["--rate", "1000001"], ValueValidation),
            (&["--rate", "fast"], ValueValidation),
            (&["--for", "0s"], ValueValidation),
            (&["--for", "10"], ValueValidation),
            (&["--for", "2d"], ValueValidation),
            (&["--connections", "0"], ValueValidation),
            (&["--identifiers", "0"], ValueValidation),
            (&["--zipf", "NaN"], ValueValidation),
            (&["--zipf", "11"], ValueValidation),
            (&["--batch", "101"], ValueValidation),
            (&["--streams", "4"], MissingRequiredArgument),
            (&["--fail-above", "0ms"], ValueValidation),
        ] {
            assert_eq!(parse(args).unwrap_err(), kind, "{args:?}");
        }
    }
}
