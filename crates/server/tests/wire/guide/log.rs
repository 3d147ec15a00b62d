//! The log of `examples/simulate`: an hour of a small shop, always the same.
//!
//! Visitors, an office whose people share one address, a partner that fetches the catalogue every
//! ten minutes, somebody who copies the whole shop, and somebody who tries stolen passwords from
//! many addresses. Documentation addresses only.

/// 2026-11-10 13:00:00 UTC.
const BEGIN: u64 = 1_794_315_600;
const HOUR_S: u64 = 3_600;
const SEED: u64 = 20_261_110;

const OFFICE: &str = "198.51.100.7";
const PARTNER: &str = "203.0.113.10";
const COPIER: &str = "198.51.100.230";

const BROWSERS: [&str; 3] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 \
     Version/19.1 Safari/605.1.15",
    "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/142.0.0.0 Mobile Safari/537.36",
];

/// Lines that are no requests, and after which request they stand.
const NO_REQUESTS: [(usize, &str); 3] = [
    (1_204, "198.51.100.61 - - [10/Nov/2026:13:04:1"),
    (7_310, "2026/11/10 13:27:02 [warn] 31#31: *9120 upstream sent no valid reply"),
    (7_311, "-- log rotated --"),
];

/// One request: when it came and ended, and the rest of its line.
struct Request {
    at: u64,
    end_ms: u64,
    who: String,
    what: String,
    agent: &'static str,
}

/// Pseudo-random numbers that are the same everywhere (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// From 0 to below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick(&mut self, of: &[&'static str]) -> &'static str {
        let index = self.below(of.len().try_into().unwrap());
        of[usize::try_from(index).unwrap()]
    }
}

struct Shop {
    dice: Dice,
    requests: Vec<Request>,
}

impl Shop {
    /// Somebody asks for something, `at_ms` after the beginning.
    fn ask(&mut self, who: &str, at_ms: u64, what: (&str, &str, u64), agent: &'static str) {
        let (method, path, status) = what;
        let bytes = 400 + 100 * self.dice.below(30);
        let what = format!("\"{method} {path} HTTP/1.1\" {status} {bytes}");
        let end_ms = at_ms + 10 + self.dice.below(900);
        let at = BEGIN + at_ms / 1_000;
        self.requests.push(Request { at, end_ms, who: who.to_owned(), what, agent });
    }

    fn page(&mut self) -> String {
        match self.dice.below(5) {
            0 => "/".to_owned(),
            1 => format!("/search?q={}", self.dice.pick(&["lamp", "chair", "desk"])),
            _ => format!("/items/{}", 1 + self.dice.below(60)),
        }
    }

    /// A visit of a few pages; now and then somebody logs in.
    fn visit(&mut self, who: &str, begin_ms: u64, pages: u64) {
        let agent = self.dice.pick(&BROWSERS);
        let mut at_ms = begin_ms;
        for _ in 0..pages {
            if at_ms >= HOUR_S * 1_000 {
                return;
            }
            let page = self.page();
            self.ask(who, at_ms, ("GET", &page, 200), agent);
            if self.dice.below(25) == 0 {
                self.ask(who, at_ms + 900, ("POST", "/login", 302), agent);
            }
            at_ms += 1_000 + self.dice.below(14_000);
        }
    }

    fn visitors(&mut self) {
        for number in 0..420 {
            let who = match number {
                0..240 => format!("192.0.2.{}", number + 1),
                _ => format!("198.51.100.{}", number - 240 + 20),
            };
            for _ in 0..1 + self.dice.below(2) {
                let begin_ms = self.dice.below(HOUR_S * 1_000);
                let pages = 2 + self.dice.below(11);
                self.visit(&who, begin_ms, pages);
            }
        }
    }

    /// Sixty people behind one address; most of them look at the offers at half past one.
    fn office(&mut self) {
        for _ in 0..190 {
            let begin_ms = self.dice.below((HOUR_S - 60) * 1_000);
            let pages = 6 + self.dice.below(16);
            self.visit(OFFICE, begin_ms, pages);
        }
        for _ in 0..45 {
            let begin_ms = 30 * 60_000 + self.dice.below(60_000);
            self.visit(OFFICE, begin_ms, 12);
        }
    }

    /// Every ten minutes 220 pages of the catalogue, six a second.
    fn partner(&mut self) {
        for turn in 0..6 {
            for page in 0..220 {
                let at_ms = turn * 600_000 + 45_000 + page * 166 + self.dice.below(80);
                let path = format!("/api/v1/catalogue?page={page}");
                self.ask(PARTNER, at_ms, ("GET", &path, 200), "acme-sync/2.4");
            }
        }
    }

    /// Ten pages a second for five minutes.
    fn copier(&mut self) {
        for number in 0..3_000 {
            let at_ms = 18 * 60_000 + number * 100 + self.dice.below(90);
            let path = format!("/items/{}", 1 + number);
            self.ask(COPIER, at_ms, ("GET", &path, 200), "python-requests/2.32.5");
        }
    }

    /// Sixty addresses try eighteen passwords each.
    fn thief(&mut self) {
        for number in 0..60 {
            let who = format!("203.0.113.{}", 100 + number);
            let begin_ms = 38 * 60_000 + self.dice.below(240_000);
            for turn in 0..18 {
                let at_ms = begin_ms + turn * 20_000 + self.dice.below(15_000);
                self.ask(&who, at_ms, ("POST", "/login", 401), BROWSERS[0]);
            }
        }
    }
}

/// The whole log. Lines are written when requests end, with the time at which they came.
pub(super) fn text() -> String {
    let mut shop = Shop { dice: Dice(SEED), requests: Vec::new() };
    shop.visitors();
    shop.office();
    shop.partner();
    shop.copier();
    shop.thief();
    let mut requests = shop.requests;
    requests.sort_by(|a, b| (a.end_ms, &a.who, &a.what).cmp(&(b.end_ms, &b.who, &b.what)));
    let mut text = String::new();
    for (number, request) in requests.iter().enumerate() {
        let of_day = request.at % 86_400;
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        text.push_str(&format!(
            "{} - - [10/Nov/2026:{hour:02}:{minute:02}:{second:02} +0000] {} \"-\" \"{}\"\n",
            request.who, request.what, request.agent
        ));
        for (_, line) in NO_REQUESTS.iter().filter(|(after, _)| *after == number) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}
