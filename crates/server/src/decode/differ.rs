//! The plain way beside the other: what it reads is what that one reads. Texts are made from a
//! grammar that knows what this decoder is picky about, and are then damaged.

use super::{Item, json, judged, parse, plain};

/// xorshift64*: the same texts for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % most
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

const SPACES: &[&str] = &["", "", "", "", " ", "\n", "\t\r ", "\u{b}", "\u{a0}", "\u{feff}"];
const NAMES: &[&str] = &[
    "\"namespace\"",
    "\"identifier\"",
    "\"limit\"",
    "\"duration\"",
    "\"cost\"",
    "\"cursor\"",
    "\"l\\u0069mit\"",
    "\"\\u006cimit\"",
    "\"Limit\"",
    "\"limit \"",
    "\"\"",
    "\"other\"",
    "\"\\ud800\"",
    "\"\\ud83d\\ude00\"",
    "\"\\u0000\"",
    "\"$serde_json::private::RawValue\"",
    "\"$serde_json::private::Number\"",
    "\"co\\x73t\"",
    "1",
    "limit",
];
const VALUES: &[&str] = &[
    "0",
    "1",
    "-0",
    "-1",
    "00",
    "01",
    "-01",
    "+1",
    "1.",
    ".5",
    "1.0",
    "-0.0",
    "1e3",
    "1E+3",
    "1e-3",
    "1e",
    "1e999",
    "-1e999",
    "0e0",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "18446744073709551615.0",
    "-9223372036854775808",
    "-9223372036854775809",
    "-",
    "123456789012345678901234567890123456789012345678901234567890",
    "\"a\"",
    "\"\"",
    "\"\\u0061\"",
    "\"\\ud800\"",
    "\"\\udc00\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud83d\\u0041\"",
    "\"\\ud83dx\"",
    "\"\\u00\"",
    "\"\\u0000\"",
    "\"\\/\\b\\f\\n\\r\\t\\\\\\\"\"",
    "\"\\x\"",
    "\"\u{0}\"",
    "\"\n\"",
    "\"\u{7f}\"",
    "\"\u{2028}é😀\"",
    "null",
    "nul",
    "nullx",
    "true",
    "True",
    "false",
    "[]",
    "{}",
    "[1,[2,{\"a\":null}]]",
    "[1,]",
    "[,]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"\\ud800\":1}",
    "[\"\\ud800\"]",
    "{\"a\":1,\"a\":2}",
    "[1e999]",
    "NaN",
    "'a'",
];

fn object(random: &mut Random, out: &mut String, depth: usize) {
    out.push('{');
    for at in 0..random.below(8) {
        if at > 0 {
            out.push_str(random.one_of(&[",", ",", ",", ",", ",", ",", ",,", ""]));
        }
        out.push_str(random.one_of(&SPACES[..8]));
        out.push_str(random.one_of(NAMES));
        out.push_str(random.one_of(&SPACES[..8]));
        out.push(':');
        value(random, out, depth);
        out.push_str(random.one_of(&SPACES[..8]));
    }
    out.push('}');
}

fn plain_object(random: &mut Random, out: &mut String) {
    out.push('{');
    for at in 0..random.below(8) {
        out.push_str(if at > 0 { "," } else { "" });
        out.push_str(random.one_of(&NAMES[..12]));
        out.push(':');
        out.push_str(random.one_of(&[
            "1",
            "0",
            "-5",
            "18446744073709551615",
            "\"x\"",
            "\"\\u0041\"",
            "\"\\ud83d\\ude00\"",
            "null",
            "true",
            "[]",
            "{}",
            "[1e9,{\"\\ud800\":[]}]",
            "{\"a\":[[]]}",
            "1.5",
            "-0",
        ]));
    }
    out.push('}');
}

/// A check that is right, or nearly.
fn check(random: &mut Random, out: &mut String) {
    let mut fields = vec![
        ("namespace", random.one_of(&["\"n\"", "\"é \u{7f}\"", "\"\\u0061\"", "\"\""])),
        ("identifier", random.one_of(&["\"i\"", "\"😀:\"", "\"a/b\"", "\"a\\/b\""])),
        ("limit", random.one_of(&["1", "100", "1099511627776", "9223372036854775807", "0"])),
        ("duration", random.one_of(&["1000", "60000", "3600000", "2592000000", "999"])),
        ("cost", random.one_of(&["0", "1", "5", "7", "1099511627776", "1e0"])),
    ];
    // Any order, and now and then one is missing or there twice.
    for at in 0..fields.len() {
        let other = random.below(fields.len());
        fields.swap(at, other);
    }
    match random.below(12) {
        0 => drop(fields.pop()),
        1 => fields.extend_from_within(..1),
        _ => {}
    }
    out.push('{');
    for (at, (name, value)) in fields.into_iter().enumerate() {
        let space = random.one_of(&SPACES[..7]);
        let comma = if at > 0 { "," } else { "" };
        out.push_str(&format!("{comma}{space}\"{name}\"{space}:{space}{value}{space}"));
    }
    out.push('}');
}

fn checks(random: &mut Random, out: &mut String) {
    out.push('[');
    let count = if random.below(200) == 0 { 95 + random.below(12) } else { random.below(5) };
    for at in 0..count {
        out.push_str(if at > 0 { "," } else { "" });
        check(random, out);
    }
    out.push(']');
}

fn value(random: &mut Random, out: &mut String, depth: usize) {
    match random.below(8) {
        0 if depth > 0 => object(random, out, depth - 1),
        1 if depth > 0 => list(random, out, depth - 1),
        _ => out.push_str(random.one_of(VALUES)),
    }
}

fn list(random: &mut Random, out: &mut String, depth: usize) {
    out.push('[');
    let long = random.below(200) == 0;
    let count = if long { 95 + random.below(12) } else { random.below(5) };
    for at in 0..count {
        out.push_str(if at > 0 { "," } else { "" });
        match random.below(6) {
            0 if !long => value(random, out, depth),
            1 if !long => object(random, out, depth),
            _ => plain_object(random, out),
        }
    }
    out.push(']');
}

fn text(random: &mut Random) -> Vec<u8> {
    let mut out = String::new();
    out.push_str(if random.below(8) == 0 { random.one_of(SPACES) } else { "" });
    match random.below(16) {
        8..12 => check(random, &mut out),
        12.. => checks(random, &mut out),
        0 => value(random, &mut out, 3),
        1 | 2 => object(random, &mut out, 2),
        3 | 4 => plain_object(random, &mut out),
        5 => {
            let count = random.below(12);
            for _ in 0..count {
                let kind = random.below(4);
                out.push_str(match kind % 4 {
                    0 => random.one_of(&["{", "}", "[", "]", ",", ":", "\"", "\\", " "]),
                    1 => random.one_of(NAMES),
                    2 => random.one_of(VALUES),
                    _ => random.one_of(SPACES),
                });
            }
        }
        _ => list(random, &mut out, 2),
    }
    if random.below(8) == 0 {
        out.push_str(random.one_of(&[" ", "\n", "\0", "x", "}", "]", ",", "{}", "\u{feff}"]));
    }
    let mut bytes = out.into_bytes();
    for _ in 0..[0, 0, 0, 1, 1, 2, 4][random.below(7)] {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => drop(bytes.remove(at)),
            1 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
            2 => bytes.insert(at, b"\"\\{}[],:0-.eE \0\x1f\xff\xc3"[random.below(18)]),
            3 => bytes.truncate(at),
            _ => {
                let piece = bytes[at..].to_vec();
                bytes.extend(piece);
            }
        }
    }
    bytes
}

/// The item, if the other way reads one.
fn slow_item(body: &[u8]) -> Option<Item<'static>> {
    let read = json::element(Box::leak(body.into())).ok()?;
    judged(|errors| parse::item(Box::leak(Box::new(read)), "body", errors)).ok()
}

fn slow_items(body: &[u8]) -> Option<Vec<Item<'static>>> {
    let read = json::array(Box::leak(body.into())).ok()?;
    judged(|errors| parse::items(Box::leak(Box::new(read)), errors)).ok()
}

#[test]
fn what_is_plain_is_what_the_other_way_reads_of_random_texts() {
    let cases = 100_000_usize;
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut ones, mut lists) = (0_usize, 0_usize);
    for case in 0..cases {
        let body = text(&mut random);
        if let Some(item) = plain::item(&body) {
            ones += 1;
            assert_eq!(Some(item), slow_item(&body), "{case}: {}", body.escape_ascii());
        }
        if let Some(items) = plain::items(&body) {
            lists += 1;
            assert_eq!(Some(items), slow_items(&body), "{case}: {}", body.escape_ascii());
        }
    }
    assert!(ones > cases / 200 && lists > cases / 1_000, "{ones} and {lists} of {cases}");
}
