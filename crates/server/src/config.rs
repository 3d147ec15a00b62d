//! What a server runs with: flags, variables and a file, put together.
//!
//! Promises: a value has one parser, that of its flag, wherever it was said. The nearest word
//! decides: flag, the flag's own variable, `TIDEGATE__SECTION__KEY`, file, default. All mistakes
//! are told at once, each with its place.
//! Refuses: what it does not know. A key that nobody reads is a limit that nobody sets.
//! Fails: before anything is started; while a server runs, by leaving everything as it is.

mod changes;
mod checks;
mod file;
mod knobs;
mod mistake;
mod near;
mod overlay;
mod reload;
mod show;
mod status;
#[cfg(test)]
mod tests;
mod watched;

use std::any::TypeId;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::cli::ServeArgs;
use knobs::{KNOBS, Knob};
use mistake::Mistake;
pub use mistake::Mistakes;
pub(crate) use mistake::Place;
pub(crate) use reload::{Reloader, Running};
pub use show::check;
pub(crate) use status::{ConfigSeen, Status};
use watched::Fingerprint;

/// How clap names the path of the file itself.
const CONFIG: &str = "config";

/// Where the words for a server come from. It can be read again while the server runs.
///
/// ```
/// use clap::{CommandFactory, Parser};
/// use tidegate_server::cli::Cli;
/// use tidegate_server::config::Source;
///
/// let path = std::env::temp_dir().join(format!("tidegate-source-{}.toml", std::process::id()));
/// std::fs::write(&path, "[server]\nmemory = \"1GiB\"\nlisten = \"127.0.0.1:1\"\n")?;
/// let line = ["tidegate", "serve", "--listen", "127.0.0.1:0", "--config", path.to_str().unwrap()];
/// let matches = Cli::command().try_get_matches_from(line)?;
/// let source = Source::new(matches.subcommand_matches("serve").unwrap(), []);
/// let args = source.args()?;
/// assert_eq!((args.memory, args.listen.port()), (1 << 30, 0), "a flag is nearer than the file");
///
/// std::fs::write(&path, "[server]\nmemroy = \"1GiB\"\n")?;
/// let why = source.args().unwrap_err().to_string();
/// assert!(why.contains(".toml:2:1: there is no key `memroy` in [server]: did you mean `memory`"));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    /// What the command line said, word by word.
    said: Vec<OsString>,
    path: Option<PathBuf>,
    overlay: Vec<(String, OsString)>,
}

/// A value that the file or an overlaying variable gives.
#[derive(Clone, Debug)]
struct Setting {
    knob: &'static Knob,
    text: String,
    place: Place,
    /// Which file it was read from, if only that was said.
    secret_file: Option<PathBuf>,
}

/// Everything that a server runs with.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) args: ServeArgs,
    pub(crate) values: Vec<Value>,
}

/// The files that a configuration is made of, and what was in them.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    files: Vec<PathBuf>,
    fingerprint: Fingerprint,
}

impl Seen {
    fn of(all: Vec<PathBuf>) -> Self {
        let mut files: Vec<PathBuf> = Vec::new();
        for path in all {
            if !files.contains(&path) {
                files.push(path);
            }
        }
        let fingerprint = Fingerprint::of(&files);
        Self { files, fingerprint }
    }
}

/// One value, and who said it.
#[derive(Clone)]
pub(crate) struct Value {
    pub(crate) knob: &'static Knob,
    /// Absent if nobody said it and there is no default.
    pub(crate) text: Option<String>,
    pub(crate) origin: Origin,
    place: Place,
}

/// Who said a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Variable,
    Overlay,
    File,
    Default,
}

impl Setting {
    /// Reads the file first, if the value is in one.
    fn new(
        knob: &'static Knob,
        text: String,
        in_file: bool,
        place: Place,
    ) -> Result<Self, Mistake> {
        if !in_file {
            return Ok(Self { knob, text, place, secret_file: None });
        }
        let path = PathBuf::from(text);
        match file::text(&path) {
            // An editor ends a file with a line break.
            Ok(text) => {
                let text = text.trim_end_matches(['\r', '\n']).to_owned();
                Ok(Self { knob, text, place, secret_file: Some(path) })
            }
            Err(why) => {
                let why = format!("cannot read {}: {why}", path.display());
                Err(Mistake::new(place, why).wanting(path))
            }
        }
    }

    /// What stands for it on a command line; nothing for a flag that is not set.
    fn word(&self, command: &Command) -> Option<OsString> {
        let is_switch = self.knob.kind == knobs::Kind::Flag;
        let long = long(command, self.knob.id)?;
        match (is_switch, self.text.as_str()) {
            (true, "true") => Some(format!("--{long}").into()),
            (true, "false") => None,
            // A switch with any other word is refused by clap, as `--switch=word` is.
            _ => Some(format!("--{long}={}", self.text).into()),
        }
    }

    /// Whether the flag takes it.
    fn check(&self, command: &Command) -> Result<(), Mistake> {
        let mistake = |text: String| Mistake::new(self.place.clone(), text);
        let Some(word) = self.word(command) else { return Ok(()) };
        if self.knob.kind == knobs::Kind::Flag && self.text != "true" {
            return Err(mistake("expected true or false".to_owned()));
        }
        let refused = command.clone().try_get_matches_from([word]).err();
        refused.map_or(Ok(()), |why| Err(mistake(why_refused(&why))))
    }
}

/// What a flag expects, in its own words.
fn why_refused(why: &clap::Error) -> String {
    use clap::error::{ContextKind, ContextValue};
    if let Some(ContextValue::Strings(valid)) = why.get(ContextKind::ValidValue)
        && !valid.is_empty()
    {
        return format!("expected one of: {}", valid.join(", "));
    }
    match std::error::Error::source(why) {
        Some(why) => why.to_string(),
        None => "expected another value".to_owned(),
    }
}

/// What is wrong with a command line or a flag's own variable, in one sentence or more.
fn said_of(command: &Command, why: &clap::Error) -> String {
    use clap::error::ErrorKind;
    match why.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            "what stands behind `--` are flags of `tidegate serve`: its --help lists them"
                .to_owned()
        }
        ErrorKind::InvalidUtf8 => match unreadable(command) {
            names if names.is_empty() => "a flag is not UTF-8".to_owned(),
            names => format!("not UTF-8: {}", names.join(", ")),
        },
        _ => {
            let said = why.to_string();
            said.strip_prefix("error: ").unwrap_or(&said).trim_end().to_owned()
        }
    }
}

/// The variables of flags that hold no text, but for those that hold a path: it may be any bytes.
fn unreadable(command: &Command) -> Vec<String> {
    let is_path = |arg: &clap::Arg| arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
    let texts = command.get_arguments().filter(|arg| !is_path(arg));
    let names = texts.filter_map(|arg| arg.get_env());
    let wrong = names.filter(|name| std::env::var_os(name).is_some_and(|it| it.to_str().is_none()));
    wrong.map(|name| name.to_string_lossy().into_owned()).collect()
}

fn long<'a>(command: &'a Command, id: &str) -> Option<&'a str> {
    command.get_arguments().find(|arg| arg.get_id() == id)?.get_long()
}

/// The command `serve`, to be given words without a name before them.
fn serve_command() -> Command {
    ServeArgs::augment_args(Command::new("serve").no_binary_name(true))
}

impl Source {
    /// What was said to `serve`, and an environment. The [type](Self) has an example.
    #[must_use]
    pub fn new(
        said: &ArgMatches,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let path = said.get_one::<PathBuf>(CONFIG).cloned();
        Self { said: words(said), path, overlay: overlay::variables(environment) }
    }

    /// The same with another file.
    fn with_path(&self, path: &Path) -> Self {
        Self { path: Some(path.to_owned()), ..self.clone() }
    }

    /// What a server would run with. The [type](Self) has an example.
    ///
    /// # Errors
    /// [`Mistakes`], all of them.
    pub fn args(&self) -> Result<ServeArgs, Mistakes> {
        // Some checks make what a server would use, and that is made within a runtime.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|why| Mistakes(vec![Mistake::elsewhere(why.to_string())]))?;
        let _inside = runtime.enter();
        Ok(self.load()?.args)
    }

    /// Reads everything, and checks it. Has to be called within a runtime.
    pub(crate) fn load(&self) -> Result<Loaded, Mistakes> {
        let command = serve_command();
        let (settings, mistakes) = self.settings();
        let refused = settings.iter().filter_map(|setting| setting.check(&command).err());
        let mut mistakes: Vec<Mistake> = mistakes.into_iter().chain(refused).collect();
        if !mistakes.is_empty() {
            mistakes.sort_by_key(Mistake::rank);
            return Err(Mistakes(mistakes));
        }
        let loaded = self.put_together(&command, &settings)?;
        match checks::all(&loaded) {
            mistakes if mistakes.is_empty() => Ok(loaded),
            mistakes => Err(Mistakes(mistakes)),
        }
    }

    /// The same, and the files that it was read from. They are looked at first: so no change of
    /// them is missed.
    pub(crate) fn load_watched(&self) -> Result<(Loaded, Seen), Mistakes> {
        let seen = Seen::of(self.wanted());
        Ok((self.load()?, seen))
    }

    /// The files that a load reads, whether they can be read or not. What fails because one of them
    /// is missing goes on when it comes.
    fn wanted(&self) -> Vec<PathBuf> {
        const TLS: [&str; 2] = ["tls_cert", "tls_key"];
        let (settings, mistakes) = self.settings();
        let mut files: Vec<PathBuf> = self.path.iter().cloned().collect();
        if let Ok(said) = serve_command().try_get_matches_from(&self.said) {
            files.extend(TLS.iter().filter_map(|id| said.get_one::<PathBuf>(id).cloned()));
        }
        for setting in settings {
            if TLS.contains(&setting.knob.id) {
                files.push(setting.text.into());
            } else {
                files.extend(setting.secret_file);
            }
        }
        files.extend(mistakes.into_iter().filter_map(|mistake| mistake.wanted));
        files
    }

    /// What file and variables set, the nearest first.
    fn settings(&self) -> (Vec<Setting>, Vec<Mistake>) {
        let (mut settings, mut mistakes) = overlay::read(&self.overlay);
        let Some(path) = &self.path else { return (settings, mistakes) };
        match file::text(path) {
            Ok(text) => {
                let (in_file, wrong) = file::read(path, &text);
                settings.extend(in_file);
                mistakes.extend(wrong);
            }
            Err(why) => {
                let path = path.display();
                let text = format!("cannot read {path} (TIDEGATE_CONFIG or --config): {why}");
                mistakes.push(Mistake::elsewhere(text));
            }
        }
        (settings, mistakes)
    }

    fn put_together(&self, command: &Command, settings: &[Setting]) -> Result<Loaded, Mistakes> {
        let refused = |why: clap::Error| Mistakes(vec![Mistake::elsewhere(said_of(command, &why))]);
        let said = command.clone().try_get_matches_from(&self.said).map_err(refused)?;
        let chosen = |knob: &Knob| match said.value_source(knob.id) {
            Some(ValueSource::CommandLine | ValueSource::EnvVariable) => None,
            _ => settings.iter().find(|setting| setting.knob.id == knob.id),
        };
        let added = KNOBS.iter().filter_map(chosen).filter_map(|setting| setting.word(command));
        let words: Vec<OsString> = added.chain(self.said.iter().cloned()).collect();
        let matches = command.clone().try_get_matches_from(words).map_err(refused)?;
        let mut args = ServeArgs::from_arg_matches(&matches).map_err(refused)?;
        args.config.clone_from(&self.path);
        let value = |knob: &'static Knob| Value::of(knob, chosen(knob), &matches);
        let values = KNOBS.iter().map(value).collect();
        Ok(Loaded { args, values })
    }
}

impl Value {
    fn of(knob: &'static Knob, chosen: Option<&Setting>, matches: &ArgMatches) -> Self {
        let raw = matches.get_raw(knob.id).and_then(|mut raw| raw.next());
        let text = raw.map(|raw| raw.to_string_lossy().into_owned());
        if let Some(Setting { place, .. }) = chosen {
            let origin = match place {
                Place::File(_) => Origin::File,
                _ => Origin::Overlay,
            };
            return Self { knob, text, origin, place: place.clone() };
        }
        let origin = match matches.value_source(knob.id) {
            Some(ValueSource::CommandLine) => Origin::Flag,
            Some(ValueSource::EnvVariable) => Origin::Variable,
            _ => Origin::Default,
        };
        Self { knob, text, origin, place: Place::Elsewhere }
    }
}

/// What a command line said, in words that say the same.
fn words(said: &ArgMatches) -> Vec<OsString> {
    let mut words = Vec::new();
    for arg in serve_command().get_arguments() {
        let id = arg.get_id().as_str();
        let is_said = said.value_source(id) == Some(ValueSource::CommandLine);
        let Some(long) = arg.get_long().filter(|_| is_said && id != CONFIG) else { continue };
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            words.push(format!("--{long}").into());
            continue;
        }
        for raw in said.get_raw(id).into_iter().flatten() {
            let mut word = OsString::from(format!("--{long}="));
            word.push(raw);
            words.push(word);
        }
    }
    words
}
