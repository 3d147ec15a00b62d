//! Chaos on real processes: what users of a fleet would see while everything fails.
//!
//! Promises: the servers are those that users run, on a real Redis for each region and a real
//! MariaDB; what is judged is what callers were told. Everything ends with this process, Ctrl-C
//! included.
//! Refuses: to depend on anything of ours but the lab, so that it judges from outside only.
//! Fails: exit code 1 when a promise was broken, 2 when the command line or the machine is wrong.

mod batch;
mod chance;
mod clock;
mod fault;
mod history;
mod http;
mod judge;
mod load;
mod node;
mod options;
mod probe;
mod report;
mod run;
mod shape;
mod strike;
mod world;

use std::process::ExitCode;

use options::{HELP, Options};

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}\nFaults:\n");
            for (kind, word, ..) in fault::Kind::ALL {
                println!("  {word:<18}{}", kind.about());
            }
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("chaos: {why}");
            return ExitCode::from(2);
        }
    };
    match run::run(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("chaos: {why}");
            ExitCode::from(2)
        }
    }
}
