//! `tidegate check-config`: what a server would run with.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use super::changes::{self, Change, shown};
use super::knobs::{Knob, Reload};
use super::mistake::{Mistake, Place};
use super::{Loaded, Mistakes, Origin, Source, Value, said_of, serve_command};
use crate::cli::{CheckConfigArgs, Output};

/// Says what a server would run with, and what is wrong with it.
///
/// ```
/// use std::process::ExitCode;
///
/// use clap::Parser;
/// use tidegate_server::cli::{Cli, Command};
/// use tidegate_server::config::check;
///
/// let said = Cli::try_parse_from(["tidegate", "check-config", "/not/there.toml"])?;
/// let Command::CheckConfig(args) = said.command else { unreachable!() };
/// assert_eq!(check(&args), ExitCode::from(2));
/// # Ok::<(), clap::Error>(())
/// ```
#[must_use]
pub fn check(args: &CheckConfigArgs) -> ExitCode {
    match checked(args, std::env::vars_os()) {
        Ok(checked) => {
            match args.output {
                Output::Text => print(&mut io::stdout().lock(), &checked.text()),
                Output::Json => print(&mut io::stdout().lock(), &checked.json()),
            }
            ExitCode::SUCCESS
        }
        Err(mistakes) => {
            match args.output {
                Output::Text => print(&mut io::stderr().lock(), &format!("error: {mistakes}")),
                Output::Json => print(&mut io::stdout().lock(), &mistakes.json()),
            }
            ExitCode::from(2)
        }
    }
}

/// A closed pipe is not an error.
fn print(out: &mut dyn Write, text: &str) {
    let _ = writeln!(out, "{text}");
}

/// What was found to be in order.
pub(super) struct Checked {
    path: Option<PathBuf>,
    values: Vec<Value>,
    /// The other file, and what is different from it.
    against: Option<(PathBuf, Vec<Change>)>,
}

pub(super) fn checked(
    args: &CheckConfigArgs,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Checked, Mistakes> {
    let wrong = |why: String| Mistakes(vec![Mistake::elsewhere(why)]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| wrong(why.to_string()))?;
    let _inside = runtime.enter();
    let command = serve_command();
    let said = command.clone().try_get_matches_from(&args.flags);
    let said = said.map_err(|why| wrong(said_of(&command, &why)))?;
    let mut source = Source::new(&said, environment);
    if let Some(path) = &args.path {
        source = source.with_path(path);
    }
    let Loaded { values, .. } = source.load()?;
    let against = match &args.against {
        None => None,
        Some(path) => {
            let old = source.with_path(path).load()?;
            Some((path.clone(), changes::between(&old.values, &values)))
        }
    };
    Ok(Checked { path: source.path, values, against })
}

impl Checked {
    /// For people.
    pub(super) fn text(&self) -> String {
        let mut lines = vec![match &self.path {
            Some(path) => format!("{} is in order. A server would run with:", path.display()),
            None => "There is no file. A server would run with:".to_owned(),
        }];
        let mut section = "";
        for value in &self.values {
            if value.knob.section != section {
                section = value.knob.section;
                lines.push(format!("\n[{section}]"));
            }
            let (key, shown, origin) = (value.knob.key, shown(value), value.origin());
            lines.push(format!("  {key:<28} {shown:<28} {origin}").trim_end().to_owned());
        }
        if let Some((path, changes)) = &self.against {
            lines.push(String::new());
            lines.extend(differences(path, changes));
        }
        lines.join("\n")
    }

    /// For programs.
    pub(super) fn json(&self) -> String {
        #[derive(Serialize)]
        struct All<'a> {
            valid: bool,
            file: Option<&'a Path>,
            values: Vec<One<'a>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            changes: Option<&'a [Change]>,
        }
        #[derive(Serialize)]
        struct One<'a> {
            section: &'a str,
            key: &'a str,
            value: Option<&'a str>,
            origin: String,
            secret: bool,
            reload: bool,
        }
        let one = |value: &'_ Value| {
            let Knob { section, key, secret, reload, .. } = *value.knob;
            let reload = reload != Reload::Restart;
            (section, key, value.origin(), secret, reload)
        };
        let values = self.values.iter().map(|value| {
            let (section, key, origin, secret, reload) = one(value);
            let value = value.text.is_some().then(|| shown(value));
            One { section, key, value, origin, secret, reload }
        });
        let all = All {
            valid: true,
            file: self.path.as_deref(),
            values: values.collect(),
            changes: self.against.as_ref().map(|(_, changes)| changes.as_slice()),
        };
        // Texts can always be encoded, unless a path is not UTF-8.
        serde_json::to_string(&all).unwrap_or_default()
    }
}

fn differences(path: &Path, changes: &[Change]) -> Vec<String> {
    let path = path.display();
    if changes.is_empty() {
        return vec![format!("Nothing is different from {path}.")];
    }
    let line = |change: &Change| match change.restart {
        true => format!("  {change} (needs a restart)"),
        false => format!("  {change}"),
    };
    let begin = [format!("Different from {path}:")];
    begin.into_iter().chain(changes.iter().map(line)).collect()
}

impl Value {
    /// Who said it, in words.
    fn origin(&self) -> String {
        let command = serve_command();
        let arg = command.get_arguments().find(|arg| arg.get_id() == self.knob.id);
        match (self.origin, &self.place) {
            (_, Place::File(spot)) => format!("line {}", spot.line),
            (_, Place::Variable(name)) => name.clone(),
            (Origin::Flag, _) => {
                format!("--{}", arg.and_then(|arg| arg.get_long()).unwrap_or_default())
            }
            (Origin::Variable, _) => {
                let name = arg.and_then(|arg| arg.get_env()).unwrap_or_default();
                name.to_string_lossy().into_owned()
            }
            _ if self.text.is_none() => String::new(),
            _ => "default".to_owned(),
        }
    }
}

impl Mistakes {
    /// For programs.
    pub(super) fn json(&self) -> String {
        #[derive(Serialize)]
        struct All<'a> {
            valid: bool,
            mistakes: Vec<One<'a>>,
        }
        #[derive(Serialize)]
        struct One<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            file: Option<&'a Path>,
            #[serde(skip_serializing_if = "Option::is_none")]
            line: Option<usize>,
            #[serde(skip_serializing_if = "Option::is_none")]
            column: Option<usize>,
            #[serde(skip_serializing_if = "Option::is_none")]
            variable: Option<&'a str>,
            message: &'a str,
        }
        let one = |mistake: &'_ Mistake| match &mistake.place {
            Place::Elsewhere => (None, None),
            Place::Variable(name) => (Some(name.clone()), None),
            Place::File(spot) => (None, Some(spot.clone())),
        };
        let places: Vec<_> = self.0.iter().map(one).collect();
        let mistakes = self.0.iter().zip(&places).map(|(mistake, (variable, spot))| One {
            file: spot.as_ref().map(|spot| spot.path.as_path()),
            line: spot.as_ref().map(|spot| spot.line),
            column: spot.as_ref().map(|spot| spot.column),
            variable: variable.as_deref(),
            message: &mistake.text,
        });
        let all = All { valid: false, mistakes: mistakes.collect() };
        serde_json::to_string(&all).unwrap_or_default()
    }
}
