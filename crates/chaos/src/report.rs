//! What a run says in the end.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::json;

use crate::history::History;
use crate::judge::Verdict;
use crate::options::Options;
use crate::strike::seconds;

/// How many findings of one oracle are shown; the history has all.
const SHOWN_MAX: usize = 8;

/// What the run comes to.
pub(crate) struct Report<'a> {
    pub(crate) options: &'a Options,
    pub(crate) history: &'a History,
    pub(crate) verdicts: &'a [Verdict],
}

impl Report<'_> {
    /// How many oracles held, and how many did not. One that judged nothing did neither.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let failed = self.verdicts.iter().filter(|one| !one.broken.is_empty()).count();
        (self.verdicts.iter().filter(|one| one.held()).count(), failed)
    }

    fn faults(&self) -> BTreeMap<&'static str, u64> {
        let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
        for one in &self.history.faults {
            let count = counts.entry(one.fault.kind.word()).or_default();
            *count = count.saturating_add(1);
        }
        counts
    }

    /// For people.
    pub(crate) fn print(&self) {
        let history = self.history;
        let admitted = history.calls.iter().filter(|call| call.admitted() > 0).count();
        let degraded = |answer: &crate::history::Answer| answer.degraded;
        let degraded =
            history.calls.iter().filter(|call| call.answer().is_some_and(degraded)).count();
        println!(
            "\n{} calls: {admitted} admitted, {degraded} degraded, {} not made (server away)",
            history.calls.len(),
            history.skipped
        );
        let faults: Vec<String> =
            self.faults().iter().map(|(word, count)| format!("{word} {count}")).collect();
        println!("{} faults: {}", history.faults.len(), faults.join(", "));
        match history.settled_ms {
            Some(ms) => println!("everything agreed {:.1} s after the last of them", seconds(ms)),
            None => println!("everything did not agree in time"),
        }
        for verdict in self.verdicts {
            let word = match verdict.broken.is_empty() {
                true if verdict.held() => "held",
                true => "idle",
                false => "BROKEN",
            };
            println!(
                "{:<13} {word:<7} {:>7} judged; {}",
                verdict.name, verdict.judged, verdict.said
            );
            for what in verdict.broken.iter().take(SHOWN_MAX) {
                println!("              - {what}");
            }
            let more = verdict.broken.len().saturating_sub(SHOWN_MAX);
            if more > 0 {
                println!("              - and {more} more");
            }
        }
    }

    /// For programs, in one line.
    pub(crate) fn print_json(&self) {
        let verdict = |one: &Verdict| {
            json!({ "oracle": one.name, "judged": one.judged, "said": one.said,
                    "broken": one.broken.len() })
        };
        let (passed, failed) = self.counts();
        let all = json!({
            "seed": self.options.seed, "lengthMs": self.options.length_ms,
            "calls": self.history.calls.len(), "skipped": self.history.skipped,
            "faults": self.faults(), "settledMs": self.history.settled_ms,
            "healedMs": self.history.healed_ms, "passed": passed, "failed": failed,
            "verdicts": self.verdicts.iter().map(verdict).collect::<Vec<_>>(),
        });
        println!("{all}");
    }

    /// Writes the history beside the logs.
    pub(crate) fn keep(&self, home: &Path) -> std::io::Result<()> {
        let mut file = fs::File::create(home.join("history.jsonl"))?;
        let broken = self.verdicts.iter().flat_map(|one| {
            one.broken.iter().map(|what| json!({ "broken": one.name, "what": what }))
        });
        for line in broken.chain(self.history.lines()) {
            writeln!(file, "{line}")?;
        }
        Ok(())
    }
}
