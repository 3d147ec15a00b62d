//! What was under way when a fault struck: evidence that faults meet what they are meant to break.
//!
//! Faults strike in the first phase of a run only, while there is traffic. So what matters is not
//! the phase but what they strike into: a message, or what a process, a region or the world is
//! busy with.

use std::fmt;

use crate::fault::Fault;

/// Something that a fault can strike into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Everything else is mended.
    Mended,
    /// No process runs on the node, or on one of them.
    Down,
    /// A process has just started: it has not met any subject.
    Cold,
    /// A batch waits.
    Batch,
    /// A process is asked to stop, and has not yet.
    Drain,
    /// The region is asked for something.
    Ask,
    /// A view is refreshed for somebody who waits.
    Refresh,
    /// What was admitted is told to the region.
    Replay,
    /// A shard is asked who it is.
    Greet,
    /// What is worth publishing is posted, or taken.
    Post,
    /// Who leads reads what the region has recorded.
    Read,
    /// A row is written.
    Publish,
    /// Rows are read.
    Import,
    /// A region takes its name, or gives it back; or rows are deleted.
    Chore,
}

impl Moment {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Mended,
        Self::Down,
        Self::Cold,
        Self::Batch,
        Self::Drain,
        Self::Ask,
        Self::Refresh,
        Self::Replay,
        Self::Greet,
        Self::Post,
        Self::Read,
        Self::Publish,
        Self::Import,
        Self::Chore,
    ];

    const fn bit(self) -> u16 {
        1 << (self as u16)
    }

    const fn is_state(self) -> bool {
        matches!(self, Self::Down | Self::Cold | Self::Batch | Self::Drain)
    }

    /// A message to the regional store, from the conversation with the region.
    const fn is_call(self) -> bool {
        matches!(self, Self::Ask | Self::Refresh | Self::Replay | Self::Greet)
    }

    /// A message to the regional store, for the conversation with other regions.
    const fn is_board(self) -> bool {
        matches!(self, Self::Post | Self::Read)
    }

    /// Why this cannot be under way when that fault strikes, if it cannot.
    #[must_use]
    pub const fn excludes(self, fault: Fault) -> Option<&'static str> {
        let mended = matches!(self, Self::Mended);
        match fault {
            Fault::Poison | Fault::Namesake if mended => None,
            _ if mended => Some("nothing strikes when all is mended, but what stays as it was"),
            Fault::Skew => Some("clocks disagree from the beginning"),
            Fault::Flood if !matches!(self, Self::Batch) => Some("a flood is of requests"),
            Fault::Namesake if !matches!(self, Self::Chore) => Some("a name is taken by who asks"),
            Fault::Late | Fault::Poison if !matches!(self, Self::Publish) => {
                Some("rows are written")
            }
            Fault::Leave if !matches!(self, Self::Batch | Self::Ask | Self::Refresh) => {
                Some("callers wait for asks and refreshes only")
            }
            Fault::Crash | Fault::Drain | Fault::Behead if matches!(self, Self::Down) => {
                Some("there is a process to strike")
            }
            Fault::Drain if matches!(self, Self::Drain) => Some("it is asked to stop once"),
            _ => self.is_of_another(fault),
        }
    }

    /// The same for what befalls single messages: each goes to one store.
    const fn is_of_another(self, fault: Fault) -> Option<&'static str> {
        let regional = self.is_call() || self.is_board();
        let another = match fault {
            Fault::Delay => self.is_state(),
            Fault::Duplicate | Fault::Slow => !self.is_call(),
            Fault::Loss | Fault::Reorder | Fault::Refuse | Fault::Away => !regional,
            Fault::Outage | Fault::Busy | Fault::Vanish => regional || self.is_state(),
            _ => false,
        };
        if another { Some("it strikes messages, and these are of another kind") } else { None }
    }
}

/// Some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moments(u16);

impl Moments {
    pub(crate) const fn with(self, moment: Moment, is: bool) -> Self {
        if is { Self(self.0 | moment.bit()) } else { self }
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, moment: Moment) -> bool {
        self.0 & moment.bit() != 0
    }
}

impl From<Moment> for Moments {
    fn from(moment: Moment) -> Self {
        Self(moment.bit())
    }
}

/// How often each fault struck, and into what.
#[derive(Clone, PartialEq, Eq)]
pub struct Coverage {
    struck: [u64; Fault::ALL.len()],
    into: [[u64; Moment::ALL.len()]; Fault::ALL.len()],
}

impl Default for Coverage {
    fn default() -> Self {
        Self { struck: [0; Fault::ALL.len()], into: [[0; Moment::ALL.len()]; Fault::ALL.len()] }
    }
}

impl Coverage {
    /// A fault struck into all of these.
    #[expect(clippy::indexing_slicing, reason = "each kind has its place")]
    pub(crate) fn count(&mut self, fault: Fault, moments: Moments) {
        self.struck[fault as usize] += 1;
        for moment in Moment::ALL.into_iter().filter(|moment| moments.has(*moment)) {
            self.into[fault as usize][moment as usize] += 1;
        }
    }

    /// Takes in what happened in another run.
    pub fn add(&mut self, other: &Self) {
        let add = |(sum, more): (&mut u64, &u64)| *sum += more;
        self.struck.iter_mut().zip(&other.struck).for_each(add);
        self.into.as_flattened_mut().iter_mut().zip(other.into.as_flattened()).for_each(add);
    }

    /// How often a fault struck.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "as above")]
    pub const fn struck(&self, fault: Fault) -> u64 {
        self.struck[fault as usize]
    }

    /// How often it struck into something.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "as above")]
    pub const fn into(&self, fault: Fault, moment: Moment) -> u64 {
        self.into[fault as usize][moment as usize]
    }

    /// Pairs that can happen and did not, and pairs that cannot and did.
    #[must_use]
    pub fn gaps(&self) -> Vec<(Fault, Moment)> {
        let all = Fault::ALL.into_iter().flat_map(|fault| Moment::ALL.map(|at| (fault, at)));
        all.filter(|(fault, at)| at.excludes(*fault).is_none() == (self.into(*fault, *at) == 0))
            .collect()
    }
}

impl fmt::Debug for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let struck = Fault::ALL.into_iter().filter(|fault| self.struck(*fault) > 0);
        f.debug_map().entries(struck.map(|fault| (fault, self.struck(fault)))).finish()
    }
}

impl fmt::Display for Coverage {
    /// A table: a dash where something cannot be.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<10} {:>9}", "", "all")?;
        for moment in Moment::ALL {
            write!(f, " {:>8}", format!("{moment:?}").to_lowercase())?;
        }
        writeln!(f)?;
        for fault in Fault::ALL {
            write!(f, "{:<10} {:>9}", fault.name(), self.struck(fault))?;
            for moment in Moment::ALL {
                let count = self.into(fault, moment);
                let never = count == 0 && moment.excludes(fault).is_some();
                write!(f, " {:>8}", if never { "-".to_owned() } else { count.to_string() })?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
