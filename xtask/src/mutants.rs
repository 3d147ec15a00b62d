//! `cargo xtask mutants`: deliberate mistakes, each of which a named test must catch.
//!
//! Promises: the working tree is never touched, a mistake that does not compile is an error and
//! not a catch, and a test that fails without any mistake is told first.
//! The mistakes live in `mutants/*.txt`; [`mod@format`] has their form.

mod format;
mod hunt;
mod tree;
mod trial;

use std::fs;

use crate::failure::{Context, Failure, Result};
use crate::repo::Repo;
use crate::tidy::{Finding, Tree};
use format::Mutant;
use hunt::{Hunt, Verdict};

/// Where the mistakes are kept.
const DIRECTORY: &str = "mutants";

/// `cargo xtask mutants`.
pub(crate) fn command(repo: &Repo, args: &[String]) -> Result<()> {
    let (list, only) = parse_args(args)?;
    let mutants = choose(read(repo)?, &only)?;
    if list {
        for mutant in &mutants {
            println!("{}  {}  caught by {}", mutant.name, mutant.file, mutant.trial);
        }
        return Ok(());
    }
    if mutants.is_empty() {
        return Err(Failure::check("there are no mutants in mutants/*.txt"));
    }
    let hunt = Hunt::new(repo.clone());
    let verdicts = hunt.run(&mutants, |line| println!("{line}"))?;
    let (summary, clean) = summarise(&mutants, &verdicts);
    print!("\n{summary}");
    if clean { Ok(()) } else { Err(Failure::check("not every mutant was caught")) }
}

/// The flags of the command line: whether to list, and the names asked for.
fn parse_args(args: &[String]) -> Result<(bool, Vec<String>)> {
    let (mut list, mut only) = (false, Vec::new());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--list" => list = true,
            "--only" => {
                let name = rest.next().ok_or_else(|| Failure::usage("`--only` needs a name"))?;
                only.push(name.clone());
            }
            other => return Err(Failure::usage(format!("`mutants` takes no argument `{other}`"))),
        }
    }
    Ok((list, only))
}

/// The wanted mutants.
fn choose(mut all: Vec<Mutant>, only: &[String]) -> Result<Vec<Mutant>> {
    if let Some(unknown) = only.iter().find(|name| !all.iter().any(|it| &it.name == *name)) {
        return Err(Failure::usage(format!("no mutant `{unknown}`; `--list` shows them")));
    }
    all.retain(|mutant| only.is_empty() || only.contains(&mutant.name));
    Ok(all)
}

/// Reads every mutant of the repository.
fn read(repo: &Repo) -> Result<Vec<Mutant>> {
    let mut all: Vec<Mutant> = Vec::new();
    for path in repo.files()?.iter().filter(|path| holds_mutants(path)) {
        let text = fs::read_to_string(repo.root.join(path)).context(path)?;
        let parsed = format::parse(&text);
        all.extend(parsed.map_err(|(line, why)| Failure::check(format!("{path}:{line}: {why}")))?);
    }
    Ok(all)
}

/// Whether a file is a list of mutants.
fn holds_mutants(path: &str) -> bool {
    let name = path.strip_prefix(DIRECTORY).and_then(|rest| rest.strip_prefix('/'));
    name.is_some_and(|name| name.ends_with(".txt"))
}

/// A rule of `tidy`: every mutant can be planted in today's code, and no two share a name.
pub(crate) fn that_do_not_apply(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| holds_mutants(path)) {
        let mutants = match format::parse(text) {
            Ok(mutants) => mutants,
            Err((line, why)) => {
                found.push(Finding::at(path, line.saturating_sub(1), why));
                continue;
            }
        };
        for mutant in mutants {
            let applied = tree
                .text(&mutant.file)
                .ok_or_else(|| format!("there is no file `{}`", mutant.file))
                .and_then(|source| mutant.apply(source));
            if let Err(why) = applied {
                found.push(Finding::at(path, mutant.line, format!("{}: {why}", mutant.name)));
            }
            if names.contains(&mutant.name) {
                let message = format!("a second mutant named `{}`", mutant.name);
                found.push(Finding::at(path, mutant.line, message));
            }
            names.push(mutant.name);
        }
    }
    found
}

/// The last lines, and whether nothing is wrong.
fn summarise(mutants: &[Mutant], verdicts: &[Verdict]) -> (String, bool) {
    let (mut caught, mut expected, mut bad) = (0_u32, 0_u32, 0_u32);
    let mut text = String::new();
    for (mutant, verdict) in mutants.iter().zip(verdicts) {
        match (verdict, &mutant.survives) {
            (Verdict::Caught { .. }, None) => caught = caught.saturating_add(1),
            (Verdict::Caught { .. }, Some(_)) => {
                caught = caught.saturating_add(1);
                let name = &mutant.name;
                text.push_str(&format!("{name} was caught: it is no longer a survivor\n"));
            }
            (Verdict::Survived, Some(reason)) => {
                expected = expected.saturating_add(1);
                text.push_str(&format!("{} survives as expected: {reason}\n", mutant.name));
            }
            (Verdict::Survived, None) => {
                bad = bad.saturating_add(1);
                text.push_str(&format!("{} SURVIVED {}\n", mutant.name, mutant.trial));
            }
            (Verdict::Broken(why), _) => {
                bad = bad.saturating_add(1);
                text.push_str(&format!("{}: {why}\n", mutant.name));
            }
        }
    }
    text.push_str(&format!(
        "{} mutants: {caught} caught, {expected} expected survivors, {bad} wrong\n",
        mutants.len()
    ));
    (text, bad == 0)
}

#[cfg(test)]
mod tests;
