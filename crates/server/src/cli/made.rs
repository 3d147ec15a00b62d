//! What can be said to `simulate` of traffic that is made up.

use std::path::PathBuf;

use clap::Args;
use tidegate_trial::{GenerateOptions, Traffic};

use super::globe::duration_ms;

/// Traffic that is made up. The [module](crate::cli) has an example.
///
/// All of it contradicts files: that it needs `--generate` is not asked where that does.
#[derive(Args, Clone, Debug)]
pub struct GenerateArgs {
    /// Instead of a log, make traffic up: steady, diurnal, burst, boundary-hugging,
    /// region-hopping or credential-stuffing.
    #[arg(long, value_name = "KIND", value_parser = traffic, conflicts_with = "files")]
    pub generate: Option<Traffic>,
    /// How many requests. Two of this, --rate and --duration make the third.
    #[arg(long, value_name = "N", requires = "generate", conflicts_with = "files")]
    pub requests: Option<u64>,
    /// How many callers there are.
    #[arg(
        long,
        value_name = "N",
        requires = "generate",
        conflicts_with = "files",
        default_value_t = 1_000
    )]
    pub identifiers: u64,
    /// How many requests a second.
    #[arg(long, value_name = "N", requires = "generate", conflicts_with = "files")]
    pub rate: Option<u64>,
    /// How long it lasts: an hour, if nothing else says so.
    #[arg(long, value_name = "DURATION", requires = "generate", conflicts_with = "files",
        value_parser = duration_ms)]
    pub duration: Option<u64>,
    /// The same number makes the same traffic.
    #[arg(
        long,
        value_name = "N",
        requires = "generate",
        conflicts_with = "files",
        default_value_t = 1
    )]
    pub seed: u64,
    /// Try nothing: write the traffic as a log, in the combined format, or as JSON lines if the
    /// name ends in .json or .jsonl; `-` is standard output.
    #[arg(long, value_name = "PATH", requires = "generate")]
    #[arg(conflicts_with_all = ["files", "suggest"])]
    pub write_log: Option<PathBuf>,
}

impl GenerateArgs {
    /// What is to be made up, if anything. The [module](crate::cli) has an example.
    ///
    /// # Errors
    /// When what was said contradicts itself.
    pub fn options(&self) -> Result<Option<GenerateOptions>, String> {
        let Some(traffic) = self.generate else { return Ok(None) };
        let (identifiers, seed) = (self.identifiers, self.seed);
        let usual = GenerateOptions { traffic, identifiers, seed, ..GenerateOptions::default() };
        usual.sized(self.requests, self.rate, self.duration).map(Some)
    }
}

fn traffic(name: &str) -> Result<Traffic, String> {
    Traffic::of_name(name).ok_or_else(|| {
        let known: Vec<&str> = Traffic::ALL.into_iter().map(Traffic::name).collect();
        format!("there are {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::error::ErrorKind;

    use super::super::{Cli, Command};
    use super::*;

    fn parse(more: &[&str]) -> Result<GenerateArgs, ErrorKind> {
        let all = ["tidegate", "simulate"].iter().chain(more);
        match Cli::try_parse_from(all).map_err(|error| error.kind())?.command {
            Command::Simulate(args) => Ok(args.generate),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn traffic_is_made_up_in_words() {
        let said = ["--generate", "burst", "--rate", "10", "--duration", "1m", "--seed", "7"];
        let options = parse(&said).unwrap().options().unwrap().unwrap();
        assert_eq!((options.traffic, options.requests), (Traffic::Burst, 600));
        assert_eq!((options.duration_ms, options.seed), (60_000, 7));
        assert_eq!(parse(&["a.log"]).unwrap().options(), Ok(None));
        let all = ["--generate", "steady", "--rate", "1", "--duration", "1m", "--requests", "9"];
        assert!(parse(&all).unwrap().options().is_err_and(|why| why.contains("the third")));
    }

    #[test]
    fn what_is_not_made_up_is_refused() {
        use ErrorKind::{ArgumentConflict, MissingRequiredArgument, ValueValidation};
        for (args, kind) in [
            (&["--generate", "brust"][..], ValueValidation),
            (&["a.log", "--generate", "burst"], ArgumentConflict),
            (&["a.log", "--rate", "5"], ArgumentConflict),
            (&["a.log", "--write-log", "b.log"], ArgumentConflict),
            (&["--rate", "5"], MissingRequiredArgument),
        ] {
            assert_eq!(parse(args).unwrap_err(), kind, "{args:?}");
        }
    }
}
