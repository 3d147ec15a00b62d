//! What a policy makes of a request: which limits apply, to whom, at what cost.

use regex::{CaptureLocations, Regex};
use tidegate_limiter::{COST_MAX, PART_CHARS_MAX};

use super::{Cost, Limit, Policy};
use crate::trace::{Fields, Record};

/// Between the values of several fields.
const SEPARATOR: char = '|';

/// A limit that applies to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Which limit.
    pub(crate) limit: usize,
    /// What the call costs.
    pub(crate) cost: u64,
    name: Name,
}

/// Where an identifier stands.
#[derive(Clone, Copy, Debug)]
enum Name {
    /// In the value of a field.
    Field { field: usize, start: usize, end: usize },
    /// Among those that were put together.
    Joined { start: usize, end: usize },
}

/// The limits of a policy, with the numbers of their fields.
#[derive(Debug)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    found: Vec<Found>,
    joined: String,
    /// Fields that no request had until now.
    unseen: Vec<usize>,
}

/// A field that no request of the trace has, and what a limit needs it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unseen<'a> {
    /// Which limit.
    pub(crate) limit: usize,
    /// The key of the policy that names the field.
    pub(crate) key: &'static str,
    /// The field.
    pub(crate) field: &'a str,
}

#[derive(Debug)]
struct Rule {
    by: Vec<usize>,
    capture: Option<(Regex, CaptureLocations)>,
    cost: Result<u64, usize>,
    when: Vec<(usize, Regex)>,
    seen: Seen,
}

/// How a limit met the requests of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Requests that the limit is for.
    pub(crate) concerned: u64,
    /// Of them, those without the field that says who it is.
    pub(crate) missing: u64,
    /// Of them, those that it limits.
    pub(crate) applied: u64,
    /// Of those, the ones without a whole number in the field that says what they cost.
    pub(crate) unpriced: u64,
}

impl Rules {
    /// Asks for the fields that the policy needs.
    pub(crate) fn new(policy: &Policy, fields: &mut Fields) -> Self {
        let rules: Vec<Rule> = policy.limits.iter().map(|limit| Rule::new(limit, fields)).collect();
        let mut unseen: Vec<usize> = rules.iter().flat_map(Rule::fields).collect();
        unseen.sort_unstable();
        unseen.dedup();
        Self { rules, found: Vec::new(), joined: String::new(), unseen }
    }

    /// Looks which limits apply to a request.
    pub(crate) fn look(&mut self, record: &Record) {
        self.found.clear();
        self.joined.clear();
        if !self.unseen.is_empty() {
            self.unseen.retain(|field| record.get(*field).is_none());
        }
        for (limit, rule) in self.rules.iter_mut().enumerate() {
            if !rule.concerns(record) {
                continue;
            }
            rule.seen.concerned = rule.seen.concerned.saturating_add(1);
            match rule.name(record, &mut self.joined) {
                Ok(Some(name)) => {
                    rule.seen.applied = rule.seen.applied.saturating_add(1);
                    let cost = rule.cost(record);
                    self.found.push(Found { limit, cost, name });
                }
                Ok(None) => {}
                Err(Missing) => rule.seen.missing = rule.seen.missing.saturating_add(1),
            }
        }
    }

    /// The field that alone says who is limited, if that is all there is to know.
    pub(crate) fn plain(&self, limit: usize) -> Option<usize> {
        let Rule { by, capture: None, when, .. } = self.rules.get(limit)? else { return None };
        if let ([field], []) = (by.as_slice(), when.as_slice()) { Some(*field) } else { None }
    }

    /// Those that apply to the request that was looked at, in their order.
    pub(crate) fn found(&self) -> &[Found] {
        &self.found
    }

    /// Who is limited. Only until the next request is looked at.
    #[inline]
    pub(crate) fn name<'a>(&'a self, record: &'a Record, found: &Found) -> &'a str {
        let name = match found.name {
            Name::Field { field, start, end } => {
                record.get(field).and_then(|value| value.get(start..end))
            }
            Name::Joined { start, end } => self.joined.get(start..end),
        };
        name.unwrap_or_default()
    }

    /// Requests without the field that a limit needs.
    pub(crate) fn missing(&self, limit: usize) -> u64 {
        self.rules.get(limit).map_or(0, |rule| rule.seen.missing)
    }

    /// How each limit met the trace, in their order.
    pub(crate) fn seen(&self) -> impl Iterator<Item = Seen> {
        self.rules.iter().map(|rule| rule.seen)
    }

    /// Fields of `when` that no request had and whose expression matches all the same.
    pub(crate) fn always_empty(&self, limit: usize) -> impl Iterator<Item = usize> {
        let when = self.rules.get(limit).into_iter().flat_map(|rule| rule.when.iter().enumerate());
        when.filter_map(|(at, (field, regex))| {
            (self.unseen.contains(field) && regex.is_match("")).then_some(at)
        })
    }

    /// A field without which a limit says nothing, and that no request had.
    pub(crate) fn never_found<'a>(&self, policy: &'a Policy) -> Option<Unseen<'a>> {
        let limits = policy.limits.iter().zip(&self.rules).enumerate();
        let mut all = limits.flat_map(|(at, (limit, rule))| {
            rule.needs(limit).map(move |(key, number, field)| (at, key, number, field))
        });
        let nowhere = |number: usize| self.unseen.contains(&number);
        all.find_map(|(limit, key, number, field)| {
            nowhere(number).then_some(Unseen { limit, key, field })
        })
    }
}

/// A request without the field that says who it is.
struct Missing;

impl Rule {
    fn new(limit: &Limit, fields: &mut Fields) -> Self {
        let by = limit.by.fields.iter().map(|field| fields.want(field)).collect();
        let capture = limit.by.capture.as_ref();
        let capture = capture.map(|regex| (regex.clone(), regex.capture_locations()));
        let cost = match &limit.cost {
            Cost::Fixed(cost) => Ok(*cost),
            Cost::Field(field) => Err(fields.want(field)),
        };
        let when = limit.when.iter().map(|(field, regex)| (fields.want(field), regex.clone()));
        Self { by, capture, cost, when: when.collect(), seen: Seen::default() }
    }

    /// All that it looks at.
    fn fields(&self) -> impl Iterator<Item = usize> {
        let when = self.when.iter().map(|(field, _)| *field);
        self.by.iter().copied().chain(when).chain(self.cost.err())
    }

    /// The fields without which it says nothing: the key, the number and the name of each. An
    /// expression that matches an empty value is for requests without the field.
    fn needs<'a>(&self, limit: &'a Limit) -> impl Iterator<Item = (&'static str, usize, &'a str)> {
        let by = self.by.iter().zip(&limit.by.fields);
        let when = self.when.iter().zip(&limit.when);
        let when = when.filter(|((_, regex), _)| !regex.is_match(""));
        let cost = match &limit.cost {
            Cost::Fixed(_) => None,
            Cost::Field(field) => self.cost.err().map(|number| ("cost", number, field.as_str())),
        };
        let by = by.map(|(number, field)| ("by", *number, field.as_str()));
        let when = when.map(|((number, _), (field, _))| ("when", *number, field.as_str()));
        by.chain(when).chain(cost)
    }

    fn concerns(&self, record: &Record) -> bool {
        self.when.iter().all(|(field, regex)| regex.is_match(record.get(*field).unwrap_or("")))
    }

    fn cost(&mut self, record: &Record) -> u64 {
        let field = match self.cost {
            Ok(cost) => return cost,
            Err(field) => field,
        };
        let said = record.get(field).and_then(|cost| cost.parse().ok());
        if said.is_none() {
            self.seen.unpriced = self.seen.unpriced.saturating_add(1);
        }
        said.map_or(1, |cost: u64| cost.min(COST_MAX))
    }

    /// `None` if the expression does not match, or captures nothing: the limit is not for this one.
    fn name(&mut self, record: &Record, joined: &mut String) -> Result<Option<Name>, Missing> {
        let Self { by, capture, .. } = self;
        if let ([field], None) = (by.as_slice(), &capture) {
            let end = cut(record.get(*field).ok_or(Missing)?);
            return Ok(Some(Name::Field { field: *field, start: 0, end }));
        }
        let start = joined.len();
        let Some((regex, groups)) = capture else {
            for field in by {
                join(joined, start, record.get(*field).ok_or(Missing)?);
            }
            return Ok(Some(ended(joined, start)));
        };
        let Some(field) = by.first().copied() else { return Err(Missing) };
        let value = record.get(field).ok_or(Missing)?;
        if regex.captures_read(groups, value).is_none() {
            return Ok(None);
        }
        if groups.len() == 2 {
            let group = groups.get(1).filter(|(start, end)| start < end);
            return Ok(group.map(|(start, end)| {
                let found = value.get(start..end).unwrap_or_default();
                Name::Field { field, start, end: start.saturating_add(cut(found)) }
            }));
        }
        for group in 1..groups.len() {
            let found = groups.get(group).and_then(|(start, end)| value.get(start..end));
            join(joined, start, found.unwrap_or_default());
        }
        // As with one group: if all are empty it is nobody, and no server takes that.
        Ok((joined.len() > start).then(|| ended(joined, start)))
    }
}

/// How much of an identifier counts: as much as a server accepts.
#[inline]
fn cut(name: &str) -> usize {
    if name.len() <= PART_CHARS_MAX {
        return name.len();
    }
    name.char_indices().nth(PART_CHARS_MAX).map_or(name.len(), |(at, _)| at)
}

/// Adds a value to what begins at `start`. A separator in it is marked, so that different values
/// never become the same.
fn join(joined: &mut String, start: usize, value: &str) {
    if joined.len() > start {
        joined.push(SEPARATOR);
    }
    if memchr::memchr2(b'|', b'\\', value.as_bytes()).is_none() {
        joined.push_str(value);
        return;
    }
    for char in value.chars() {
        if char == SEPARATOR || char == '\\' {
            joined.push('\\');
        }
        joined.push(char);
    }
}

fn ended(joined: &mut String, start: usize) -> Name {
    let end = start.saturating_add(cut(joined.get(start..).unwrap_or_default()));
    joined.truncate(end);
    Name::Joined { start, end }
}
