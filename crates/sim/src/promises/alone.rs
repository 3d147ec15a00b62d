//! What regions admit together that are one process each, which tells its region less at once than
//! one in company does.

use std::fmt::Write as _;

use tidegate_convergence::Tuning;

use super::world::{Setting, measure};
use super::{Block, Promises};
use crate::options::Traffic;
use crate::overshoot::{part, spread};

const REGIONS: [usize; 3] = [2, 5, 10];
const LIMITS: [u64; 2] = [100, 1_000];
/// How requests come, and how many of a minute, in hundredths of the limit.
const TRAFFIC: [(Traffic, u64, &str); 3] = [
    (Traffic::Steady, 200, "steady, twice the limit"),
    (Traffic::Steady, 1_000, "steady, ten times"),
    (Traffic::Burst, 200, "bursts, twice the limit"),
];
/// How much more than in company the middle cell may hold, in thousandths of the limit; and the
/// worst of some twenty, which chance moves.
const MORE_PERMILLE: [u64; 2] = [20, 60];

/// A table: as shipped, and as if it were in company.
pub(super) fn add(all: &mut Promises, cells: u64) {
    let mut text = String::from(
        "| regions | limit | traffic | alone p50 | p99 | worst | as in company p50 | p99 | worst \
         |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let company = Tuning { replay_alone_part: u64::MAX, ..Tuning::default() };
    for (traffic, load_percent, name) in TRAFFIC {
        for (regions, limit) in REGIONS.into_iter().flat_map(|it| LIMITS.map(|limit| (it, limit))) {
            let lone = Setting { regions, nodes: 1, limit, ..Setting::usual() };
            let setting = Setting { traffic, load_percent, ..lone };
            let both = [setting, Setting { tuning: company, ..setting }].map(|setting| {
                let seen = measure(setting, cells / 10);
                all.broken.extend(seen.broken);
                spread(&seen.shares)
            });
            let [[p50, _, worst], [company_p50, _, company_worst]] = both;
            let [p50_more, worst_more] = MORE_PERMILLE;
            if p50 > company_p50 + p50_more || worst > company_worst + worst_more {
                all.broken.push(format!("{regions} lone processes, {limit}, {name}: {worst}"));
            }
            let [alone, company] = both.map(|shares| shares.map(part).join(" | "));
            let _ = writeln!(text, "| {regions} | {limit} | {name} | {alone} | {company} |");
        }
    }
    all.blocks.push(Block { name: "alone", text });
}
