//! What the command line takes, and what it refuses.

use super::{Command, Plan};

fn parse(line: &str) -> Result<Plan, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Plan::parse(&words)
}

#[test]
fn a_line_says_what_to_do() {
    for (line, command) in [
        ("", Command::Seeds),
        ("--seeds 3 --from 0 --jobs 2 --doublecheck --coverage --faults none", Command::Seeds),
        ("--minutes 480 --from 9 --nodes 2", Command::Minutes(480)),
        ("--seed 0 --trace --requests 5 --no-aims --outside", Command::Seed(0)),
        ("--corpus --jobs 1", Command::Corpus),
        ("--canaries --within 9 --outside --jobs 3", Command::Canaries),
        ("--overshoot --seeds 9", Command::Overshoot),
        ("--grid 1", Command::Grid(1)),
        ("--promises 200", Command::Promises(200)),
        ("-h", Command::Help),
        ("--seed 5 --help", Command::Help),
    ] {
        assert_eq!(parse(line).map(|plan| plan.command), Ok(command), "{line}");
    }
}

#[test]
fn what_would_have_no_effect_is_refused() {
    for line in [
        "--seed 5 --minutes 1",
        "--corpus --canaries",
        "--seed 5 --seed 6",
        "--seeds 5 --seeds 6",
        "--seed 5 --seeds 6",
        "--seed 5 --doublecheck",
        "--seed 5 --coverage",
        "--seed 5 --jobs 2",
        "--corpus --doublecheck",
        "--corpus --coverage",
        "--corpus --nodes 2",
        "--canaries --nodes 2",
        "--trace",
        "--within 5",
        "--promises 5 --jobs 2",
        "--grid 5 --seeds 6",
        "--seed 5 --shape 2,1 --nodes 2",
        "--seed 5 --regions 2 --shape 2,1",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn a_value_that_there_is_not_is_refused() {
    for word in ["minutes", "seeds", "jobs", "grid", "promises", "within"] {
        for value in ["0", "x", "-1", ""] {
            assert!(parse(&format!("--{word} {value}")).is_err(), "--{word} {value}");
        }
    }
    for words in [
        "nodes 0",
        "nodes 61",
        "subjects 0",
        "subjects 9",
        "regions 0",
        "regions 99",
        "regions-max 0",
        "regions-max 65536",
        "requests 0",
        "ms 0",
        "batches 101",
        "bounded 101",
        "deny 101",
        "faults nothing",
        "shape 0",
        "nought 1",
    ] {
        assert!(parse(&format!("--seed 1 --{words}")).is_err(), "{words}");
    }
    assert!(parse("seed 1").is_err(), "no dashes");
}
