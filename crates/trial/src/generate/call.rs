//! Who makes a made-up call, and what it asks for.

use std::fmt::Write as _;

use tidegate_sim::Chance;

use super::shape::Crowd;
use super::{GenerateOptions, Traffic};

/// The fields of a made-up call.
pub(super) const FIELDS: [&str; 7] = ["ip", "method", "path", "user", "status", "agent", "region"];

/// What is asked for: method, path, and whether it has the number of something at its end.
const PAGES: [(&str, &str, bool); 8] = [
    ("GET", "/", false),
    ("GET", "/api/v1/items", false),
    ("GET", "/api/v1/items/", true),
    ("POST", "/api/v1/items", false),
    ("GET", "/api/v1/orders/", true),
    ("POST", "/api/v1/orders", false),
    ("GET", "/search", false),
    ("POST", "/login", false),
];
const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15",
    "curl/8.9.1",
    "okhttp/4.12.0",
];
/// Whoever tries passwords says that it is this.
const ATTACK_AGENT: &str = "python-requests/2.32.3";
/// How many hug a window, if there are so many at all.
const FEW: u64 = 10;
/// One address in this many takes part in an attack.
const ATTACKERS_PART: u64 = 100;

/// A made-up call. It is filled again and again.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) at_unix_ms: u64,
    /// Where it comes from, as [`Call::origin`](crate::Call::origin).
    pub(super) origin: u64,
    /// By the order of [`FIELDS`].
    values: [String; 7],
}

/// What a call is about, before it is written down.
struct About {
    caller: u64,
    user: Option<u64>,
    page: (&'static str, &'static str, bool),
    status: &'static str,
    agent: &'static str,
}

impl Made {
    /// The value of a field, if it has one.
    pub(super) fn get(&self, place: usize) -> Option<&str> {
        self.values.get(place).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The value of a field by its name.
    pub(super) fn named(&self, name: &str) -> Option<&str> {
        self.get(FIELDS.iter().position(|it| *it == name)?)
    }

    /// Makes the next call.
    pub(super) fn make(
        &mut self,
        options: &GenerateOptions,
        (number, at_unix_ms, crowd): (u64, u64, Crowd),
        chance: &mut Chance,
    ) {
        let attack = crowd == Crowd::Attack && chance.below(3) < 2;
        let about = match attack {
            true => attacker(options, chance),
            false => visitor(caller(options, crowd, chance), chance),
        };
        // Who hops comes from the next region each time; all others stay where they are.
        let from = match options.traffic {
            Traffic::RegionHopping => number,
            _ => about.caller,
        };
        self.at_unix_ms = at_unix_ms;
        self.origin = from % options.regions;
        self.write(&about, chance);
    }

    fn write(&mut self, about: &About, chance: &mut Chance) {
        let About { caller, user, page: (verb, route, numbered), status: code, agent: browser } =
            *about;
        let region_number = self.origin;
        let [ip, method, path, user_name, status, agent, region] = &mut self.values;
        for value in [&mut *ip, method, path, user_name, status, agent, region] {
            value.clear();
        }
        let [.., a, b, c] = caller.to_be_bytes();
        // A private network has sixteen million addresses; whoever is beyond them has six.
        let _ = match caller >> 24 {
            0 => write!(ip, "10.{a}.{b}.{c}"),
            more => write!(ip, "2001:db8::{more:x}:{:x}", caller & 0xff_ffff),
        };
        method.push_str(verb);
        path.push_str(route);
        if numbered {
            let _ = write!(path, "{}", chance.below(1_000));
        }
        if let Some(user) = user {
            let _ = write!(user_name, "user-{user}");
        }
        status.push_str(code);
        agent.push_str(browser);
        let _ = write!(region, "region-{region_number}");
    }
}

/// Who sends, of a crowd.
fn caller(options: &GenerateOptions, crowd: Crowd, chance: &mut Chance) -> u64 {
    let all = options.identifiers;
    match crowd {
        Crowd::One(number) if chance.percent(90) => {
            Chance::new(options.seed ^ number, "who").below(all)
        }
        Crowd::Few => chance.below(FEW.min(all)),
        // Half of the calls are of everybody alike, half of them of a few.
        _ if chance.percent(50) => chance.below(all),
        _ => chance.skewed(1, all) - 1,
    }
}

/// Somebody who uses what there is.
fn visitor(caller: u64, chance: &mut Chance) -> About {
    let page = chance.of(&PAGES).unwrap_or(("GET", "/", false));
    let status = match chance.below(100) {
        0..2 => "404",
        2 => "500",
        _ => "200",
    };
    // Two in three are somebody we know, and who it is goes by its address.
    let user = (!caller.is_multiple_of(3)).then_some(caller);
    let agents = AGENTS.len() as u64;
    let agent = usize::try_from(caller % agents).ok().and_then(|at| AGENTS.get(at));
    About { caller, user, page, status, agent: agent.copied().unwrap_or("-") }
}

/// Somebody who tries the password of somebody else. One in two hundred fits.
fn attacker(options: &GenerateOptions, chance: &mut Chance) -> About {
    let pool = (options.identifiers / ATTACKERS_PART).clamp(1, options.identifiers);
    // Behind everybody else: these addresses do nothing but this.
    let caller = options.identifiers + chance.below(pool);
    let user = Some(chance.below(options.identifiers));
    let status = if chance.below(200) == 0 { "200" } else { "401" };
    About { caller, user, page: ("POST", "/login", false), status, agent: ATTACK_AGENT }
}
