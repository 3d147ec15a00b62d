//! The binary `tidegate`.

use std::process::ExitCode;

use clap::Parser;
use tidegate_server::cli::{Cli, Command, GlobeCommand};
use tidegate_server::globe;
use tidegate_server::serve::serve;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(args) => {
            return ended(serve(&args).map_err(|why| (why.to_string(), why.exit_code())));
        }
        Command::Migrate(url) => globe::migrate(&url),
        Command::Gc(args) => globe::gc(&args),
        Command::Globe(GlobeCommand::Show(args)) => globe::show(&args),
        Command::Globe(GlobeCommand::Regions(url)) => globe::regions(&url),
    };
    match done {
        Ok(code) => code,
        Err(why) => ended(Err((why.to_string(), why.exit_code()))),
    }
}

fn ended(how: Result<(), (String, ExitCode)>) -> ExitCode {
    match how {
        Ok(()) => ExitCode::SUCCESS,
        Err((why, code)) => {
            eprintln!("error: {why}");
            code
        }
    }
}
