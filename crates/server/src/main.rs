//! The binary `tidegate`.

use std::process::ExitCode;

use clap::Parser;
use tidegate_server::cli::{Cli, Command};
use tidegate_server::serve::serve;

fn main() -> ExitCode {
    let Command::Serve(args) = Cli::parse().command;
    match serve(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            error.exit_code()
        }
    }
}
