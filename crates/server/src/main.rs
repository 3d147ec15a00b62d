//! The binary `tidegate`.

use std::process::ExitCode;

use clap::Parser;
use tidegate_server::cli::{Cli, Command, GlobeCommand};
use tidegate_server::control_tools::{self, ControlToolError};
use tidegate_server::serve::serve;
use tidegate_server::{client, globe};

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(args) => {
            return match serve(&args) {
                // It is in the log, as the rest.
                Err(why) if args.log.is_json() => why.exit_code(),
                served => ended(served.map_err(|why| (why.to_string(), why.exit_code()))),
            };
        }
        Command::Key(command) => return told(control_tools::key(&command)),
        Command::Namespace(command) => return told(control_tools::namespace(&command)),
        Command::Workspace(command) => return told(control_tools::workspace(&command)),
        Command::Audit(args) => return told(control_tools::audit(&args)),
        Command::Migrate(args) => globe::migrate(&args),
        Command::Gc(args) => globe::gc(&args),
        Command::Globe(GlobeCommand::Show(args)) => globe::show(&args),
        Command::Globe(GlobeCommand::Regions(args)) => globe::regions(&args),
        Command::Client(command) => return client::run(&command),
    };
    match done {
        Ok(code) => code,
        Err(why) => ended(Err((why.to_string(), why.exit_code()))),
    }
}

fn told(done: Result<(), ControlToolError>) -> ExitCode {
    ended(done.map_err(|why| (why.to_string(), why.exit_code())))
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
