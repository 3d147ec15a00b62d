//! The page of the worked example, as the guide makes it.

use std::process::Command;

use crate::support::{Home, Page, holds};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/simulate");

/// Tries both policies on the log of the example.
fn example() -> Page {
    let page = Page { home: Home::new(), name: "example" };
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.current_dir(EXAMPLE).args(["simulate", "access.log.gz", "--policy", "current.toml"]);
    command.args(["--against", "candidate.toml", "--suggest", "--max-affected", "1%", "--report"]);
    let out = command.arg(page.file()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    page
}

#[test]
fn the_page_of_the_example_works() {
    let page = example();
    for check in ["draws", "fits", "schemes", "contrast", "sorts", "filters", "keys", "bare"] {
        holds(check, &page);
    }
}
