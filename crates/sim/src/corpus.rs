//! Seeds that once failed. They must not fail again, whatever the next thousand seeds are.

use crate::cut::Cut;
use crate::options::Options;

/// A seed that once failed.
#[derive(Clone, Debug)]
pub struct Past {
    /// The words that repeat it.
    pub line: &'static str,
    /// What they mean.
    pub options: Options,
    /// What it found.
    pub found: &'static str,
}

/// All of them, in the order of the file.
///
/// # Errors
///
/// If a line cannot be read, says nothing of what it found, or repeats another.
pub fn corpus() -> Result<Vec<Past>, String> {
    read(include_str!("../corpus.txt"))
}

fn read(text: &'static str) -> Result<Vec<Past>, String> {
    let mut all: Vec<Past> = Vec::new();
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let about = line.split_once('#').map(|(words, found)| (words.trim(), found.trim()));
        let (words, found) = about
            .filter(|(_, found)| !found.is_empty())
            .ok_or_else(|| format!("`{line}` does not say what it found"))?;
        let options = Cut::line(words)?;
        if all.iter().any(|past| past.options == options) {
            return Err(format!("`{words}` is there twice"));
        }
        all.push(Past { line: words, options, found });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::{corpus, read};

    #[test]
    fn the_corpus_can_be_read_and_repeats_nothing() {
        assert!(corpus().unwrap().len() >= 9);
    }

    #[test]
    fn what_is_not_right_is_refused() {
        for text in [
            "--seed 1",
            "--seed 1 #",
            "--seed x # found",
            "--nodes 1 # found",
            "--seed 1 --no # found",
            "--seed 1 # found\n--seed 1 # again",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read("# a remark\n\n--seed 1 # found\n").unwrap().len(), 1);
    }
}
