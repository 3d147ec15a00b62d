//! What the errors of MySQL and MariaDB mean to us.

use sqlx::Error;
use sqlx::mysql::MySqlDatabaseError;
use tidegate_convergence::GlobalError;

use crate::global::schema::{missing, unknown_column};
use crate::global::session::Trouble;

/// An error of the client as ours.
pub(super) fn trouble(why: &Error) -> Trouble {
    match why {
        Error::Database(said) => match said.try_downcast_ref::<MySqlDatabaseError>() {
            Some(said) => answered(said.number(), said.message()),
            None => Trouble::Lost(GlobalError::Unreachable("an unknown error".to_owned())),
        },
        Error::Configuration(why) => {
            Trouble::Lost(GlobalError::Unreachable(advice(&why.to_string())))
        }
        Error::Tls(why) => Trouble::Lost(GlobalError::Unreachable(format!("TLS: {why}"))),
        Error::Io(why) => Trouble::Lost(GlobalError::Unreachable(why.to_string())),
        // The client's own words about a value may hold the value.
        Error::ColumnDecode { .. } | Error::Decode(_) | Error::Encode(_) => {
            Trouble::Lost(GlobalError::Refused("a value that the client cannot read".to_owned()))
        }
        other => Trouble::Lost(GlobalError::Unreachable(advice(&other.to_string()))),
    }
}

/// What to do when MySQL 8 or newer does not take a password.
const ENCRYPT: &str = "MySQL 8 and newer take a password only with `?tls=true`";

fn advice(said: &str) -> String {
    if said.contains("RSA") { ENCRYPT.to_owned() } else { said.to_owned() }
}

/// A log-in with a password, unencrypted, that was refused. Over a socket the client takes the
/// wrong turn and the server finds the password wrong.
pub(super) fn advise(why: Trouble) -> Trouble {
    match why {
        Trouble::Lost(GlobalError::Unreachable(why)) if why.contains("(error 1045)") => {
            Trouble::Lost(GlobalError::Unreachable(format!("{why}; {ENCRYPT}")))
        }
        other => other,
    }
}

/// What the server said. Its own words only where they cannot hold anything that was written.
fn answered(number: u16, message: &str) -> Trouble {
    let told = format!("{message} (error {number})");
    let silent = format!("error {number} of the server");
    match number {
        // A row with this key is there.
        1062 | 1022 | 1586 => Trouble::Duplicate,
        // No such table; no such database.
        1146 => Trouble::Said(missing()),
        // No such column: one that was added since the tables were made.
        1054 => Trouble::Said(unknown_column()),
        1049 => Trouble::Lost(GlobalError::Schema(
            "the database does not exist: create it, then run `tidegate migrate`".to_owned(),
        )),
        // A deadlock; a lock that others hold; a row that changed meanwhile; a full disk; no
        // memory. Worth another try, over the same connection.
        1213 | 1205 | 1020 | 1021 | 1114 | 1037 | 1038 | 1041 => {
            Trouble::Said(GlobalError::Busy(told))
        }
        // Too many connections; a server that only reads; a node that has left its cluster. A new
        // connection may reach a better one.
        1040 | 1203 | 1226 | 1290 | 1836 | 1792 | 3100 | 3101 | 1047 => {
            Trouble::Lost(GlobalError::Busy(told))
        }
        // The server ended the statement, because it took too long.
        1969 | 3024 => Trouble::Said(GlobalError::Timeout),
        // Somebody ended the statement.
        1317 => Trouble::Said(GlobalError::Busy(told)),
        // The server ends, ended the connection, or does not let this machine in for now.
        1053 | 1927 | 4031 | 1077..=1080 | 1129 | 1152 | 1154..=1161 | 1184 => {
            Trouble::Lost(GlobalError::Unreachable(told))
        }
        // Wrong password, no right to the database, or from this machine. Whatever is sent, until
        // somebody mends it.
        1044 | 1045 | 1130 | 1698 | 1862 => Trouble::Lost(GlobalError::Unreachable(told)),
        // No right to a table or to a statement; no more ids. The same.
        1142 | 1143 | 1227 | 1370 | 1467 => Trouble::Said(GlobalError::Unreachable(told)),
        // A value that is too long.
        1406 => Trouble::Said(GlobalError::Refused(told)),
        // Too large for the server, which then hangs up.
        1153 | 1301 => Trouble::Lost(GlobalError::Refused(told)),
        // A session that does not know a prepared statement is not one that we made: something
        // between us and the server has changed it.
        1243 | 1461 | 1615 => Trouble::Lost(GlobalError::Busy(told)),
        // A trigger, a check, a value out of range, or whatever there is.
        _ => Trouble::Said(GlobalError::Refused(silent)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_pass_are_told_from_those_that_stay() {
        for (number, expected) in [
            (1213, "busy, and goes on"),
            (1205, "busy, and goes on"),
            (1290, "busy, and ends"),
            (1836, "busy, and ends"),
            (1040, "busy, and ends"),
            (1053, "unreachable, and ends"),
            (1927, "unreachable, and ends"),
            (1146, "schema, and goes on"),
            (1406, "refused, and goes on"),
            (1153, "refused, and ends"),
            (1045, "unreachable, and ends"),
            (1969, "timeout, and goes on"),
            (3024, "timeout, and goes on"),
            (1064, "refused, and goes on"),
        ] {
            let (why, then) = match answered(number, "text") {
                other @ (Trouble::Duplicate | Trouble::Unsure(_)) => unreachable!("{other:?}"),
                Trouble::Said(why) => (why, "goes on"),
                Trouble::Lost(why) => (why, "ends"),
            };
            let kind = match why {
                GlobalError::Busy(_) => "busy",
                GlobalError::Unreachable(_) => "unreachable",
                GlobalError::Schema(_) => "schema",
                GlobalError::Refused(_) => "refused",
                GlobalError::Timeout => "timeout",
                other => unreachable!("{other:?}"),
            };
            assert_eq!(format!("{kind}, and {then}"), expected, "{number}");
        }
    }

    #[test]
    fn what_was_written_is_not_repeated() {
        for number in [1062, 1064, 1292, 1366, 1264, 9999] {
            let told = answered(number, "near 'a secret'").into_error().to_string();
            assert!(!told.contains("secret"), "{number}: {told}");
        }
    }

    #[test]
    fn a_log_in_that_needs_encryption_says_so() {
        let why = Error::Configuration("RSA auth backend disabled".into());
        assert!(trouble(&why).into_error().to_string().contains("?tls=true"));
    }
}
