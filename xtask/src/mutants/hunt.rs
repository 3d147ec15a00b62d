//! The hunt: the tests pass without a mistake, then each mistake is planted and must be caught.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::format::Mutant;
use super::tree;
use super::trial::{Outcome, Trial, directory_of};
use crate::failure::{Context, Failure, Result};
use crate::repo::Repo;

/// What became of one mistake.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A test failed, or did not end.
    Caught {
        /// Which test, or how the run ended.
        by: String,
    },
    /// All tests passed.
    Survived,
    /// The mistake could not be planted, or the result does not compile.
    Broken(String),
}

/// A repository, and the copy in which the mistakes are planted.
pub(super) struct Hunt {
    source: Repo,
    copy: Repo,
    /// No run of tests is stopped before this. Shorter, and a busy machine looks like a hang.
    pub(super) limit_min: Duration,
}

/// The time that a trial took without a mistake.
struct Baseline {
    trial: Trial,
    directory: String,
    took: Duration,
}

impl Hunt {
    /// A hunt in `target/mutants`.
    pub(super) fn new(source: Repo) -> Self {
        let base = source.target.join("mutants");
        let copy = Repo { root: base.join("tree"), target: base.join("target") };
        Self { source, copy, limit_min: Duration::from_secs(60) }
    }

    /// Runs every mutant and says each verdict as it comes.
    ///
    /// # Errors
    /// When a trial fails without any mistake: then it proves nothing.
    pub(super) fn run(
        &self,
        mutants: &[Mutant],
        mut say: impl FnMut(&str),
    ) -> Result<Vec<Verdict>> {
        tree::copy(&self.source, &self.copy)?;
        let mut baselines: Vec<Baseline> = Vec::new();
        for mutant in mutants {
            if find(&baselines, mutant).is_none() {
                let baseline = self.baseline(mutant)?;
                let (trial, took) = (&baseline.trial, baseline.took.as_secs_f64());
                say(&format!("passes  {trial} without a mistake ({took:.1} s)"));
                baselines.push(baseline);
            }
        }
        let mut verdicts = Vec::new();
        for mutant in mutants {
            let start = Instant::now();
            let usual = find(&baselines, mutant).map_or(Duration::ZERO, |baseline| baseline.took);
            let verdict = self.judge(mutant, usual)?;
            let took = start.elapsed().as_secs_f64();
            let (name, trial) = (&mutant.name, &mutant.trial);
            say(&match &verdict {
                Verdict::Caught { by } => {
                    format!("caught  {name}  by {by} [{trial}] ({took:.1} s)")
                }
                Verdict::Survived => format!("SURVIVED {name} [{trial}] ({took:.1} s)"),
                Verdict::Broken(why) => format!("ERROR   {name}: {why}"),
            });
            verdicts.push(verdict);
        }
        Ok(verdicts)
    }

    /// Runs a trial without a mistake.
    fn baseline(&self, mutant: &Mutant) -> Result<Baseline> {
        let program = mutant.trial.build(&self.copy, &mutant.file)?;
        let start = Instant::now();
        // Long, because nothing is known yet; only a test that never ends should reach it.
        let limit = self.limit_min.saturating_mul(30);
        let trial = mutant.trial.clone();
        match trial.run(&program, &self.directory(mutant), limit)? {
            Outcome::Passed(count) if count > 0 => {
                let directory = directory_of(&mutant.file).to_owned();
                Ok(Baseline { trial, directory, took: start.elapsed() })
            }
            Outcome::Passed(_) => Err(Failure::check(format!("`{trial}` runs no test"))),
            Outcome::Failed(which) => Err(Failure::check(format!(
                "`{trial}` fails without any mistake ({which}): mend that first"
            ))),
            Outcome::OutOfTime => Err(Failure::check(format!("`{trial}` does not end"))),
        }
    }

    /// Plants one mistake, runs its trial, and puts the file back.
    fn judge(&self, mutant: &Mutant, usual: Duration) -> Result<Verdict> {
        let source = self.source.root.join(&mutant.file);
        let text = fs::read_to_string(&source).context(source.display())?;
        let planted = match mutant.apply(&text) {
            Ok(planted) => planted,
            Err(why) => return Ok(Verdict::Broken(why)),
        };
        let place = self.copy.root.join(&mutant.file);
        tree::write(&place, planted.as_bytes())?;
        let verdict = self.attempt(mutant, usual);
        // Also removes what the failing tests may have left behind.
        tree::copy(&self.source, &self.copy)?;
        verdict
    }

    /// Builds and runs the tests with the mistake in place.
    fn attempt(&self, mutant: &Mutant, usual: Duration) -> Result<Verdict> {
        let program = match mutant.trial.build(&self.copy, &mutant.file) {
            Ok(program) => program,
            Err(why) => return Ok(Verdict::Broken(format!("does not build: {why}"))),
        };
        let limit = usual.saturating_mul(5).max(self.limit_min);
        Ok(match mutant.trial.run(&program, &self.directory(mutant), limit)? {
            Outcome::Passed(_) => Verdict::Survived,
            Outcome::Failed(by) => Verdict::Caught { by },
            Outcome::OutOfTime => {
                Verdict::Caught { by: format!("time-out after {} s", limit.as_secs()) }
            }
        })
    }

    /// Where cargo would run the tests.
    fn directory(&self, mutant: &Mutant) -> PathBuf {
        self.copy.root.join(directory_of(&mutant.file))
    }
}

/// The baseline of a mutant's trial.
fn find<'a>(baselines: &'a [Baseline], mutant: &Mutant) -> Option<&'a Baseline> {
    let directory = directory_of(&mutant.file);
    baselines.iter().find(|base| base.trial == mutant.trial && base.directory == directory)
}
