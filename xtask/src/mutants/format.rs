//! The form of a mutant: a few headers, then the lines to find and the lines to put in their place.
//!
//! ```text
//! mutant: equality_denies
//! file: crates/limiter/src/window.rs
//! caught by: --lib window::equality
//! - used <= limit
//! + used < limit
//! ```
//!
//! A blank line ends a mutant; `#` begins a comment between mutants. The text of the `- ` lines (a
//! part of a line, or several whole lines) must occur exactly once in the file; without a `+ ` line
//! it is removed. `caught by` is one of `--lib`, `--test NAME`, `loom` and `shuttle`, then filters
//! for the names of the tests. `expected survivor: reason` marks a mistake that no test can see.

use super::trial::Trial;

/// A deliberate mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    /// Its name: one word.
    pub(super) name: String,
    /// The file to change.
    pub(super) file: String,
    /// The text to find, exactly once.
    find: String,
    /// The text to put in its place.
    replace: String,
    /// The tests that must notice.
    pub(super) trial: Trial,
    /// Why it is expected to survive, if it is.
    pub(super) survives: Option<String>,
    /// The index of its first line in the list.
    pub(super) line: usize,
}

impl Mutant {
    /// The text of the file with the mistake in it.
    ///
    /// # Errors
    /// When the place is not there, or there is more than one.
    pub(super) fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.find).count() {
            1 => Ok(text.replacen(&self.find, &self.replace, 1)),
            count => Err(format!("the text to find occurs {count} times in {}", self.file)),
        }
    }
}

/// Reads a list of mutants; an error names its line, counted from 1.
pub(super) fn parse(text: &str) -> Result<Vec<Mutant>, (usize, String)> {
    let mut mutants = Vec::new();
    let mut draft = Draft::default();
    for (index, line) in text.lines().enumerate() {
        let number = index.saturating_add(1);
        let line = line.trim_end();
        if line.is_empty() {
            mutants.extend(draft.finish()?);
            draft = Draft::default();
        } else if !(draft.is_empty() && line.starts_with('#')) {
            if draft.is_empty() {
                draft.line = number;
            }
            draft.read(line).map_err(|why| (number, why))?;
        }
    }
    mutants.extend(draft.finish()?);
    Ok(mutants)
}

/// A mutant whose lines are being read.
#[derive(Default)]
struct Draft {
    line: usize,
    name: Option<String>,
    file: Option<String>,
    trial: Option<Trial>,
    survives: Option<String>,
    find: Vec<String>,
    replace: Vec<String>,
}

impl Draft {
    /// Whether no line has been read.
    fn is_empty(&self) -> bool {
        self.line == 0
    }

    /// Takes one line.
    fn read(&mut self, line: &str) -> Result<(), String> {
        if let Some(old) = side(line, '-') {
            self.find.push(old.to_owned());
            return Ok(());
        }
        if let Some(new) = side(line, '+') {
            self.replace.push(new.to_owned());
            return Ok(());
        }
        let (key, value) = line.split_once(':').ok_or("neither a header nor `- ` nor `+ `")?;
        let value = value.trim().to_owned();
        let full = match key {
            "mutant" => self.name.replace(value).is_some(),
            "file" => self.file.replace(value).is_some(),
            "caught by" => self.trial.replace(Trial::parse(&value)?).is_some(),
            "expected survivor" => self.survives.replace(value).is_some(),
            _ => return Err(format!("no header `{key}`")),
        };
        if full { Err(format!("a second `{key}`; a blank line ends a mutant")) } else { Ok(()) }
    }

    /// The mutant, once its last line has been read; `None` between two of them.
    fn finish(self) -> Result<Option<Mutant>, (usize, String)> {
        if self.is_empty() {
            return Ok(None);
        }
        let line = self.line;
        let need = |what: &str| (line, format!("the mutant has no `{what}`"));
        let name = self.name.ok_or_else(|| need("mutant:"))?;
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err((line, "the name is one word".to_owned()));
        }
        let file = self.file.ok_or_else(|| need("file:"))?;
        let trial = self.trial.ok_or_else(|| need("caught by:"))?;
        let (find, replace) = (self.find.join("\n"), self.replace.join("\n"));
        if find.is_empty() {
            return Err(need("- "));
        }
        if find == replace {
            return Err((line, "the mutant changes nothing".to_owned()));
        }
        let survives = self.survives;
        if survives.as_ref().is_some_and(String::is_empty) {
            return Err((line, "an expected survivor needs its reason".to_owned()));
        }
        let line = line.saturating_sub(1);
        Ok(Some(Mutant { name, file, find, replace, trial, survives, line }))
    }
}

/// The text after `- ` or `+ `; the sign alone stands for an empty line.
fn side(line: &str, sign: char) -> Option<&str> {
    let rest = line.strip_prefix(sign)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(' ') }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "\
# Mistakes in comparisons.

mutant: equality_denies
file: src/lib.rs
caught by: --lib window::
- used <= limit
+ used < limit

# A mistake in what is left out.
mutant: forgets
file: src/lib.rs
caught by: loom
expected survivor: nothing reads it
-     self.mark();
-
";

    #[test]
    fn mutants_are_read() {
        let mutants = parse(TWO).unwrap();
        let names: Vec<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
        assert_eq!(names, ["equality_denies", "forgets"]);
        assert_eq!(mutants[0].find, "used <= limit");
        assert_eq!(mutants[1].find, "    self.mark();\n");
        assert_eq!(mutants[1].survives.as_deref(), Some("nothing reads it"));
    }

    #[test]
    fn a_mutant_applies_exactly_once_or_not_at_all() {
        let mutant = &parse(TWO).unwrap()[0];
        assert_eq!(mutant.apply("a(used <= limit)").unwrap(), "a(used < limit)");
        assert!(mutant.apply("").is_err());
        assert!(mutant.apply("used <= limit; used <= limit").is_err());
    }

    #[test]
    fn what_is_missing_or_wrong_is_told_with_its_line() {
        let headers = "mutant: a\nfile: b\ncaught by: loom\n";
        for (text, line) in [
            ("mutant: a\nfile: b\n- x\n+ y\n".to_owned(), 1),
            (headers.to_owned(), 1),
            (format!("{headers}- x\n+ x\n"), 1),
            (format!("{headers}expected survivor:\n- x\n"), 1),
            (format!("\n{headers}mutant: c\n"), 5),
            (format!("{headers}colour: red\n"), 4),
            (format!("{headers}words\n"), 4),
            ("mutant: a b\nfile: b\ncaught by: loom\n- x\n".to_owned(), 1),
            ("mutant: a\ncaught by: luck\n".to_owned(), 2),
        ] {
            assert_eq!(parse(&text).unwrap_err().0, line, "{text}");
        }
    }
}
