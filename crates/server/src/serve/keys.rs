//! The control plane at the start: its tables, the first workspace, and the first key.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Clock, GlobalError};
use tidegate_stores::control::{Change, ControlError};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{ServeError, Shared, data_dir, key_file};
use crate::cli::ServeArgs;
use crate::control::permission::Action;
use crate::control::{Control, Key};
use crate::control_tools::{DEFAULT_ID, DEFAULT_NAME};
use crate::globe::Database;
use crate::ids::{Kind, digest, new_id, new_key};
use crate::log::{Event, Form, Log, Text};

/// Who makes what is made at the start.
const ACTOR: &str = "serve";
/// How long a start waits for the database to answer.
const START_WITHIN: Duration = Duration::from_secs(5);
/// How often one that was away at the start is tried again.
const BEGIN_AGAIN: Duration = Duration::from_secs(1);

/// How a caller gets a key.
#[derive(Debug)]
pub(super) enum KeyNews {
    /// The first one was made just now.
    Made(String),
    /// The same, and it is in this file: nobody watches.
    Filed(PathBuf),
    /// One was given to this process.
    Given { in_environment: bool },
    /// There are some.
    Known,
}

impl KeyNews {
    /// Whether the line to try needs no further word.
    pub(super) const fn is_at_hand(&self) -> bool {
        matches!(self, Self::Made(_) | Self::Given { in_environment: true })
    }
}

/// The control plane of a server that begins.
pub(super) struct Opened {
    pub(super) control: Arc<Control>,
    pub(super) database: Arc<Database>,
    /// The database is the file in the data directory: nobody else makes its tables.
    is_ours: bool,
    /// Why nothing is known yet but the key that was given.
    away: Option<GlobalError>,
}

impl Opened {
    /// Opens the control plane. A database that is away is no reason not to start, if there is a
    /// key without it.
    pub(super) async fn new(
        args: &ServeArgs,
        database: Arc<Database>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ServeError> {
        let is_ours = args.place.database.is_none() && args.globe.is_none();
        let given = args
            .root_key
            .as_deref()
            .map(|key| Key::given(digest(key.as_bytes()), DEFAULT_ID, &Action::everything()));
        let has_given = given.is_some();
        let control = Arc::new(Control::new(database.control(), clock, given));
        let mut opened = Self { control, database, is_ours, away: None };
        match opened.begin().await {
            Ok(()) => {}
            // With a key, callers can be served: what they name is limited without overrides.
            Err(why) if has_given && !matches!(why, GlobalError::Schema(_)) => {
                opened.away = Some(why);
            }
            Err(why) => return Err(opened.failed(why)),
        }
        Ok(opened)
    }

    /// How a caller gets a key. Where there is none, and the database is a file of this machine,
    /// one is made: to be shown in the same breath, because nobody could show it again.
    pub(super) async fn key_news(
        &self,
        args: &ServeArgs,
        form: Form,
    ) -> Result<KeyNews, ServeError> {
        if args.root_key.is_some() {
            return Ok(KeyNews::Given { in_environment: args.has_key_in_environment() });
        }
        if self.control.known().has_keys() {
            return Ok(KeyNews::Known);
        }
        if !self.database.is_file() {
            return Err(ServeError::NoKey(self.database.to_string()));
        }
        let (id, key) = (new_id(Kind::Key)?, new_key()?);
        // Before it is known: a key that nobody can see would be the only one.
        let filed = match form {
            Form::Json => Some(key_file::write(&data_dir(args)?, &id, &key)?),
            Form::Pretty => None,
        };
        if let Err(why) = add_key(&self.control, id, &key).await {
            filed.as_deref().map(key_file::remove);
            return Err(self.failed(why));
        }
        Ok(filed.map_or(KeyNews::Made(key), KeyNews::Filed))
    }

    /// Where settings are, and who else has them.
    pub(super) fn place(&self, shared: &Shared) -> String {
        let alone = self.is_ours && shared.region.is_some();
        let note =
            if alone { ", of this machine alone: several share one with --database" } else { "" };
        format!("{}{note}", self.database)
    }

    fn failed(&self, why: GlobalError) -> ServeError {
        let database = self.database.to_string();
        match why {
            // No key helps: it would be asked about tables that are not there.
            GlobalError::Schema(_) => ServeError::Tables(database, why),
            _ => ServeError::Database(database, why),
        }
    }

    /// Looks at the tables, makes the first workspace unless it is there, and learns everything.
    async fn begin(&self) -> Result<(), GlobalError> {
        let answers = async {
            match self.is_ours {
                true => drop(self.database.migrate().await?),
                false => self.database.check().await?,
            }
            add_workspace(&self.control).await
        };
        timeout(START_WITHIN, answers).await.unwrap_or(Err(GlobalError::Timeout))?;
        // All there is may take longer.
        self.control.look().await
    }

    fn stands(&self, stands: Result<(), &GlobalError>) -> Event {
        let place = Text::of(&*self.database);
        match stands {
            Ok(()) => Event::SettingsBack { place },
            Err(why) => Event::SettingsUnreadable { place, why: Text::of(why) },
        }
    }

    /// Keeps up with changes, and warns when the database goes away.
    pub(super) async fn keep(self: Arc<Self>, log: Log) {
        let said = |stands: Result<(), &GlobalError>| log.say(self.stands(stands));
        let mut last = self.away.as_ref().map(GlobalError::to_string);
        if let Some(why) = &self.away {
            said(Err(why));
        }
        let mut tries = interval(BEGIN_AGAIN);
        tries.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while last.is_some() {
            tries.tick().await;
            last = match self.begin().await {
                Ok(()) => None,
                Err(why) => {
                    let now = Some(why.to_string());
                    if now != last {
                        said(Err(&why));
                    }
                    now
                }
            };
            if last.is_none() {
                said(Ok(()));
            }
        }
        self.control.keep(said).await;
    }
}

async fn add_workspace(control: &Control) -> Result<(), GlobalError> {
    let change = Change::AddWorkspace { id: DEFAULT_ID.to_owned(), name: DEFAULT_NAME.to_owned() };
    match control.change(&change, ACTOR).await {
        Err(ControlError::Store(why)) => Err(why),
        // It is there.
        _ => Ok(()),
    }
}

async fn add_key(control: &Control, id: String, key: &str) -> Result<(), GlobalError> {
    let change = Change::AddKey {
        id,
        workspace: DEFAULT_ID.to_owned(),
        name: "made at the first start".to_owned(),
        digest: digest(key.as_bytes()),
        permissions: Action::everything(),
        expires_ms: None,
    };
    match control.change(&change, ACTOR).await {
        Err(ControlError::Store(why)) => Err(why),
        Err(why) => Err(GlobalError::Refused(why.to_string())),
        Ok(_) => Ok(()),
    }
}
