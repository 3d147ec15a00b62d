//! What regions admit together that are one process each: it tells its region a larger part at once
//! than one in company does.

use std::fmt::Write as _;

use tidegate_convergence::Tuning;

use super::world::{Setting, measure, worst_permille};
use super::{Block, Promises};
use crate::options::Traffic;
use crate::overshoot::{part, spread};

const REGIONS: [usize; 3] = [2, 5, 10];
const LIMITS: [u64; 2] = [100, 1_000];
const TRAFFIC: [(Traffic, &str); 2] = [(Traffic::Steady, "steady"), (Traffic::Burst, "bursts")];

/// A table: as shipped, and as if it were in company.
pub(super) fn add(all: &mut Promises, cells: u64) {
    let mut text = String::from(
        "| regions | limit | traffic | alone p50 | p99 | worst | as in company p50 | p99 | worst \
         |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    let company = Tuning { replay_alone_part: u64::MAX, ..Tuning::default() };
    for (traffic, name) in TRAFFIC {
        for regions in REGIONS {
            for limit in LIMITS {
                let setting = Setting { regions, nodes: 1, limit, traffic, ..Setting::usual() };
                let both = [setting, Setting { tuning: company, ..setting }].map(|setting| {
                    let seen = measure(setting, cells / 10);
                    all.broken.extend(seen.broken);
                    spread(&seen.shares)
                });
                let [[.., worst], _] = both;
                if worst > worst_permille(regions as u64, limit) {
                    all.broken.push(format!("{regions} lone processes, {limit}, {name}: {worst}"));
                }
                let [alone, company] = both.map(|shares| shares.map(part).join(" | "));
                let _ = writeln!(text, "| {regions} | {limit} | {name} | {alone} | {company} |");
            }
        }
    }
    all.blocks.push(Block { name: "alone", text });
}
