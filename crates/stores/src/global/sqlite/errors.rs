//! What the errors of SQLite mean to us.

use sqlx::Error;
use tidegate_convergence::GlobalError;

use crate::global::schema::{missing, unknown_column};
use crate::global::session::Trouble;

/// An error of the client as ours.
pub(super) fn trouble(why: &Error) -> Trouble {
    match why {
        Error::Database(said) => {
            let code = said.code().and_then(|code| code.parse().ok()).unwrap_or(0);
            answered(code, said.message())
        }
        Error::ColumnDecode { .. } | Error::Decode(_) | Error::Encode(_) => {
            Trouble::Lost(GlobalError::Refused("a value that the client cannot read".to_owned()))
        }
        other => Trouble::Lost(GlobalError::Unreachable(other.to_string())),
    }
}

/// What SQLite said: the low byte of its code is the kind. Its words name tables, never values.
fn answered(code: u32, message: &str) -> Trouble {
    let told = format!("{message} (code {code})");
    match code & 0xff {
        // There is no code of its own for it.
        1 if message.starts_with("no such table") => Trouble::Said(missing()),
        // One that was added since the tables were made.
        1 if message.starts_with("no such column") || message.contains("has no column named") => {
            Trouble::Said(unknown_column())
        }
        // A constraint: of a unique column, or of the primary key.
        19 if matches!(code, 2067 | 1555) => Trouble::Duplicate,
        // Somebody else writes; the disk is full; the file is read-only.
        5 | 6 | 13 => Trouble::Said(GlobalError::Busy(told)),
        8 => Trouble::Lost(GlobalError::Busy(told)),
        // No such directory, no right to it, or the disk fails.
        3 | 10 | 14 => Trouble::Lost(GlobalError::Unreachable(told)),
        // Not a database, or a broken one.
        11 | 26 => Trouble::Lost(GlobalError::Schema(told)),
        9 => Trouble::Said(GlobalError::Timeout),
        _ => Trouble::Said(GlobalError::Refused(told)),
    }
}
