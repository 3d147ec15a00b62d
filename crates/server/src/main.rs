//! The binary `tidegate`.

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use tidegate_server::cli::{Cli, Command, GlobeCommand};
use tidegate_server::config::{self, Source};
use tidegate_server::control_tools::{self, ControlToolError};
use tidegate_server::serve::{ServeError, serve_from};
use tidegate_server::{client, globe, simulate};

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|why| why.exit());
    let done = match cli.command {
        Command::Serve(args) => {
            let said = matches.subcommand_matches("serve").unwrap_or(&matches);
            let source = Source::new(said, std::env::vars_os());
            return match serve_from(&source, args.log) {
                // It is in the log, as the rest.
                Err(ServeError::Logged(why)) => why.exit_code(),
                served => ended(served.map_err(|why| (why.to_string(), why.exit_code()))),
            };
        }
        Command::CheckConfig(args) => return config::check(&args),
        Command::Key(command) => return told(control_tools::key(&command)),
        Command::Namespace(command) => return told(control_tools::namespace(&command)),
        Command::Workspace(command) => return told(control_tools::workspace(&command)),
        Command::Audit(args) => return told(control_tools::audit(&args)),
        Command::Migrate(args) => globe::migrate(&args),
        Command::Gc(args) => globe::gc(&args),
        Command::Globe(GlobeCommand::Show(args)) => globe::show(&args),
        Command::Globe(GlobeCommand::Regions(args)) => globe::regions(&args),
        Command::Simulate(args) => return simulate::simulate(&args),
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
