//! No file knows the machine it was written on.

use super::Finding;

/// Beginnings of paths of one machine, taken apart so that this file does not find itself.
const MACHINE: [&str; 3] = [concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/")];

/// No file names a path of a person's machine.
pub(super) fn machine(path: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for start in MACHINE {
            if begins_path(line, start) {
                let message = format!("`{start}` is a path of one machine");
                found.push(Finding::at(path, index, message));
            }
        }
    }
    found
}

/// Whether `start` begins a path in the line, rather than continuing one.
fn begins_path(line: &str, start: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || "._-*}>)".contains(c);
    line.match_indices(start).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(continues)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found() {
        for start in MACHINE {
            assert_eq!(machine("a.md", &format!("see `{start}x`")).len(), 1, "{start}");
            assert_eq!(machine("a.md", &format!("{start}x")).len(), 1, "{start}");
        }
    }

    #[test]
    fn paths_that_only_contain_such_a_part_are_not() {
        for start in MACHINE {
            assert!(machine("a.md", &format!("https://example.com{start}x")).is_empty());
        }
    }
}
