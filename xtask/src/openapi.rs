//! `cargo xtask openapi`: writes the OpenAPI document that is committed.

use std::fs;

use crate::child;
use crate::failure::{Context, Failure, Result};
use crate::repo::Repo;

/// Where it stands.
const DOCUMENT: &str = "docs/openapi.json";

/// Asks the server's own tables, and writes what they say. A test of the server fails when the two
/// differ.
pub(crate) fn command(repo: &Repo, args: &[String]) -> Result<()> {
    if let Some(unknown) = args.first() {
        return Err(Failure::usage(format!("`openapi` takes no argument `{unknown}`")));
    }
    let mut command = repo.cargo();
    // Without the features: the tables need neither a network nor a database.
    command.args(["run", "--quiet", "-p", "tidegate-server", "--no-default-features"]);
    command.args(["--example", "openapi"]);
    let text = child::output(command)?;
    // Both streams arrive here; a warning of the compiler is not a document.
    if !text.starts_with('{') {
        return Err(Failure::check(format!("this is no document:\n{text}")));
    }
    fs::write(repo.root.join(DOCUMENT), text).context(DOCUMENT)?;
    println!("wrote {DOCUMENT}");
    Ok(())
}
