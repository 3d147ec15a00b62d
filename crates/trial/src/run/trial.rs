//! All of a trial: policies side by side, and suggestions.

use super::{BLOCK, Run, hash_of, warnings};
use crate::call::Decide;
use crate::compare::{Pairing, compare};
use crate::findings::{Findings, TopologyFacts};
use crate::marks::visible;
use crate::policy::{Policy, Rules, Unseen};
use crate::suggest::{SuggestOptions, Suggester};
use crate::trace::{Fields, Record, Source, TraceError, disorder};

/// The version of the document.
const VERSION: u32 = 1;
/// Requests between two words about progress.
const PROGRESS_REQUESTS: u64 = 4_096;
/// Time of the trace between two of them: where requests are rare, a fleet is busy with itself.
const PROGRESS_MS: u64 = 60_000;

/// What is to be tried.
pub struct Plan {
    /// At most two policies, the current one first, and who decides for each. Each may be left out
    /// with `suggest`.
    pub policies: Vec<(Policy, Box<dyn Decide>)>,
    /// Whether limits are suggested, and for what.
    pub suggest: Option<SuggestOptions>,
    /// Where it is decided, in words.
    pub topology: TopologyFacts,
    /// How many identifiers are named in each list.
    pub top: usize,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("top", &self.top).finish_non_exhaustive()
    }
}

/// A trial that can begin.
///
/// ```
/// use tidegate_trial::{
///     By, Fields, Input, Logs, OneProcess, Plan, Policy, ReadOptions, TopologyFacts, Trial,
/// };
///
/// let log = "time,ip\n1700000000,a\n1700000001,a\n1700000002,b\n";
/// let policy = Policy::one(By::field("ip"), 1, 60_000)?;
/// let plan = Plan {
///     policies: vec![(policy, Box::new(OneProcess::default()))],
///     suggest: None,
///     topology: TopologyFacts::default(),
///     top: 20,
/// };
/// let mut fields = Fields::default();
/// let trial = Trial::new(plan, &mut fields);
/// let input = Input { name: "log".to_owned(), read: Box::new(log.as_bytes()) };
/// let mut logs = Logs::new(vec![input], &ReadOptions::default(), fields)?;
/// let findings = trial.run(&mut logs, &mut |_| {})?;
/// assert_eq!(findings.policies[0].totals.denied, 1);
/// assert_eq!(findings.policies[0].most_affected[0].identifier, "a");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Trial {
    runs: Vec<Run>,
    pairing: Pairing,
    suggester: Option<Suggester>,
    topology: TopologyFacts,
    top: usize,
    /// The field that says where a call came from, if anybody asks.
    origin: Option<usize>,
}

impl std::fmt::Debug for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trial").field("top", &self.top).finish_non_exhaustive()
    }
}

impl Trial {
    /// Asks for the fields that the plan needs. The [type](Self) has an example.
    #[must_use]
    pub fn new(plan: Plan, fields: &mut Fields) -> Self {
        let Plan { policies, suggest, topology, top } = plan;
        let compared = policies.len() > 1;
        let suggester = suggest.map(|options| Suggester::new(options, fields));
        let runs = policies.into_iter();
        let runs = runs.map(|(policy, decide)| Run::new(policy, decide, fields, compared));
        let runs: Vec<Run> = runs.collect();
        let asked = runs.iter().any(Run::asks_origin);
        let origin = asked.then(|| fields.want_if_there("ip"));
        Self { runs, pairing: Pairing::default(), suggester, topology, top, origin }
    }

    /// Takes the trace through it. `progress` is told now and then how many requests were decided.
    /// The [type](Self) has an example.
    ///
    /// # Errors
    /// If the trace cannot be read, or lacks a field that a limit needs.
    pub fn run(
        mut self,
        source: &mut dyn Source,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Findings, TraceError> {
        let mut block: [Record; BLOCK] = std::array::from_fn(|_| Record::default());
        let (mut number, mut told_ms) = (0_u64, 0);
        loop {
            let records = fill(&mut block, source)?;
            for run in &self.runs {
                run.warm(records);
            }
            for record in records {
                self.offer(record, number);
                number = number.saturating_add(1);
                let at_ms = record.at_unix_ms();
                if number.is_multiple_of(PROGRESS_REQUESTS)
                    || at_ms.saturating_sub(told_ms) >= PROGRESS_MS
                {
                    told_ms = at_ms;
                    progress(number);
                }
            }
            if records.len() < BLOCK {
                break;
            }
        }
        if number > 0 {
            self.check_fields(source)?;
        }
        for run in &mut self.runs {
            run.finish();
            // Counts that leave out calls would look like an answer.
            let (open, name) = (run.undecided(), &run.policy().name);
            if open > 0 {
                let said = format!("{open} of {number} requests were not decided by `{name}`");
                return Err(TraceError(format!("{said}: this is a fault of tidegate")));
            }
        }
        self.pairing.pair(&mut self.runs);
        Ok(self.findings(source))
    }

    /// A request of the trace comes.
    fn offer(&mut self, record: &Record, number: u64) {
        let origin = self
            .origin
            .and_then(|field| record.origin().or_else(|| record.get(field).map(hash_of)));
        for run in &mut self.runs {
            run.offer(record, number, origin);
        }
        self.pairing.pair(&mut self.runs);
        if let Some(suggester) = &mut self.suggester {
            suggester.offer(record);
        }
    }

    /// Whatever looks for fields.
    fn rules(&self) -> impl Iterator<Item = (&Rules, &Policy)> {
        let runs = self.runs.iter().map(|run| (&run.rules, run.policy()));
        runs.chain(self.suggester.iter().map(|it| (&it.rules, it.policy())))
    }

    /// Fails if no request of the trace had a field that a limit needs. Only the end of the trace
    /// says so: the first who logs in may come late.
    fn check_fields(&self, source: &dyn Source) -> Result<(), TraceError> {
        for (rules, policy) in self.rules() {
            if let Some(unseen) = rules.never_found(policy) {
                let limit = policy.limits.get(unseen.limit);
                return Err(never_found(unseen, limit.map_or("", |it| &it.name), source));
            }
        }
        Ok(())
    }

    fn findings(self, source: &dyn Source) -> Findings {
        let policies = self.runs.iter().map(|run| run.findings(self.top)).collect();
        let comparison = match self.runs.as_slice() {
            [current, candidate] => Some(compare(current, candidate, &self.pairing, self.top)),
            _ => None,
        };
        let trace = source.facts();
        let mut said: Vec<String> = disorder(&trace).into_iter().collect();
        for warning in self.rules().flat_map(|(rules, policy)| warnings(policy, rules)) {
            // Two policies may have the limit, and suggestions are for one of them.
            if !said.contains(&warning) {
                said.push(warning);
            }
        }
        Findings {
            version: VERSION,
            trace,
            warnings: said,
            topology: self.topology,
            policies,
            comparison,
            suggestions: self.suggester.map(|it| it.suggestions()).unwrap_or_default(),
        }
    }
}

/// The next requests: fewer than there is place for only at the end.
fn fill<'a>(block: &'a mut [Record], source: &mut dyn Source) -> Result<&'a [Record], TraceError> {
    let mut count = 0_usize;
    for record in &mut *block {
        if !source.next(record)? {
            break;
        }
        count = count.saturating_add(1);
    }
    Ok(block.get(..count).unwrap_or_default())
}

fn never_found(unseen: Unseen<'_>, limit: &str, source: &dyn Source) -> TraceError {
    let (limit, field, key) = (visible(limit), visible(unseen.field), unseen.key);
    let facts = source.facts();
    let sample = source.sample().map(|line| format!("; a line of it is\n  {line}"));
    TraceError(format!(
        "the limit `{limit}` needs `{field}`, and none of the requests of {} has it{}\nName a \
         field of the trace in `{key}`; in JSON a dot leads into objects (request.user.id).",
        facts.source,
        sample.unwrap_or_default()
    ))
}
