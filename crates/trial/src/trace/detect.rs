//! Which format a log has.

use super::common::Common;
use super::csv::Csv;
use super::json::Json;
use super::{Fields, Record, TraceError, common, csv, json, shown};

/// How the lines of a log are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As Apache and nginx write it, common or combined.
    Common,
    /// An object on each line.
    Json,
    /// Columns, with a line of names first.
    Csv,
}

/// What is known of a log before it is read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Its format; otherwise it is found out.
    pub format: Option<Format>,
    /// Where the time is, in JSON and CSV; otherwise the usual names are tried.
    pub time_field: Option<String>,
    /// What separates columns; otherwise a comma, a tab or a semicolon.
    pub delimiter: Option<u8>,
    /// For how long a line may be late: a log is written when requests end.
    pub reorder_ms: u64,
}

/// Reads lines of one format.
#[derive(Clone, Debug)]
pub(super) enum Parser {
    Common(Common),
    Json(Json),
    Csv(Csv),
}

impl Parser {
    pub(super) fn parse(
        &mut self,
        line: &str,
        fields: &Fields,
        record: &mut Record,
    ) -> Result<(), String> {
        match self {
            Self::Common(common) => {
                common.parse(line, fields, record).map(|_| ()).map_err(str::to_owned)
            }
            Self::Json(json) => json.parse(line, fields, record),
            Self::Csv(csv) => csv.parse(line, fields, record),
        }
    }
}

/// A way to read these first lines, and its name; `None` if they are in no format that is known.
pub(super) fn detect(
    lines: &[String],
    options: &ReadOptions,
    fields: &Fields,
) -> Result<Option<(Parser, &'static str)>, TraceError> {
    let Some(first) = first(lines) else { return Ok(None) };
    let is = |format| options.format == Some(format);
    let any = options.format.is_none();
    let time_field = options.time_field.as_deref();
    // Only the time is looked for: what is wrong with a field is said of its line.
    let mut json = Parser::Json(Json::new(&Fields::default(), time_field));
    if is(Format::Json) || any && reads(&mut json, lines) {
        return Ok(Some((Parser::Json(Json::new(fields, time_field)), "json")));
    }
    let mut common = Parser::Common(Common::new(fields));
    if is(Format::Common) || any && reads(&mut common, lines) {
        check_common(first, fields)?;
        let combined = lines.iter().any(|line| {
            Common::new(fields).parse(line, fields, &mut Record::default()) == Ok(true)
        });
        return Ok(Some((common, if combined { "combined" } else { "common" })));
    }
    let delimiters = options.delimiter.map_or_else(|| b",\t;|".to_vec(), |one| vec![one]);
    for delimiter in delimiters {
        let Some(csv) = Csv::new(first, delimiter, fields, time_field) else { continue };
        let mut csv = Parser::Csv(csv);
        let rest = lines.get(1..).unwrap_or_default();
        if is(Format::Csv) || any && (rest.is_empty() || reads(&mut csv, rest)) {
            if let Parser::Csv(csv) = &csv {
                csv.check(fields)?;
            }
            return Ok(Some((csv, "csv")));
        }
    }
    Ok(None)
}

fn first(lines: &[String]) -> Option<&String> {
    lines.iter().find(|line| !line.trim().is_empty())
}

/// Whether one of the lines is a request in this format. The formats have little in common, and the
/// first lines of a log may be broken.
fn reads(parser: &mut Parser, lines: &[String]) -> bool {
    let (fields, mut record) = (Fields::default(), Record::default());
    lines.iter().any(|line| parser.parse(line, &fields, &mut record).is_ok())
}

/// Which needed field such a log never has.
fn check_common(line: &str, fields: &Fields) -> Result<(), TraceError> {
    let missing = fields.iter().find(|(name, needed)| *needed && !common::NAMES.contains(name));
    match missing {
        None => Ok(()),
        Some((name, _)) => Err(TraceError(format!(
            "an access log has no field `{name}`, only {}; a line of it is\n  {}",
            common::NAMES.join(", "),
            shown(line)
        ))),
    }
}

/// What to say of lines in no format that is known.
pub(super) fn unknown(source: &str, lines: &[String], options: &ReadOptions) -> TraceError {
    let Some(line) = first(lines) else { return TraceError(format!("{source} is empty")) };
    let expected = match options.format {
        Some(Format::Csv) => format!("expected a column for the time, such as\n  {}", csv::EXAMPLE),
        _ => format!(
            "expected one of\n  common    {}\n  combined  the same, then \"referer\" \"user \
             agent\"\n  json      {}\n  csv       {}",
            common::EXAMPLE,
            json::EXAMPLE,
            csv::EXAMPLE
        ),
    };
    TraceError(format!(
        "cannot tell what {source} is; it begins with\n  {}\n{expected}\nSay --format if it is one \
         of them, and --time-field if its time has another name.",
        shown(line)
    ))
}

/// What a line of this format looks like.
pub(super) fn example(parser: &Parser) -> &'static str {
    match parser {
        Parser::Common(_) => common::EXAMPLE,
        Parser::Json(_) => json::EXAMPLE,
        Parser::Csv(_) => csv::EXAMPLE,
    }
}
