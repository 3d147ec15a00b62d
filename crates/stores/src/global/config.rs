//! Where a MySQL is and how to get in, from one line of text.

use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

use crate::redis::config::decode;
use crate::redis::{Address, Password, Tls};

/// The port of MySQL when none is named.
const PORT: u16 = 3306;
/// The longest name of a database that servers take.
const DATABASE_MAX: usize = 64;

/// Everything needed to reach a MySQL or a MariaDB.
///
/// ```
/// use tidegate_stores::MysqlConfig;
///
/// let far = MysqlConfig::parse("mysql://tidegate:secret@db.example:3307/limits")?;
/// assert_eq!((far.address.port, far.database.as_str()), (3307, "limits"));
/// let near = MysqlConfig::parse("mysql://tidegate@localhost/limits?socket=/run/mysqld.sock")?;
/// assert!(near.socket.is_some());
/// assert!(!format!("{far:?}").contains("secret"));
/// # Ok::<(), tidegate_stores::MysqlConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MysqlConfig {
    /// The server. With a socket, only the name that its certificate must have.
    pub address: Address,
    /// The Unix socket of a server on this machine.
    pub socket: Option<PathBuf>,
    /// Who we are.
    pub user: String,
    /// The password.
    pub password: Option<Password>,
    /// The database that holds our tables.
    pub database: String,
    /// Encryption. Trusts the authorities that Mozilla trusts, and those that are named here. MySQL
    /// 8 and newer take a password in no other way, not even over a socket.
    pub tls: Option<Tls>,
    /// A file of authorities, in PEM, that are trusted too; read for each connection. Not if `tls`
    /// names some.
    pub ca: Option<PathBuf>,
}

/// What is wrong with a configuration. Never shows the text itself: it may hold a password.
///
/// ```
/// use tidegate_stores::{MysqlConfig, MysqlConfigError};
///
/// let why = MysqlConfig::parse("mysql://tidegate:secret@db.example").unwrap_err();
/// assert_eq!(why, MysqlConfigError::Database);
/// assert!(!why.to_string().contains("secret"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MysqlConfigError {
    /// Another scheme.
    #[error("the address must begin with mysql://")]
    Scheme,
    /// `tls=true`, in a build that cannot encrypt.
    #[error("this build has no TLS: enable the feature `tls`")]
    NoTls,
    /// A host or a port.
    #[error("the address has no valid host and port")]
    Address,
    /// Nobody.
    #[error("the address names no user: mysql://user:password@host/database")]
    User,
    /// No database, or none that a server would take.
    #[error("the path must be the name of a database: mysql://user:password@host/database")]
    Database,
    /// A parameter that does not exist, twice, or with a bad value.
    #[error("the parameters are `socket=<path>`, `tls=true` and with it `ca=<path>`, each once")]
    Parameter,
    /// A `%` that is not followed by two hexadecimal digits.
    #[error("a `%` must be followed by two hexadecimal digits")]
    Percent,
}

impl MysqlConfig {
    /// Reads `mysql://user[:password]@host[:port]/database[?tls=true][&ca=/path][&socket=/path]`.
    /// The [type](Self) has an example.
    ///
    /// # Errors
    /// Says which part is wrong, without showing it.
    pub fn parse(url: &str) -> Result<Self, MysqlConfigError> {
        let rest = url.strip_prefix("mysql://").ok_or(MysqlConfigError::Scheme)?;
        // A password may hold an `@`, a `/` or a `?` only as `%40`, `%2F` and `%3F`, but people
        // forget, and the path of a socket has slashes.
        let (login, rest) = rest.rsplit_once('@').ok_or(MysqlConfigError::User)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, database) = rest.split_once('/').ok_or(MysqlConfigError::Database)?;
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(Password::new(plain(password)?))),
            None => (login, None),
        };
        let address = Address::parse(host, PORT).map_err(|_| MysqlConfigError::Address)?;
        let (user, database) = (plain(user)?, plain(database)?);
        let (socket, tls, ca) = (None, None, None);
        let mut config = Self { address, socket, user, password, database, tls, ca };
        config.read_parameters(query)?;
        config.check()?;
        Ok(config)
    }

    fn read_parameters(&mut self, query: &str) -> Result<(), MysqlConfigError> {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(MysqlConfigError::Parameter)?;
            match (name, plain(value)?.as_str()) {
                ("socket", path) if self.socket.is_none() && path.starts_with('/') => {
                    self.socket = Some(PathBuf::from(path));
                }
                ("tls", "true") if self.tls.is_none() => self.tls = Some(Tls::default()),
                ("ca", path) if self.ca.is_none() && path.starts_with('/') => {
                    self.ca = Some(PathBuf::from(path));
                }
                _ => return Err(MysqlConfigError::Parameter),
            }
        }
        Ok(())
    }

    /// Whether what was set by hand makes sense.
    pub(super) fn check(&self) -> Result<(), MysqlConfigError> {
        if self.user.is_empty() {
            return Err(MysqlConfigError::User);
        }
        if !(1..=DATABASE_MAX).contains(&self.database.len()) || self.database.contains('/') {
            return Err(MysqlConfigError::Database);
        }
        if self.ca.is_some() && self.tls.is_none() {
            return Err(MysqlConfigError::Parameter);
        }
        if self.tls.is_some() && !cfg!(feature = "tls") {
            return Err(MysqlConfigError::NoTls);
        }
        Ok(())
    }
}

impl FromStr for MysqlConfig {
    type Err = MysqlConfigError;

    fn from_str(url: &str) -> Result<Self, MysqlConfigError> {
        Self::parse(url)
    }
}

fn plain(text: &str) -> Result<String, MysqlConfigError> {
    decode(text).map_err(|_| MysqlConfigError::Percent)
}

#[cfg(test)]
mod tests;
