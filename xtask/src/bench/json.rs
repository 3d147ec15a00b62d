//! The one shape of a benchmark's JSON lines: a flat object, either a measurement or a target.

use std::iter::Peekable;
use std::str::Chars;

/// The keys of a measurement.
const MEASUREMENT: [&str; 5] = ["bench", "case", "contestant", "value", "unit"];
/// The keys of a target.
const TARGET: [&str; 5] = ["bench", "case", "target", "measured", "met"];

/// What a value is; the shape asks for nothing deeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Bool,
}

/// Whether a line has the shared shape; if not, why.
pub(super) fn check(line: &str) -> Result<(), String> {
    let pairs = object(line).ok_or("not a flat JSON object")?;
    let keys: Vec<&str> = pairs.iter().map(|(key, _)| key.as_str()).collect();
    let kind = |key: &str| pairs.iter().find(|(name, _)| name == key).map(|(_, kind)| *kind);
    let has = |wanted: &[&str]| wanted.iter().all(|key| keys.contains(key));
    if keys.len() != MEASUREMENT.len() || !(has(&MEASUREMENT) || has(&TARGET)) {
        return Err(format!("the keys are neither {MEASUREMENT:?} nor {TARGET:?}"));
    }
    for key in ["bench", "case", "contestant", "unit", "target"] {
        if kind(key).is_some_and(|kind| kind != Kind::Text) {
            return Err(format!("`{key}` is not text"));
        }
    }
    if kind("value").is_some_and(|kind| kind != Kind::Number) {
        return Err("`value` is not a number".to_owned());
    }
    if kind("met").is_some_and(|kind| kind != Kind::Bool) {
        return Err("`met` is neither true nor false".to_owned());
    }
    Ok(())
}

/// The keys of a flat object and what their values are.
fn object(line: &str) -> Option<Vec<(String, Kind)>> {
    let mut rest = line.trim().chars().peekable();
    let mut pairs = Vec::new();
    take(&mut rest, '{')?;
    loop {
        let key = text(&mut rest)?;
        take(&mut rest, ':')?;
        pairs.push((key, value(&mut rest)?));
        if take(&mut rest, ',').is_none() {
            break;
        }
    }
    take(&mut rest, '}')?;
    rest.next().is_none().then_some(pairs)
}

/// Takes `wanted`, which may have spaces around it.
fn take(rest: &mut Peekable<Chars<'_>>, wanted: char) -> Option<()> {
    while rest.next_if(|c| *c == ' ').is_some() {}
    rest.next_if(|c| *c == wanted)?;
    while rest.next_if(|c| *c == ' ').is_some() {}
    Some(())
}

/// A string, with its escapes checked but not resolved.
fn text(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    rest.next_if(|c| *c == '"')?;
    let mut found = String::new();
    loop {
        match rest.next()? {
            '"' => return Some(found),
            '\\' => match rest.next()? {
                'u' => {
                    for _ in 0..4 {
                        rest.next_if(char::is_ascii_hexdigit)?;
                    }
                }
                '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => {}
                _ => return None,
            },
            c if c < ' ' => return None,
            c => found.push(c),
        }
    }
}

/// A string, a number or a truth value.
fn value(rest: &mut Peekable<Chars<'_>>) -> Option<Kind> {
    if rest.peek() == Some(&'"') {
        return text(rest).map(|_| Kind::Text);
    }
    let mut word = String::new();
    while let Some(c) = rest.next_if(|c| c.is_ascii_alphanumeric() || "+-.".contains(*c)) {
        word.push(c);
    }
    match word.as_str() {
        "true" | "false" => Some(Kind::Bool),
        _ => is_number(&word).then_some(Kind::Number),
    }
}

/// JSON's numbers are Rust's, without `inf`, `nan`, a leading `+` or `.`, or a trailing `.`.
fn is_number(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let leading_zero = digits.len() > 1
        && digits.starts_with('0')
        && !digits.starts_with("0.")
        && !digits.starts_with("0e");
    digits.starts_with(|c: char| c.is_ascii_digit())
        && !leading_zero
        && !digits.ends_with('.')
        && !digits.contains(".e")
        && word.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_are_accepted() {
        for line in [
            r#"{"bench":"decide","case":"hot key","contestant":"us","value":12.5,"unit":"ns"}"#,
            r#"{"bench":"a", "case":"hot", "target":"<= 0.5x", "measured":"0.4x", "met":true}"#,
            r#"{"bench":"decide","case":"hot","target":"<= 0.5x","measured":4e-1,"met":false}"#,
        ] {
            assert_eq!(check(line), Ok(()), "{line}");
        }
    }

    #[test]
    fn other_shapes_are_refused() {
        for line in [
            r#"{"bench":"decide","case":"hot","contestant":"us","value":NaN,"unit":"ns"}"#,
            r#"{"bench":"decide","case":"hot","contestant":"us","value":"1","unit":"ns"}"#,
            r#"{"bench":"decide","case":"hot","contestant":"us","value":1}"#,
            r#"{"bench":"decide","case":"hot","contestant":"us","value":1,"unit":"ns"},"#,
            r#"{"bench":"decide","case":"hot","contestant":"us","value":01,"unit":"ns"}"#,
            r#"{"bench":"decide","case":"hot","target":"x","measured":1,"met":"yes"}"#,
            r#"{"bench":"de"cide","case":"hot","target":"x","measured":1,"met":true}"#,
            "{}",
        ] {
            assert!(check(line).is_err(), "{line}");
        }
    }
}
