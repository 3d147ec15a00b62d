//! What went wrong, what it means to a script, and what a person can do about it.

use std::fmt;
use std::io;
use std::process::ExitCode;

use serde::Deserialize;

use super::words::visible;

/// Why a command came to nothing. Display is all that is printed: lines without secrets.
#[derive(Debug)]
pub(super) enum Failure {
    /// It was said wrongly, and nothing was sent.
    Usage(String),
    /// The operating system refused something.
    System(io::Error),
    /// Nobody is there.
    Unreachable { place: String, why: String, refused: bool },
    /// No answer in time.
    Late { place: String, seconds: u64 },
    /// The server said no.
    Refused(Box<Problem>),
    /// A load of which nothing was answered.
    Unanswered,
    /// The server said something that we do not understand.
    Strange(String),
}

/// What a server said is wrong.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) status: u16,
    pub(super) place: String,
    /// How long to wait, if it was said.
    pub(super) retry_after: Option<String>,
    /// `None` if it does not speak as Tidegate does.
    pub(super) said: Option<Said>,
}

/// The envelope of an error.
#[derive(Debug, Deserialize)]
pub(super) struct Said {
    meta: Option<Meta>,
    error: SaidError,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    request_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct SaidError {
    title: String,
    detail: String,
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    errors: Vec<FieldError>,
}

#[derive(Debug, Deserialize)]
struct FieldError {
    location: String,
    message: String,
    fix: Option<String>,
}

impl Failure {
    /// 2 if it was said wrongly, 3 if the same may well be done later.
    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Refused(problem) => match problem.status {
                // Too slow, under way already, too early, too often.
                408 | 409 | 425 | 429 => ExitCode::from(3),
                400..500 => ExitCode::from(2),
                _ => ExitCode::from(3),
            },
            _ => ExitCode::from(3),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) => write!(f, "error: {why}"),
            Self::System(why) => write!(f, "error: {why}"),
            Self::Unreachable { place, why, refused } => {
                write!(f, "error: cannot reach {place}: {why}")?;
                if *refused {
                    write!(
                        f,
                        "\nhint: nothing listens there. `tidegate serve` starts a server on"
                    )?;
                    write!(f, " 127.0.0.1:7600; --url or TIDEGATE_URL names another.")?;
                }
                Ok(())
            }
            Self::Late { place, seconds } => {
                write!(f, "error: {place} did not answer within {seconds} s\nhint: it may have ")?;
                write!(f, "spent what was asked for; with --idempotency-key it is safe to repeat.")
            }
            Self::Unanswered => {
                write!(f, "error: nothing was answered of what was due after the warm-up\nhint: ")?;
                write!(f, "try a lower --rate; the report says what became of the requests.")
            }
            Self::Strange(why) => write!(f, "error: the server's reply makes no sense: {why}"),
            Self::Refused(problem) => problem.fmt(f),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Said { meta, error }) = &self.said else {
            let Self { status, place, .. } = self;
            write!(
                f,
                "error: {place} answered {status}, and not as Tidegate does\nhint: is --url"
            )?;
            return write!(f, " (or TIDEGATE_URL) the address of a Tidegate?");
        };
        let (title, detail) = (visible(&error.title), visible(&error.detail));
        write!(f, "error: {title} ({}): {detail}", self.status)?;
        if let Some(id) = meta.as_ref().and_then(|meta| meta.request_id.as_deref()) {
            write!(f, " [{}]", visible(id))?;
        }
        for FieldError { location, message, fix } in &error.errors {
            write!(f, "\n  {}: {}", visible(location), visible(message))?;
            if let Some(fix) = fix {
                write!(f, "; {}", visible(fix))?;
            }
        }
        self.hint(f, &error.r#type)
    }
}

impl Problem {
    /// What to do about it, where we know more than the server said.
    fn hint(&self, f: &mut fmt::Formatter<'_>, kind: &str) -> fmt::Result {
        match self.status {
            401 => write!(
                f,
                "\nhint: set TIDEGATE_ROOT_KEY (or --root-key) to a key of this server; \
                 `tidegate key create` makes one, and servers know it within two seconds."
            ),
            403 => write!(
                f,
                "\nhint: the key must have that permission; \
                 `tidegate key create --permission …` makes one that has."
            ),
            404 if kind.ends_with("/path_not_found") => write!(
                f,
                "\nhint: {} does not know this command. Is it older than this program?",
                self.place
            ),
            404 if kind.ends_with("/ratelimit_namespace_not_found") => write!(
                f,
                "\nhint: a namespace comes to be by the first `tidegate limit` on it; \
                 `tidegate namespace list` shows those that are there."
            ),
            408 | 409 | 425 | 429 => match &self.retry_after {
                Some(seconds) => write!(f, "\nhint: try again in {} s.", visible(seconds)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, said: &str) -> Failure {
        let (place, retry_after) = ("http://x".to_owned(), Some("1".to_owned()));
        let said = serde_json::from_str(said).ok();
        Failure::Refused(Box::new(Problem { status, place, retry_after, said }))
    }

    #[test]
    fn every_wrong_field_has_its_line_and_its_fix() {
        let said = r#"{"meta":{"requestId":"req_1"},"error":{"title":"Bad Request",
            "detail":"does not fit","status":400,"type":"x/y/z","errors":[
            {"location":"body.limit","message":"is too small","fix":"send at least 1"},
            {"location":"body.cost","message":"is no number"}]}}"#;
        let lines = "error: Bad Request (400): does not fit [req_1]\n  \
                     body.limit: is too small; send at least 1\n  body.cost: is no number";
        assert_eq!(refused(400, said).to_string(), lines);
    }

    #[test]
    fn a_hint_says_what_to_do() {
        let said = |kind: &str| {
            format!(r#"{{"error":{{"title":"T","detail":"d","type":"https://x/{kind}"}}}}"#)
        };
        for (status, kind, hint) in [
            (401, "key_not_found", Some("servers know it within two seconds")),
            (403, "insufficient_permissions", Some("--permission")),
            (404, "a/path_not_found", Some("older than this program")),
            (404, "a/ratelimit_override_not_found", None),
            (404, "a/ratelimit_namespace_not_found", Some("first `tidegate limit`")),
            (409, "idempotency_in_progress", Some("in 1 s")),
            (429, "workspace_rate_limited", Some("in 1 s")),
            (500, "unexpected_error", None),
        ] {
            let shown = refused(status, &said(kind)).to_string();
            assert_eq!(shown.contains("\nhint: "), hint.is_some(), "{shown}");
            assert!(shown.contains(hint.unwrap_or_default()), "{shown}");
        }
        let other = refused(502, "<html>").to_string();
        assert!(other.contains("answered 502") && other.contains("TIDEGATE_URL"), "{other}");
    }

    #[test]
    fn what_a_server_says_cannot_move_the_cursor() {
        let said = r#"{"error":{"title":"\u001b[2J","detail":"a\nb"}}"#;
        assert_eq!(refused(400, said).to_string(), "error: \\u{1b}[2J (400): a\\u{a}b");
    }

    #[test]
    fn exit_codes_tell_whether_to_try_again() {
        let code = |failure: Failure| format!("{:?}", failure.exit_code());
        let two = format!("{:?}", ExitCode::from(2));
        let three = format!("{:?}", ExitCode::from(3));
        let place = || "x".to_owned();
        for status in [400, 401, 403, 404, 410, 422, 499] {
            assert_eq!(code(refused(status, "")), two);
        }
        for status in [302, 408, 409, 425, 429, 500, 503] {
            assert_eq!(code(refused(status, "")), three);
        }
        assert_eq!(code(Failure::Usage(place())), two);
        assert_eq!(code(Failure::Late { place: place(), seconds: 1 }), three);
        assert_eq!(code(Failure::Strange(place())), three);
        let (why, refused) = (place(), true);
        assert_eq!(code(Failure::Unreachable { place: place(), why, refused }), three);
    }
}
