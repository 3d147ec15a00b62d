//! What a span of a window's length holds, wherever it lies, by the times at which callers heard
//! that they are admitted. The cells are not asked when that was: a cost that is booked to the
//! wrong window, or to none, shows here and nowhere else.

use std::collections::BTreeMap;

use crate::fault::Fault;
use crate::world::World;

/// Who heard it when, and the cost: in the order of time.
type Answers = Vec<(u64, u64)>;

/// What callers were told, by subject.
#[derive(Debug, Default)]
pub(crate) struct Spans(BTreeMap<usize, Answers>);

impl Spans {
    /// A caller hears that it is admitted.
    pub(crate) fn note(&mut self, subject: usize, at_us: u64, cost: u64) {
        self.0.entry(subject).or_default().push((at_us, cost));
    }
}

impl World {
    /// INV-27: a span of a window's length touches two windows, so it holds no more than two cells
    /// that follow each other do, and each of those is within its own bound. A caller that waited
    /// was decided up to a deadline ago: the span is shorter by that.
    ///
    /// Where clocks differ, so do their windows; and who stood still answers late.
    pub(crate) fn check_spans(&mut self) {
        let late = [Fault::Skew, Fault::Step, Fault::Pause, Fault::Behead];
        if late.into_iter().any(|fault| self.options.faults.has(fault)) {
            return;
        }
        let waited_us = (self.tuning.deadline_ms + 1) * 1_000;
        for (subject, answers) in std::mem::take(&mut self.spans.0) {
            let window_ms = self.specs.get(subject).map_or(0, |spec| spec.window_ms);
            let held = fullest(&answers, (window_ms * 1_000).saturating_sub(waited_us));
            let most = self.two_cells(subject);
            if held > most {
                self.broken("span", || format!("{held} of {subject} in a span, cells hold {most}"));
            }
        }
    }

    /// The most that two cells in a row hold, over all regions.
    fn two_cells(&self, subject: usize) -> u64 {
        let mut totals: BTreeMap<u64, u64> = BTreeMap::new();
        for home in self.homes.iter() {
            for (name, cell) in home.truth.cells.range((subject, 0)..=(subject, u64::MAX)) {
                *totals.entry(name.1).or_default() += cell.total();
            }
        }
        let next = |sequence: u64| totals.get(&(sequence + 1)).copied().unwrap_or(0);
        totals.iter().map(|(sequence, total)| total + next(*sequence)).max().unwrap_or(0)
    }
}

/// The fullest span of this length.
fn fullest(answers: &[(u64, u64)], span_us: u64) -> u64 {
    let (mut held, mut most, mut old) = (0, 0, answers.iter());
    let mut oldest = old.next();
    for (at_us, cost) in answers {
        while let Some((first_us, first)) = oldest
            && first_us + span_us <= *at_us
        {
            held -= first;
            oldest = old.next();
        }
        held += cost;
        most = most.max(held);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn a_span_is_looked_for_everywhere() {
        let answers = [(0, 5), (60, 3), (99, 2), (100, 4), (159, 1), (160, 8)];
        assert_eq!(fullest(&answers, 100), 15, "from 99 on");
        assert_eq!(fullest(&answers, 1), 8);
        assert_eq!(fullest(&answers, 1_000), 23);
        assert_eq!(fullest(&[], 100), 0);
    }

    /// Everybody is told twice that they are admitted: no cell knows of it.
    #[test]
    fn an_admission_that_no_cell_holds_is_seen() {
        let seed = (0..100).find(|seed| {
            let options = Options::of(*seed);
            options.faults == crate::Faults::default() && !options.is_global()
        });
        let mut world = World::new(Options::of(seed.unwrap()));
        world.run_until_healed();
        let spans = std::mem::take(&mut world.spans.0);
        assert!(!spans.is_empty());
        for (subject, answers) in spans {
            for (at_us, cost) in answers {
                world.spans.note(subject, at_us, cost);
                world.spans.note(subject, at_us, cost);
            }
        }
        world.check_spans();
        assert_eq!(world.report.broken.map(|broken| broken.oracle), Some("span"));
    }
}
