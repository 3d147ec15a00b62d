//! What most benches are told, and how they go through their cases.

use std::fmt::Debug;
use std::process::ExitCode;

use clap::ValueEnum;

use crate::Failure;
use crate::figures::Figures;
use crate::machine::Usage;
use crate::region::time;

/// The arguments that benches share, whose cases are of the type `C`.
#[derive(clap::Args)]
pub(crate) struct Head<C: ValueEnum + Send + Sync + 'static> {
    /// One JSON object per line instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Tiny counts: shows that everything runs; the figures mean nothing.
    #[arg(long)]
    pub(crate) smoke: bool,
    /// Only these cases.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<C>,
}

impl<C: ValueEnum + Send + Sync + PartialEq + Debug> Head<C> {
    /// The cases that are wanted, in the order of their type.
    pub(crate) fn cases(&self) -> impl Iterator<Item = &'static C> {
        C::value_variants().iter().filter(|case| self.only.is_empty() || self.only.contains(case))
    }

    /// Runs these cases one after the other, and prints what they came to.
    pub(crate) fn run(
        &self,
        bench: &'static str,
        cases: impl Iterator<Item = &'static C>,
        mut run: impl FnMut(&'static C, &mut Figures) -> Result<(), Failure>,
    ) -> Result<ExitCode, Failure> {
        let usage = Usage::read();
        let mut figures = Figures::new(bench);
        for case in cases {
            let start = time::now();
            run(case, &mut figures)?;
            eprintln!("{case:?}: {:.0} s", start.elapsed().as_secs_f64());
        }
        figures.print(self.json, self.smoke, usage)?;
        Ok(ExitCode::SUCCESS)
    }
}
