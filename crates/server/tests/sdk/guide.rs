//! The guide's snippets, as they stand there.

use crate::program::{Home, node, python_at};
use crate::support::Server;

const GUIDE: &str = include_str!("../../../../docs/guide/moving-from-unkey.md");

/// What stands in the guide between fences of one language, in order.
fn fenced(language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    let rest = GUIDE.split(&opening).skip(1);
    rest.map(|text| text.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_snippets_of_the_guide_do_what_the_guide_says() {
    let (server, home) = (Server::start(), Home::new());
    let (scripts, snakes, outputs) = (fenced("js"), fenced("python"), fenced("text"));
    assert_eq!((scripts.len(), snakes.len(), outputs.len()), (2, 1, 3));
    let mut said = Vec::new();
    for (turn, script) in scripts.iter().enumerate() {
        let name = format!("snippet-{turn}.mjs");
        home.write(&name, script);
        said.push(node(&home, &name).against(&server).succeeds());
    }
    let snake = home.write("snippet.py", &snakes[0]);
    said.push(python_at(&snake).against(&server).succeeds());
    assert_eq!(said, outputs);
}
