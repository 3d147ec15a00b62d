//! A seed that is cut down: the words of a command line that make its world smaller.

use std::collections::BTreeMap;

use crate::fault::Faults;
use crate::options::Options;
use crate::shape::Shape;

/// Numbers that replace what the seed expands into, and from where to where they make a
/// difference. No seed has more regions, nodes or subjects.
const NUMBERS: [(&str, u64, u64); 9] = [
    ("regions", 1, 10),
    ("regions-max", 1, 65_535),
    ("nodes", 1, 60),
    ("subjects", 1, 8),
    ("requests", 1, u64::MAX),
    ("ms", 1, u64::MAX / 1_000_000),
    ("batches", 0, 100),
    ("bounded", 0, 100),
    ("deny", 0, 100),
];

/// How a world differs from what its seed expands into.
///
/// ```
/// let options = tidegate_sim::Cut::line("--seed 7 --shape 2,1 --faults crash").unwrap();
/// assert_eq!((options.seed, options.shape.nodes()), (7, 3));
/// assert_eq!(options.command(), "cargo xtask sim --seed 7 --shape 2,1 --faults crash");
/// assert!(tidegate_sim::Cut::line("--seed 7 --nodes").is_err());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cut {
    numbers: BTreeMap<&'static str, u64>,
    faults: Option<Faults>,
    shape: Option<Shape>,
    /// Without the excuses.
    strict: bool,
    /// Judged from outside only.
    outside: bool,
    /// Nothing is struck at.
    aimless: bool,
}

impl Cut {
    /// Takes a word without a value; says whether it is one of its own.
    pub fn flag(&mut self, name: &str) -> bool {
        match name {
            "no-excuses" => self.strict = true,
            "outside" => self.outside = true,
            "no-aims" => self.aimless = true,
            _ => return false,
        }
        true
    }

    /// Takes a word and its value.
    ///
    /// # Errors
    ///
    /// If there is no such word, or it cannot have that value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let wrong = || format!("`--{name} {value}` is not right");
        match name {
            "faults" => self.faults = Some(Faults::parse(value).ok_or_else(wrong)?),
            "shape" => self.shape = Some(Shape::parse(value).ok_or_else(wrong)?),
            _ => {
                let known = NUMBERS.iter().find(|(known, ..)| *known == name);
                let (known, least, most) = known.ok_or_else(wrong)?;
                let number: u64 = value.parse().map_err(|_| wrong())?;
                if !(*least..=*most).contains(&number) {
                    return Err(format!("`--{name}` goes from {least} to {most}"));
                }
                self.numbers.insert(known, number);
            }
        }
        let sized = ["regions", "nodes"].iter().any(|size| self.numbers.contains_key(size));
        if self.shape.is_some() && sized {
            return Err("`--shape` says how many regions and nodes there are".to_owned());
        }
        Ok(())
    }

    /// Whether anything is smaller than the seed has it.
    #[must_use]
    pub fn is_smaller(&self) -> bool {
        !self.numbers.is_empty() || self.shape.is_some() || self.aimless
    }

    /// What a seed expands into, cut down.
    #[must_use]
    pub fn of(&self, seed: u64) -> Options {
        let mut options = Options::of(seed);
        let number = |name: &str| self.numbers.get(name).copied();
        let size = |name: &str| number(name).and_then(|number| usize::try_from(number).ok());
        if number("regions").or(number("nodes")).is_some() {
            let regions = size("regions").unwrap_or(options.shape.regions());
            let nodes = size("nodes").unwrap_or(options.shape.nodes());
            options.shape = Shape::dealt(regions, nodes);
        }
        options.shape = self.shape.clone().unwrap_or(options.shape);
        let regions_max = number("regions-max").and_then(|most| u16::try_from(most).ok());
        options.regions_max = regions_max.unwrap_or(options.regions_max);
        options.kinds.truncate(size("subjects").unwrap_or(options.kinds.len()));
        options.requests = number("requests").unwrap_or(options.requests);
        options.safety_ms = number("ms").unwrap_or(options.safety_ms);
        options.batch_percent = number("batches").unwrap_or(options.batch_percent);
        options.bounded_percent = number("bounded").unwrap_or(options.bounded_percent);
        options.deny_percent = number("deny").unwrap_or(options.deny_percent);
        options.faults = self.faults.unwrap_or(options.faults);
        options.aims &= !self.aimless;
        (options.excuses, options.inside) = (!self.strict, !self.outside);
        options
    }

    /// Reads a whole line, as [`Options::command`] prints it behind `cargo xtask sim`.
    ///
    /// # Errors
    ///
    /// If a word is not right, or there is no seed.
    pub fn line(line: &str) -> Result<Options, String> {
        let (mut cut, mut seed) = (Self::default(), None);
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or_else(|| format!("what is `{word}`?"))?;
            if cut.flag(name) {
                continue;
            }
            let value = words.next().ok_or_else(|| format!("`{word}` needs a value"))?;
            if name == "seed" {
                seed = Some(value.parse().map_err(|_| format!("`{value}` is not a seed"))?);
            } else {
                cut.set(name, value)?;
            }
        }
        seed.map(|seed| cut.of(seed)).ok_or_else(|| format!("`{line}` has no seed"))
    }
}
