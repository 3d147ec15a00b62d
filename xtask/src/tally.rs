//! Counting: what `cargo test` printed, as numbers.

use std::time::Duration;

/// What one step, or all of them, proved and did not prove.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Tests, or steps that are one check, that held.
    pub(crate) passed: u64,
    /// Those that did not.
    pub(crate) failed: u64,
    /// Those that could not be run here: they prove nothing, and are said.
    pub(crate) skipped: u64,
    /// How long each test binary ran, in the order of their run.
    pub(crate) binaries: Vec<(String, Duration)>,
    /// The binary that runs now, for the line that ends it.
    running: String,
}

impl Tally {
    /// The tally of a step that is one check.
    pub(crate) fn of_check(held: bool) -> Self {
        Self { passed: u64::from(held), failed: u64::from(!held), ..Self::default() }
    }

    /// Reads one line of the output of `cargo test`.
    pub(crate) fn read(&mut self, line: &str) {
        let trimmed = line.trim_start();
        if let Some(name) = trimmed.strip_prefix("Running ") {
            self.running = binary(name);
        } else if let Some(name) = trimmed.strip_prefix("Doc-tests ") {
            self.running = format!("{name} (doc)");
        } else if let Some(result) = line.strip_prefix("test result: ") {
            self.passed = self.passed.saturating_add(number_before(result, " passed"));
            self.failed = self.failed.saturating_add(number_before(result, " failed"));
            if let Some(took) = finished_in(result) {
                self.binaries.push((self.running.clone(), took));
            }
        }
    }

    /// Closes the tally of a test step. A step that failed without a failed test (it did not build,
    /// or it was killed) counts as one failure, and so does a step that ran no test at all.
    pub(crate) fn close(&mut self, success: bool) {
        let silent = self.failed == 0;
        if silent && (!success || self.passed == 0) {
            self.failed = 1;
        }
    }

    /// Adds the numbers of a step to those of the run.
    pub(crate) fn add(&mut self, step: Self) {
        self.passed = self.passed.saturating_add(step.passed);
        self.failed = self.failed.saturating_add(step.failed);
        self.skipped = self.skipped.saturating_add(step.skipped);
        self.binaries.extend(step.binaries);
    }

    /// The last line of a run, which programs read. What was skipped is named if there is any.
    pub(crate) fn summary(&self) -> String {
        let said = format!("{} passed, {} failed", self.passed, self.failed);
        if self.skipped == 0 { said } else { format!("{said}, {} skipped", self.skipped) }
    }

    /// The test binaries that took longest, longest first.
    pub(crate) fn slowest(&self, count: usize) -> Vec<&(String, Duration)> {
        let mut sorted: Vec<_> = self.binaries.iter().collect();
        sorted.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        sorted.truncate(count);
        sorted
    }
}

/// `unittests src/lib.rs (target/debug/deps/limiter-0a1b)` as `limiter src/lib.rs`.
fn binary(text: &str) -> String {
    let text = text.trim_start_matches("unittests ");
    let (source, path) = text.split_once(" (").unwrap_or((text, ""));
    let file = path.rsplit('/').next().unwrap_or_default();
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    format!("{name} {source}").trim().to_owned()
}

/// The number that stands right before `word`.
pub(crate) fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split(word).next().filter(|before| before.len() < text.len());
    let last = before.and_then(|before| before.rsplit(' ').next());
    last.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// The time at the end of a result line.
fn finished_in(text: &str) -> Option<Duration> {
    let (_, time) = text.split_once("finished in ")?;
    let seconds: f64 = time.trim().trim_end_matches('s').parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
   Compiling tidegate-limiter v0.1.0
     Running unittests src/lib.rs (target/debug/deps/tidegate_limiter-0a1b2c)
test window::equality_passes ... ok
test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s
     Running tests/model.rs (target/debug/deps/model-ff00)
test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 4.50s
   Doc-tests tidegate_limiter
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.31s
";

    fn tally(text: &str) -> Tally {
        let mut tally = Tally::default();
        text.lines().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn every_result_line_is_counted() {
        let mut tally = tally(OUTPUT);
        tally.close(false);
        assert_eq!((tally.passed, tally.failed), (16, 2));
        let slowest = tally.slowest(2);
        assert_eq!(slowest[0], &("model tests/model.rs".to_owned(), Duration::from_millis(4500)));
        assert_eq!(slowest[1].0, "tidegate_limiter (doc)");
    }

    #[test]
    fn a_build_that_fails_is_one_failure() {
        let mut tally = tally("error[E0308]: mismatched types\n");
        tally.close(false);
        assert_eq!((tally.passed, tally.failed), (0, 1));
    }

    #[test]
    fn what_is_skipped_is_in_the_last_line() {
        let mut total = Tally::of_check(true);
        assert_eq!(total.summary(), "1 passed, 0 failed");
        total.add(Tally { passed: 2, skipped: 1, ..Tally::default() });
        assert_eq!(total.summary(), "3 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_step_without_tests_proves_nothing() {
        let mut tally = tally("test result: ok. 0 passed; 0 failed; finished in 0.00s\n");
        tally.close(true);
        assert_eq!((tally.passed, tally.failed), (0, 1));
    }
}
