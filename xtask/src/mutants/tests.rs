//! The engine on a toy crate, and the rules about lists of mutants.

use std::time::Duration;

use super::*;

const MANIFEST: &str = "\
[package]
name = \"toy\"
version = \"0.1.0\"
edition = \"2024\"

[workspace]
";

const SOURCE: &str = "\
//! A toy.
pub fn fits(used: u64, limit: u64) -> bool {
    used <= limit
}
pub fn count(to: u64) -> u64 {
    let mut n = 0;
    while n < to {
        n += 1;
    }
    n
}
#[cfg(test)]
mod tests {
    #[test]
    fn equality_fits() {
        assert!(super::fits(3, 3));
    }
    #[test]
    fn counting_ends() {
        assert_eq!(super::count(3), 3);
    }
}
";

const MUTANTS: &str = "\
mutant: equality_denies
file: src/lib.rs
caught by: --lib equality
- used <= limit
+ used < limit

mutant: above_the_limit_fits
file: src/lib.rs
caught by: --lib equality
- used <= limit
+ used <= limit + 1

mutant: never_ends
file: src/lib.rs
caught by: --lib counting
- n += 1;
+ n += 0;

mutant: does_not_compile
file: src/lib.rs
caught by: --lib counting
- used <= limit
+ used <= limits
";

/// A fresh toy crate inside the build directory; cargo has a lock for each such directory.
fn toy(name: &str, source: &str) -> Repo {
    let base = Repo::find().unwrap().target.join("mutants-toy").join(name);
    let repo = Repo { root: base.join("source"), target: base.join("target") };
    tree::write(&repo.root.join("Cargo.toml"), MANIFEST.as_bytes()).unwrap();
    tree::write(&repo.root.join("src/lib.rs"), source.as_bytes()).unwrap();
    repo
}

#[test]
fn each_toy_mutant_gets_its_verdict() {
    let mutants = format::parse(MUTANTS).unwrap();
    let mut hunt = Hunt::new(toy("verdicts", SOURCE));
    hunt.limit_min = Duration::from_secs(2);
    let mut said = Vec::new();
    let verdicts = hunt.run(&mutants, |line| said.push(line.to_owned())).unwrap();
    let by = |text: &str| Verdict::Caught { by: text.to_owned() };
    assert_eq!(verdicts[0], by("tests::equality_fits"));
    assert_eq!(verdicts[1], Verdict::Survived);
    assert_eq!(verdicts[2], by("time-out after 2 s"));
    assert!(matches!(&verdicts[3], Verdict::Broken(why) if why.contains("limits")));
    assert!(
        said[2].starts_with("caught  equality_denies  by tests::equality_fits [--lib equality]")
    );
    assert!(said[3].starts_with("SURVIVED above_the_limit_fits"));
    let (summary, clean) = summarise(&mutants, &verdicts);
    assert!(summary.ends_with("4 mutants: 2 caught, 0 expected survivors, 2 wrong\n"), "{summary}");
    assert!(!clean);
}

#[test]
fn a_test_that_fails_without_a_mistake_stops_the_hunt() {
    let repo = toy("baseline", &SOURCE.replace("fits(3, 3)", "fits(4, 3)"));
    let error = Hunt::new(repo).run(&format::parse(MUTANTS).unwrap(), |_| {}).unwrap_err();
    assert!(error.to_string().contains("fails without any mistake"), "{error}");
}

#[test]
fn a_trial_that_runs_no_test_stops_the_hunt() {
    let mutants = format::parse(&MUTANTS.replace("--lib equality", "--lib nothing")).unwrap();
    let error = Hunt::new(toy("empty", SOURCE)).run(&mutants, |_| {}).unwrap_err();
    assert!(error.to_string().contains("runs no test"), "{error}");
}

#[test]
fn an_expected_survivor_is_not_wrong() {
    let marked = "caught by: --lib\nexpected survivor: nobody looks\n";
    let text = format!("mutant: quiet\nfile: src/lib.rs\n{marked}- a\n+ b\n");
    let mutants = format::parse(&text).unwrap();
    let (summary, clean) = summarise(&mutants, &[Verdict::Survived]);
    assert!(clean);
    assert!(summary.contains("quiet survives as expected: nobody looks"));
    let (_, clean) = summarise(&mutants, &[Verdict::Broken("does not build".to_owned())]);
    assert!(!clean);
}

#[test]
fn mutants_that_do_not_apply_are_found() {
    let good = "mutant: a\nfile: src/lib.rs\ncaught by: --lib\n- used <= limit\n+ true\n";
    let check = |list: &str| {
        that_do_not_apply(&Tree::of(&[("mutants/toy.txt", list), ("src/lib.rs", SOURCE)])).len()
    };
    assert_eq!(check(good), 0);
    assert_eq!(check(&good.replace("used <= limit", "used == limit")), 1);
    assert_eq!(check(&good.replace("lib.rs", "gone.rs")), 1);
    assert_eq!(check(&good.replace("mutant: a", "mutation: a")), 1);
    assert_eq!(check(&format!("{good}\n{good}")), 1);
}
