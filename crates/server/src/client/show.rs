//! Replies in words.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::failure::Failure;
use super::http::strange;
use super::words::{exactly, in_words, visible};

/// The answer to one request.
#[derive(Debug, Deserialize)]
pub(super) struct Limited {
    pub(super) success: bool,
    #[serde(flatten)]
    room: Room,
}

/// The answer to several.
#[derive(Debug, Deserialize)]
pub(super) struct Batch {
    pub(super) passed: bool,
    limits: Vec<Item>,
}

#[derive(Debug, Deserialize)]
struct Item {
    namespace: String,
    identifier: String,
    passed: bool,
    #[serde(flatten)]
    room: Room,
}

/// How much room a limit has.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Room {
    limit: u64,
    remaining: u64,
    reset: u64,
    override_id: Option<String>,
    retry_after_ms: Option<u64>,
    reason: Option<String>,
    #[serde(default)]
    degraded: bool,
    mode: Option<String>,
}

/// What setting an override gives.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetOverride {
    pub(super) override_id: String,
}

/// One override.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Override {
    override_id: String,
    identifier: String,
    limit: u64,
    duration: u64,
}

/// Overrides, one on a line.
pub(super) struct Overrides<'a>(pub(super) &'a [Override]);

/// Reads overrides.
pub(super) fn overrides(all: &[Value]) -> Result<Vec<Override>, Failure> {
    all.iter().map(|one| Override::deserialize(one).map_err(strange)).collect()
}

/// A page of overrides, and where the next one begins.
pub(super) struct Page<'a> {
    pub(super) overrides: &'a [Override],
    pub(super) next: Option<&'a str>,
}

impl Limited {
    pub(super) fn shown(&self, now_ms: u64, replayed: bool) -> String {
        let verdict = if self.success { "admitted" } else { "denied" };
        let room = self.room.shown(self.success, now_ms);
        format!("{verdict}: {room}{}", as_before(replayed))
    }
}

impl Batch {
    pub(super) fn shown(&self, now_ms: u64, replayed: bool) -> String {
        let (count, again) = (self.limits.len(), as_before(replayed));
        let without = self.limits.iter().filter(|item| !item.passed).count();
        let mut text = match self.passed {
            true => format!("admitted: {count} of {count} limits have room{again}"),
            false => format!(
                "denied: {without} of {count} limits have no room; nothing was spent{again}"
            ),
        };
        for item in &self.limits {
            let verdict = match (item.passed, self.passed) {
                (true, true) => "admitted",
                (true, false) => "has room",
                (false, _) => "no room ",
            };
            let (namespace, identifier) = (visible(&item.namespace), visible(&item.identifier));
            let room = item.room.shown(item.passed, now_ms);
            text.push_str(&format!("\n  {verdict}  {namespace} {identifier}: {room}"));
        }
        text
    }
}

impl Room {
    fn shown(&self, fits: bool, now_ms: u64) -> String {
        let Self { limit, remaining, .. } = self;
        let left = format!("{remaining} of {limit} left");
        let mut text = match (fits, self.reason.as_deref(), self.retry_after_ms) {
            (true, ..) => {
                format!(
                    "{left}, the window ends in {}",
                    in_words(self.reset.saturating_sub(now_ms))
                )
            }
            (false, Some("reserved"), _) => {
                "a batch that is under way holds the room, come back at once".to_owned()
            }
            (false, Some("memory"), Some(ms)) => {
                format!("the server has no memory left, come back in {}", in_words(ms))
            }
            (false, _, Some(ms)) => format!("{left}, come back in {}", in_words(ms)),
            (false, _, None) => format!("this cost never fits under a limit of {limit}"),
        };
        if let Some(id) = &self.override_id {
            text.push_str(&format!(", by the override {}", visible(id)));
        }
        if let Some(mode) = self.mode.as_deref().filter(|mode| *mode != "enforce") {
            text.push_str(&format!(", in mode {}", visible(mode)));
        }
        if self.degraded {
            text.push_str(", decided without the region");
        }
        text
    }
}

fn as_before(replayed: bool) -> &'static str {
    if replayed {
        " (the reply to the first call with this key; nothing more was spent)"
    } else {
        ""
    }
}

impl fmt::Display for Overrides<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 3]> = self.0.iter().map(Override::columns).collect();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let (first, second) = (width(0), width(1));
        for (turn, [identifier, what, id]) in rows.iter().enumerate() {
            let end = if turn > 0 { "\n" } else { "" };
            write!(f, "{end}{identifier:first$}  {what:second$}  {id}")?;
        }
        Ok(())
    }
}

impl Override {
    fn columns(&self) -> [String; 3] {
        let Self { override_id, identifier, limit, duration } = self;
        let what = format!("{limit} per {}", exactly(*duration));
        [visible(identifier).to_string(), what, visible(override_id).to_string()]
    }
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.overrides.is_empty() {
            f.write_str("there are no overrides")?;
        }
        write!(f, "{}", Overrides(self.overrides))?;
        match self.next {
            Some(next) => write!(f, "\nthere are more: --cursor {}", visible(next)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn limited(mut with: Value) -> String {
        let mut data = json!({"limit": 10, "remaining": 3, "reset": NOW_MS + 41_000});
        data.as_object_mut().unwrap().append(with.as_object_mut().unwrap());
        serde_json::from_value::<Limited>(data).unwrap().shown(NOW_MS, false)
    }

    #[test]
    fn an_answer_is_one_clear_line() {
        for (data, line) in [
            (json!({"success": true}), "admitted: 3 of 10 left, the window ends in 41 s"),
            (
                json!({"success": true, "reset": 5}),
                "admitted: 3 of 10 left, the window ends in 0 ms",
            ),
            (
                json!({"success": false, "remaining": 0, "retryAfterMs": 1_200}),
                "denied: 0 of 10 left, come back in 2 s",
            ),
            (json!({"success": false}), "denied: this cost never fits under a limit of 10"),
            (
                json!({"success": false, "reason": "reserved", "retryAfterMs": 0}),
                "denied: a batch that is under way holds the room, come back at once",
            ),
            (
                json!({"success": false, "reason": "memory", "retryAfterMs": 120_000}),
                "denied: the server has no memory left, come back in 2 min",
            ),
            (
                json!({"success": true, "overrideId": "rlor_1", "degraded": true, "mode": "shadow",
                       "source": "local", "ageMs": 7, "new": {}}),
                "admitted: 3 of 10 left, the window ends in 41 s, by the override rlor_1, \
                 in mode shadow, decided without the region",
            ),
        ] {
            assert_eq!(limited(data), line);
        }
    }

    #[test]
    fn an_answer_of_before_is_said_to_be_one() {
        let data = json!({"limit": 1, "remaining": 0, "reset": NOW_MS, "success": true});
        let shown = serde_json::from_value::<Limited>(data).unwrap().shown(NOW_MS, true);
        assert!(shown.ends_with("nothing more was spent)"), "{shown}");
    }

    #[test]
    fn a_batch_has_a_line_for_each_limit() {
        let item = |identifier: &str, passed: bool| {
            json!({"namespace": "n", "identifier": identifier, "limit": 5, "passed": passed,
                   "remaining": if passed { 2 } else { 0 }, "reset": NOW_MS + 1_000,
                   "retryAfterMs": if passed { Value::Null } else { json!(3_000) }})
        };
        let shown = |passed: bool, items: Value| {
            let data = json!({"passed": passed, "limits": items});
            serde_json::from_value::<Batch>(data).unwrap().shown(NOW_MS, false)
        };
        assert_eq!(
            shown(true, json!([item("a", true), item("b\u{7}", true)])),
            "admitted: 2 of 2 limits have room\n  \
             admitted  n a: 2 of 5 left, the window ends in 1 s\n  \
             admitted  n b\\u{7}: 2 of 5 left, the window ends in 1 s"
        );
        assert_eq!(
            shown(false, json!([item("a", true), item("b", false)])),
            "denied: 1 of 2 limits have no room; nothing was spent\n  \
             has room  n a: 2 of 5 left, the window ends in 1 s\n  \
             no room   n b: 0 of 5 left, come back in 3 s"
        );
    }

    #[test]
    fn overrides_stand_in_columns() {
        let one = |identifier: &str, limit: u64, duration: u64| Override {
            override_id: "rlor_1".to_owned(),
            identifier: identifier.to_owned(),
            limit,
            duration,
        };
        let all = [one("premium_*", 1_000, 3_600_000), one("bob", 0, 1_500)];
        let page = |overrides, next| Page { overrides, next }.to_string();
        let lines = "premium_*  1000 per 1h   rlor_1\nbob        0 per 1500ms  rlor_1";
        assert_eq!(page(&all, None), lines);
        assert_eq!(page(&all, Some("x")), format!("{lines}\nthere are more: --cursor x"));
        assert_eq!(page(&[], None), "there are no overrides");
    }
}
