//! A policy as a file: TOML. Everything that is wrong is said at once.

use std::collections::HashSet;
use std::ops::Range;

use regex::Regex;
use tidegate_limiter::{COST_MAX, LIMIT_MAX};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::{Mistake, PolicyError, nearest};
use super::pattern::{self, GLOBS_MAX};
use super::{By, Cost, LIMITS_MAX, Limit, Override, Overrides, Policy, duration_ms};
use super::{check_by, check_name, check_number, check_window};

/// Most overrides of one limit: they are searched one by one for each new identifier.
const OVERRIDES_MAX: usize = 10_000;

const POLICY_KEYS: &[&str] = &["name", "limit"];
const LIMIT_KEYS: &[&str] =
    &["name", "by", "limit", "window", "cost", "when", "capture", "override"];
const OVERRIDE_KEYS: &[&str] = &["identifier", "limit", "window"];

type Value<'a> = Spanned<DeValue<'a>>;

struct Reader<'a> {
    path: &'a str,
    text: &'a str,
    mistakes: Vec<Mistake>,
}

/// Reads a policy.
pub(super) fn read(path: &str, text: &str) -> Result<Policy, PolicyError> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { path, text, mistakes: Vec::new() };
    for error in &errors {
        let said = error.message().trim_end_matches('.');
        reader.wrong(error.span().unwrap_or_default(), format!("not TOML: {said}"));
    }
    let policy = if errors.is_empty() { reader.policy(table.get_ref()) } else { None };
    let Reader { mut mistakes, .. } = reader;
    mistakes.sort_by_key(Mistake::rank);
    match policy {
        Some(policy) if mistakes.is_empty() => Ok(policy),
        _ => Err(PolicyError(mistakes)),
    }
}

/// What a file is called, without its directory and its ending.
fn stem(path: &str) -> String {
    let stem = std::path::Path::new(path).file_stem();
    stem.map_or_else(|| path.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

impl Reader<'_> {
    fn wrong(&mut self, bytes: Range<usize>, said: impl Into<String>) {
        self.mistakes.push(Mistake::new(self.path, self.text, &bytes, said.into()));
    }

    fn keys(&mut self, table: &DeTable<'_>, known: &[&str]) {
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let hint = match nearest(name, known) {
                    Some(meant) => format!(": did you mean `{meant}`?"),
                    None => format!(": there are {}", known.join(", ")),
                };
                self.wrong(key.span(), format!("there is no key `{name}`{hint}"));
            }
        }
    }

    fn policy(&mut self, table: &DeTable<'_>) -> Option<Policy> {
        self.keys(table, POLICY_KEYS);
        let name = match table.get("name") {
            Some(value) => self.string(value)?,
            None => stem(self.path),
        };
        let Some(value) = table.get("limit") else {
            self.wrong(0..0, "there is no limit: write [[limit]] and its keys below");
            return None;
        };
        let DeValue::Array(all) = value.get_ref() else {
            self.wrong(value.span(), "expected a list of limits: write [[limit]]");
            return None;
        };
        if all.is_empty() || all.len() > LIMITS_MAX {
            let many = all.len();
            let said =
                format!("expected 1 to {LIMITS_MAX} limits, as a batch has; there are {many}");
            self.wrong(value.span(), said);
        }
        let mut limits: Vec<Limit> = Vec::new();
        for one in all.iter() {
            let Some(limit) = self.limit(one) else { continue };
            if limits.iter().any(|it| it.name == limit.name) {
                self.wrong(one.span(), format!("there are two limits `{}`", limit.name));
            }
            limits.push(limit);
        }
        Some(Policy { name, limits })
    }

    fn limit(&mut self, value: &Value<'_>) -> Option<Limit> {
        let table = self.table(value, "a limit")?;
        self.keys(table, LIMIT_KEYS);
        let place = value.span();
        let name = self.needed(table, "name", &place).and_then(|name| self.string(name));
        let name = name
            .filter(|name| check_name(name).map_err(|why| self.wrong(place.clone(), why)).is_ok());
        let by = self.needed(table, "by", &place).and_then(|by| self.by(by));
        let capture = table.get("capture").map(|capture| (capture, self.regex(capture)));
        let by = by.and_then(|by| match capture {
            None => Some(by),
            Some((capture, regex)) => self.captured(by, capture, regex?),
        });
        let limit = self.needed(table, "limit", &place);
        let limit = limit.and_then(|limit| self.number(limit, LIMIT_MAX));
        let window = self.needed(table, "window", &place).and_then(|window| self.window(window));
        let cost = table.get("cost").map_or(Some(Cost::Fixed(1)), |cost| self.cost(cost));
        let when = table.get("when").map_or(Some(Vec::new()), |when| self.when(when));
        let overrides = table.get("override");
        let overrides = overrides.map_or(Some(Vec::new()), |all| self.overrides(all));
        Some(Limit {
            name: name?,
            by: by?,
            limit: limit?,
            window_ms: window?,
            cost: cost?,
            when: when?,
            overrides: Overrides::new(overrides?),
        })
    }

    fn needed<'t, 'a>(
        &mut self,
        table: &'t DeTable<'a>,
        key: &str,
        place: &Range<usize>,
    ) -> Option<&'t Value<'a>> {
        let found = table.get(key);
        // A wrong key is said already; that the right one is missing would be said twice.
        let said = || table.iter().any(|(name, _)| nearest(name.get_ref(), &[key]).is_some());
        if found.is_none() && !said() {
            self.wrong(place.clone(), format!("`{key}` is missing"));
        }
        found
    }

    fn table<'t, 'a>(&mut self, value: &'t Value<'a>, what: &str) -> Option<&'t DeTable<'a>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => {
                self.wrong(value.span(), format!("expected {what} with its keys"));
                None
            }
        }
    }

    fn string(&mut self, value: &Value<'_>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.clone().into_owned()),
            _ => {
                self.wrong(value.span(), "expected a text in quotes");
                None
            }
        }
    }

    fn number(&mut self, value: &Value<'_>, max: u64) -> Option<u64> {
        let number = match value.get_ref() {
            DeValue::Integer(number) => {
                u64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
            }
            _ => None,
        };
        // What is no number at all is as wrong as one that is too large.
        let number = check_number(number.unwrap_or(u64::MAX), max);
        number.map_err(|why| self.wrong(value.span(), why)).ok()
    }

    fn regex(&mut self, value: &Value<'_>) -> Option<Regex> {
        let text = self.string(value)?;
        match Regex::new(&text) {
            Ok(regex) => Some(regex),
            Err(why) => {
                let why = why.to_string();
                let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
                self.wrong(value.span(), format!("not a regular expression: {why}"));
                None
            }
        }
    }

    fn window(&mut self, value: &Value<'_>) -> Option<u64> {
        let text = self.string(value)?;
        let window = duration_ms(&text).and_then(check_window);
        window.map_err(|why| self.wrong(value.span(), why)).ok()
    }

    fn by(&mut self, value: &Value<'_>) -> Option<By> {
        let fields = match value.get_ref() {
            DeValue::Array(all) => {
                all.iter().map(|one| self.string(one)).collect::<Option<Vec<String>>>()?
            }
            _ => vec![self.string(value)?],
        };
        check_by(&fields).map_err(|why| self.wrong(value.span(), why)).ok()?;
        Some(By { fields, capture: None })
    }

    fn captured(&mut self, by: By, value: &Value<'_>, regex: Regex) -> Option<By> {
        if by.fields.len() > 1 {
            self.wrong(value.span(), "`capture` goes with one field in `by`");
        } else if regex.captures_len() < 2 {
            self.wrong(value.span(), "expected a group: what is in parentheses is the identifier");
        } else {
            return Some(By { capture: Some(regex), ..by });
        }
        None
    }

    fn cost(&mut self, value: &Value<'_>) -> Option<Cost> {
        let DeValue::Table(table) = value.get_ref() else {
            return self.number(value, COST_MAX).map(Cost::Fixed);
        };
        self.keys(table, &["field"]);
        let field = self.needed(table, "field", &value.span())?;
        self.string(field).map(Cost::Field)
    }

    fn when(&mut self, value: &Value<'_>) -> Option<Vec<(String, Regex)>> {
        let table = self.table(value, "fields and expressions")?;
        let mut all = Vec::new();
        for (field, value) in table {
            all.push((field.get_ref().to_string(), self.regex(value)));
        }
        all.into_iter().map(|(field, regex)| Some((field, regex?))).collect()
    }

    fn overrides(&mut self, value: &Value<'_>) -> Option<Vec<Override>> {
        let DeValue::Array(all) = value.get_ref() else {
            self.wrong(value.span(), "expected a list of overrides: write [[limit.override]]");
            return None;
        };
        if all.len() > OVERRIDES_MAX {
            self.wrong(value.span(), format!("expected at most {OVERRIDES_MAX} overrides"));
            return None;
        }
        let (mut read, mut patterns, mut globs) = (Vec::new(), HashSet::new(), 0_usize);
        for value in all.iter() {
            let one = self.one_override(value);
            if let Some(Override { pattern, .. }) = &one {
                globs = globs.saturating_add(pattern::is_glob(pattern).into());
                if !patterns.insert(pattern.clone()) {
                    self.wrong(value.span(), format!("there are two overrides for `{pattern}`"));
                }
            }
            read.push(one);
        }
        if globs > GLOBS_MAX {
            let said = "overrides with text between two `*`, as a server has; there are";
            self.wrong(value.span(), format!("expected at most {GLOBS_MAX} {said} {globs}"));
        }
        read.into_iter().collect()
    }

    fn one_override(&mut self, value: &Value<'_>) -> Option<Override> {
        let table = self.table(value, "an override")?;
        self.keys(table, OVERRIDE_KEYS);
        let place = value.span();
        let pattern = self.needed(table, "identifier", &place).and_then(|it| {
            let pattern = self.string(it)?;
            let checked = pattern::check(&pattern);
            checked.map_err(|why| self.wrong(it.span(), why)).ok().map(|()| pattern)
        });
        let limit = self.needed(table, "limit", &place);
        let limit = limit.and_then(|limit| self.number(limit, LIMIT_MAX));
        let window = table.get("window").map(|window| self.window(window));
        let window_ms = match window {
            None => None,
            Some(window) => Some(window?),
        };
        Some(Override { pattern: pattern?, limit: limit?, window_ms })
    }
}
