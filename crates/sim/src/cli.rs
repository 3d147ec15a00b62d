//! The command line.

pub(crate) mod canaries;
pub(crate) mod many;
#[cfg(test)]
mod tests;
mod total;

use tidegate_sim::{Cut, Options, Report, World, jobs_max, shrink};

/// What is printed when asked for, or when the line is wrong.
pub(crate) const HELP: &str = "\
cargo xtask sim [--seeds N] [--from K]     run N seeds (1000), from K (0) on; one in 100 twice
    [--jobs N]                             so many at once (one for each core)
    [--doublecheck]                        every seed twice: both runs must be the same
    [--coverage]                           print what was under way when each fault struck
cargo xtask sim --minutes N [--from K]     the same for so long, from a seed that the clock gives
cargo xtask sim --corpus                   run the seeds that once failed
cargo xtask sim --seed K [--trace]         run one seed, and print what it expands into
    [--shape A,B,..] [--regions N] [--regions-max N] [--nodes N] [--subjects N] [--requests N]
    [--ms N] [--batches PERCENT] [--bounded PERCENT] [--deny PERCENT] [--faults A,B|none]
                                           the same with a smaller world, as a failure prints it
    [--no-aims]                            nothing is struck at just when it begins
    [--planted NAME]                       with a mistake
    [--outside]                            judged only by what can be seen from outside
    [--no-excuses]                         without the excuses for what is known to be wrong
cargo xtask sim --canaries [--within N]    look for every planted mistake
cargo xtask sim --overshoot [--seeds N]    how much is admitted, over N cells (1000)
cargo xtask sim --grid N                   the same over 432 configurations, N cells each
cargo xtask sim --promises N               the parts of PROMISES.md that are measured, N cells each

What would have no effect is refused.
Exit code: 0 all is well, 1 a promise was broken, 2 the command line is not right.
";

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Seed(u64),
    Seeds,
    Minutes(u64),
    Corpus,
    Canaries,
    Overshoot,
    Grid(u64),
    Promises(u64),
}

impl Command {
    /// Whether a word changes anything that the command does. Words that say what to do are not
    /// asked about: there is one of them at most.
    fn heeds(self, word: &str) -> bool {
        let many = matches!(self, Self::Seeds | Self::Minutes(_));
        let crowd = many || matches!(self, Self::Corpus | Self::Canaries);
        match word {
            "seeds" => matches!(self, Self::Seeds | Self::Overshoot),
            "from" | "doublecheck" | "coverage" => many,
            "jobs" => crowd,
            "within" => self == Self::Canaries,
            "trace" => matches!(self, Self::Seed(_)),
            "planted" => many || matches!(self, Self::Seed(_) | Self::Corpus),
            "outside" => many || matches!(self, Self::Seed(_) | Self::Canaries),
            // The rest cuts a world down.
            _ => many || matches!(self, Self::Seed(_)),
        }
    }
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) command: Command,
    pub(crate) seeds: u64,
    /// The first seed, if it is said.
    pub(crate) from: Option<u64>,
    pub(crate) jobs: usize,
    pub(crate) within: Option<u64>,
    pub(crate) trace: bool,
    pub(crate) doublecheck: bool,
    pub(crate) coverage: bool,
    pub(crate) cut: Cut,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<tidegate_limiter::planted::Planted>,
}

impl Plan {
    /// Reads a line. What would have no effect is refused: who wrote it expects one.
    pub(crate) fn parse(args: &[String]) -> Result<Self, String> {
        let mut plan = Self {
            command: Command::Seeds,
            seeds: 1_000,
            from: None,
            jobs: jobs_max(),
            within: None,
            trace: false,
            doublecheck: false,
            coverage: false,
            cut: Cut::default(),
            #[cfg(feature = "planted")]
            planted: None,
        };
        let (mut rest, mut words, mut orders) = (args.iter(), Vec::new(), Vec::new());
        while let Some(arg) = rest.next() {
            if ["-h", "--help"].contains(&arg.as_str()) {
                return Ok(Self { command: Command::Help, ..plan });
            }
            let name = arg.strip_prefix("--").ok_or_else(|| format!("what is `{arg}`?"))?;
            if words.contains(&name) || orders.contains(&name) {
                return Err(format!("`{arg}` is there twice"));
            }
            let is_order = match plan.flag(name) {
                Some(is_order) => is_order,
                None => {
                    let value = rest.next().ok_or_else(|| format!("`{arg}` needs a value"))?;
                    plan.set(name, value)?
                }
            };
            if is_order { orders.push(name) } else { words.push(name) }
        }
        if let [one, other, ..] = orders.as_slice() {
            return Err(format!("`--{one}` or `--{other}`, not both"));
        }
        match words.iter().find(|word| !plan.command.heeds(word)) {
            Some(word) => Err(format!("`--{word}` has no effect here")),
            None => Ok(plan),
        }
    }

    /// Takes a word without a value; whether it says what to do, if it is one.
    fn flag(&mut self, name: &str) -> Option<bool> {
        match name {
            "corpus" => self.command = Command::Corpus,
            "canaries" => self.command = Command::Canaries,
            "overshoot" => self.command = Command::Overshoot,
            "trace" => self.trace = true,
            "doublecheck" => self.doublecheck = true,
            "coverage" => self.coverage = true,
            _ if self.cut.flag(name) => {}
            _ => return None,
        }
        Some(["corpus", "canaries", "overshoot"].contains(&name))
    }

    /// Takes a word and its value; whether it says what to do.
    fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let wrong = || format!("`--{name} {value}` is not right");
        #[cfg(feature = "planted")]
        if name == "planted" {
            let known = tidegate_sim::canaries::by_name(value);
            self.planted = Some(known.ok_or_else(|| format!("there is no mistake `{value}`"))?);
            return Ok(false);
        }
        let number = || value.parse::<u64>().map_err(|_| wrong());
        let some = || number().and_then(|number| Some(number).filter(|n| *n > 0).ok_or_else(wrong));
        match name {
            "seed" => self.command = Command::Seed(number()?),
            "minutes" => self.command = Command::Minutes(some()?),
            "promises" => self.command = Command::Promises(some()?),
            "grid" => self.command = Command::Grid(some()?),
            "seeds" => self.seeds = some()?,
            "from" => self.from = Some(number()?),
            "jobs" => self.jobs = usize::try_from(some()?).map_err(|_| wrong())?,
            "within" => self.within = Some(some()?),
            _ => self.cut.set(name, value)?,
        }
        Ok(["seed", "minutes", "promises", "grid"].contains(&name))
    }

    /// Runs with or without a planted mistake.
    pub(crate) fn run(&self, options: Options) -> Report {
        #[cfg(feature = "planted")]
        return tidegate_sim::canaries::run_planted(options, self.planted);
        #[cfg(not(feature = "planted"))]
        World::new(options).run()
    }

    /// The flag that plants the same mistake.
    fn planted_flag(&self) -> String {
        #[cfg(feature = "planted")]
        if let Some(mistake) = self.planted {
            return format!(" --planted {mistake:?}");
        }
        String::new()
    }

    /// A failing run made small, and the command that repeats it.
    pub(crate) fn smaller(&self, options: &Options) -> String {
        let (smaller, broken) = shrink(options, |options| self.run(options));
        broken.map_or_else(String::new, |broken| {
            let (command, planted) = (smaller.command(), self.planted_flag());
            format!("smaller: {broken}\nrepeat:  {command}{planted}\n")
        })
    }
}

/// One seed: what it expands into, and what came of it.
pub(crate) fn one(plan: &Plan, seed: u64) -> bool {
    let options = plan.cut.of(seed);
    println!("{options}\n");
    if plan.trace {
        #[cfg(feature = "planted")]
        tidegate_limiter::planted::plant(plan.planted);
        let _ = World::new(options.clone()).told().run();
        #[cfg(feature = "planted")]
        tidegate_limiter::planted::plant(None);
    }
    let report = plan.run(options.clone());
    println!("{report:#?}");
    match &report.broken {
        Some(broken) => println!("BROKEN {broken}"),
        None => println!("nothing was broken"),
    }
    if report.broken.is_some() && !plan.cut.is_smaller() {
        print!("{}", plan.smaller(&options));
    }
    report.broken.is_none()
}
