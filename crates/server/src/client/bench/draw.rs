//! Who asks: identifiers, drawn at random and the same in every run.

use std::io::Write;

use bytes::Bytes;

use crate::cli::AskedArgs;

/// What the draws begin with. Always the same, so that two runs ask for the same.
const SEED: u64 = 0x7469_6465_6761_7465;

/// Makes the bodies of requests.
#[derive(Debug)]
pub(super) struct Bodies {
    /// What stands before and behind the number of an identifier.
    before: Vec<u8>,
    after: Vec<u8>,
    batch: Option<u32>,
    crowd: Crowd,
}

/// How identifiers are drawn.
#[derive(Debug)]
enum Crowd {
    Uniform(u32),
    /// The shares of the first, the first two, and so on; the last is 1.
    Zipf(Vec<f64>),
}

impl Bodies {
    pub(super) fn new(args: &AskedArgs) -> Self {
        let namespace = serde_json::to_string(&args.namespace).unwrap_or_default();
        let AskedArgs { limit, window, cost, .. } = args;
        let crowd = match args.zipf {
            Some(exponent) => Crowd::Zipf(shares(args.identifiers, exponent)),
            None => Crowd::Uniform(args.identifiers),
        };
        Self {
            before: format!(r#"{{"namespace":{namespace},"identifier":"user-"#).into_bytes(),
            after: format!(r#"","limit":{limit},"duration":{window},"cost":{cost}}}"#).into_bytes(),
            batch: args.batch,
            crowd,
        }
    }

    /// Where they are sent.
    pub(super) const fn path(&self) -> &'static str {
        match self.batch {
            Some(_) => "/v2/ratelimit.multiLimit",
            None => "/v2/ratelimit.limit",
        }
    }

    /// The body of the request with that number.
    pub(super) fn body(&self, number: u64) -> Bytes {
        let mut random = mixed(SEED ^ number);
        let mut draw = || {
            random = mixed(random);
            self.crowd.at(random)
        };
        let mut body = Vec::new();
        let Some(batch) = self.batch else {
            self.write(&mut body, draw());
            return Bytes::from(body);
        };
        body.push(b'[');
        for index in 0..batch {
            if index > 0 {
                body.push(b',');
            }
            self.write(&mut body, draw());
        }
        body.push(b']');
        Bytes::from(body)
    }

    fn write(&self, body: &mut Vec<u8>, identifier: usize) {
        body.extend_from_slice(&self.before);
        // Writing into memory does not fail.
        let _ = write!(body, "{identifier}");
        body.extend_from_slice(&self.after);
    }
}

impl Crowd {
    fn at(&self, random: u64) -> usize {
        match self {
            Self::Uniform(identifiers) => {
                let scaled = (u128::from(random) * u128::from(*identifiers)) >> 64;
                usize::try_from(scaled).unwrap_or(usize::MAX)
            }
            Self::Zipf(shares) => {
                // 53 bits are what such a number holds.
                let share = (random >> 11) as f64 / (1_u64 << 53) as f64;
                let index = shares.partition_point(|upto| *upto <= share);
                index.min(shares.len().saturating_sub(1))
            }
        }
    }
}

fn shares(identifiers: u32, exponent: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let mut shares: Vec<f64> = (1..=identifiers)
        .map(|rank| {
            sum += f64::from(rank).powf(-exponent);
            sum
        })
        .collect();
    shares.iter_mut().for_each(|share| *share /= sum);
    shares
}

/// Spreads a number over all 64 bits (SplitMix64).
const fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bodies(identifiers: u32, zipf: Option<f64>, batch: Option<u32>) -> Bodies {
        let namespace = "a \"b\"".to_owned();
        let (limit, window, cost) = (7, 60_000, 2);
        Bodies::new(&AskedArgs { namespace, identifiers, zipf, limit, window, cost, batch })
    }

    /// How often each identifier is drawn.
    fn drawn(crowd: &Crowd, identifiers: usize, draws: u64) -> Vec<u64> {
        let mut drawn = vec![0; identifiers];
        (0..draws).for_each(|number| drawn[crowd.at(mixed(number))] += 1);
        drawn
    }

    #[test]
    fn a_body_is_what_the_api_takes() {
        let one: Value = serde_json::from_slice(&bodies(1, None, None).body(3)).unwrap();
        let item = json!({"namespace": "a \"b\"", "identifier": "user-0",
            "limit": 7, "duration": 60_000, "cost": 2});
        assert_eq!(one, item);
        let two: Value = serde_json::from_slice(&bodies(1, None, Some(2)).body(3)).unwrap();
        assert_eq!(two, json!([item, item]));
    }

    #[test]
    fn the_same_number_asks_for_the_same() {
        let (one, other) = (bodies(1_000, None, Some(3)), bodies(1_000, None, Some(3)));
        assert_eq!(one.body(5), other.body(5));
        assert_ne!(one.body(5), one.body(6));
    }

    #[test]
    fn all_are_drawn_alike() {
        for count in drawn(&bodies(10, None, None).crowd, 10, 100_000) {
            assert!((9_500..10_500).contains(&count), "{count}");
        }
    }

    #[test]
    fn the_second_of_a_zipf_crowd_comes_half_as_often_as_the_first() {
        let counts = drawn(&bodies(100, Some(1.0), None).crowd, 100, 200_000);
        let share = |index: usize| counts[index] as f64 / counts[0] as f64;
        for (index, expected) in [(1, 0.5), (3, 0.25), (9, 0.1)] {
            assert!((share(index) - expected).abs() < 0.02, "{index}: {}", share(index));
        }
        assert!(counts.iter().all(|count| *count > 0));
        let flat = drawn(&bodies(10, Some(0.0), None).crowd, 10, 100_000);
        assert!(flat.iter().all(|count| (9_500..10_500).contains(count)), "{flat:?}");
    }
}
