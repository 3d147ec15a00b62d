//! What regions never hear of again when the database between them fails over and loses rows.

use std::fmt::Write as _;

use super::{Block, Promises};
use crate::fault::{Fault, Faults};
use crate::options::Options;
use crate::overshoot::{part, spread};
use crate::report::{Excuse, Report};
use crate::world::World;

/// Failovers that lose rows, and all that can keep a region from telling them again: who wrote them
/// is killed, the region's Redis loses its data, a clock is ahead, another has its name.
const STRIKE: [Fault; 9] = [
    Fault::Rewind,
    Fault::Behead,
    Fault::Crash,
    Fault::Flush,
    Fault::Failover,
    Fault::Skew,
    Fault::Step,
    Fault::Vanish,
    Fault::Namesake,
];

/// Why others may never hear of what a region had told, for people.
const EXCUSES: [(Excuse, &str); 5] = [
    (Excuse::Unread, "its own region had not read it, and who wrote it has ended"),
    (Excuse::Twice, "its region's Redis had lost it, too, when the leader looked"),
    (Excuse::Mute, "who wrote it has lost its name to another region"),
    (Excuse::Outlived, "a leader's clock is ahead: the window is over for it"),
    (Excuse::Trimmed, "no failover: a leader's clock is ahead, and it deleted the rows"),
];

/// What many worlds came to.
#[derive(Debug, Default)]
struct Seen {
    worlds: u64,
    failovers: u64,
    /// Of each reason of [`EXCUSES`]: in how many worlds, and of each cell in thousandths of its
    /// limit.
    excused: [(u64, Vec<u64>); 5],
    /// The same for any reason.
    any: (u64, Vec<u64>),
}

impl Seen {
    fn add(&mut self, report: &Report) {
        self.worlds += 1;
        self.failovers += report.faults.struck(Fault::Rewind);
        let shares = |excuse: Option<Excuse>| {
            let same =
                report.excused.iter().filter(move |it| excuse.is_none_or(|why| it.why == why));
            same.map(|excused| excused.permille)
        };
        let each = EXCUSES.iter().map(|(excuse, _)| Some(*excuse)).zip(&mut self.excused);
        for (excuse, (worlds, all)) in each.chain([(None, &mut self.any)]) {
            let before = all.len();
            all.extend(shares(excuse));
            *worlds += u64::from(all.len() > before);
        }
    }
}

/// A table.
pub(super) fn add(all: &mut Promises, cells: u64) {
    let mut seen = Seen::default();
    let faults = STRIKE.into_iter().fold(Faults::default(), Faults::with);
    let global = (0..).map(Options::of).filter(Options::is_global);
    let many = usize::try_from(2 * cells).unwrap_or(usize::MAX);
    for options in global.take(many) {
        let options = Options { faults, aims: true, ..options };
        let command = options.command();
        let report = World::new(options).run();
        all.broken.extend(report.broken.iter().map(|broken| format!("{command}: {broken}")));
        seen.add(&report);
    }
    let Seen { worlds, failovers, .. } = seen;
    let mut text = format!(
        "{worlds} worlds, {failovers} failovers.\n\n| what a region had told is not told again, \
         because | worlds | cells | missing of a cell: p50 | p99 | worst |\n\
         |---|---|---|---|---|---|\n"
    );
    let each = EXCUSES.iter().map(|(_, why)| *why).zip(&mut seen.excused);
    for (why, (worlds, shares)) in each.chain([("any of these", &mut seen.any)]) {
        shares.sort_unstable();
        let cells = shares.len();
        // Of nothing there is no middle.
        let share = |permille| if cells > 0 { format!("{} L", part(permille)) } else { "-".into() };
        let [p50, p99, worst] = spread(shares).map(share);
        let _ = writeln!(text, "| {why} | {worlds} | {cells} | {p50} | {p99} | {worst} |");
    }
    all.blocks.push(Block { name: "unknown", text });
}
