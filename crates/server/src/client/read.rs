//! The limits of a batch, from wherever they are.

use std::fs::File;
use std::io::{self, Read};

use bytes::Bytes;
use serde::de::IgnoredAny;

use super::failure::Failure;
use crate::cli::LimitsArgs;

/// What a server takes at most.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// Reads the limits. Whether they are limits is for the server to say; here they have to be JSON.
pub(super) fn limits(args: &LimitsArgs) -> Result<Bytes, Failure> {
    let (what, bytes) = if let Some(json) = &args.limits_json {
        ("--limits-json".to_owned(), json.clone().into_bytes())
    } else if let Some(path) = &args.file {
        let what = path.display().to_string();
        let read = File::open(path).and_then(bounded);
        (what.clone(), read.map_err(|why| usage(&what, &why.to_string()))?)
    } else {
        let what = "standard input".to_owned();
        let read = bounded(io::stdin().lock());
        (what.clone(), read.map_err(|why| usage(&what, &why.to_string()))?)
    };
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > BODY_BYTES_MAX {
        return Err(usage(&what, "more than 1 MiB"));
    }
    match serde_json::from_slice::<Vec<IgnoredAny>>(&bytes) {
        Ok(_) => Ok(Bytes::from(bytes)),
        Err(why) => Err(usage(&what, &format!("not a JSON array: {why}"))),
    }
}

/// Reads all, and no more than it takes to see that it is too much.
fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(BODY_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn usage(what: &str, why: &str) -> Failure {
    Failure::Usage(format!("{what}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Bytes, String> {
        let limits_json = Some(json.to_owned());
        let args = LimitsArgs { limits_json, file: None, stdin: None };
        limits(&args).map_err(|why| why.to_string())
    }

    #[test]
    fn what_is_no_array_is_said_where() {
        assert_eq!(read("[{\"a\": 1}]").unwrap(), "[{\"a\": 1}]", "sent as it is");
        for (bad, said) in [
            ("[1,]", "--limits-json: not a JSON array: trailing comma at line 1 column 4"),
            ("{}", "invalid type: map"),
            ("", "EOF"),
        ] {
            let why = read(bad).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
        assert!(read(&" ".repeat((1 << 20) + 1)).unwrap_err().contains("more than 1 MiB"));
    }

    #[test]
    fn a_file_that_is_not_there_is_said() {
        let file = Some("/no/such/file.json".into());
        let why = limits(&LimitsArgs { limits_json: None, file, stdin: None }).unwrap_err();
        assert!(why.to_string().starts_with("error: /no/such/file.json: "), "{why}");
    }
}
