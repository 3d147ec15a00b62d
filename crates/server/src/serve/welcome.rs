//! What the server says when it begins and when it ends.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tidegate::Drained;

use super::{KeyNews, Shared};
use crate::door::Door;
use crate::globe::{Database, Globe};
use crate::log::{Event, Text};

/// The address, what is kept where, and a line to try.
pub(super) struct Welcome<'a> {
    pub(super) address: SocketAddr,
    pub(super) encrypted: bool,
    /// Where metrics are, if they are anywhere.
    pub(super) admin: Option<SocketAddr>,
    pub(super) memory: usize,
    pub(super) subjects_max: usize,
    /// Where keys, namespaces and overrides are.
    pub(super) settings: &'a str,
    /// The same without the note, for programs.
    pub(super) database: &'a Database,
    pub(super) shared: &'a Shared,
    pub(super) key: &'a KeyNews,
}

impl Welcome<'_> {
    /// The same for programs, without the line to try and without a key.
    pub(super) fn events(&self) -> Vec<Event> {
        let (region, globe) = (self.shared.region.as_ref(), self.shared.globe.as_ref());
        let started = Event::Started {
            version: env!("CARGO_PKG_VERSION"),
            address: self.address,
            tls: self.encrypted,
            admin: self.admin,
            memory_bytes: whole(self.memory),
            subjects_max: whole(self.subjects_max),
            settings: Text::of(self.database),
            region: globe.map(|globe| Text::of(&globe.name)),
            region_store: region.map(Text::of),
            globe: globe.map(|globe| Text::of(&*globe.database())),
            root_key: match self.key {
                KeyNews::Made(_) | KeyNews::Filed(_) => "made",
                KeyNews::Given { .. } => "given",
                KeyNews::Known => "known",
            },
        };
        let made = match self.key {
            KeyNews::Filed(path) => Some(Event::KeyMade { path: Text::path(path) }),
            _ => None,
        };
        [started].into_iter().chain(made).collect()
    }
}

fn whole(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl fmt::Display for Welcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.encrypted { "https" } else { "http" };
        let url = format!("{scheme}://{}", reachable(self.address));
        let (memory_mib, subjects) = (self.memory >> 20, grouped(self.subjects_max));
        writeln!(f, "tidegate {} listens on {url}\n", env!("CARGO_PKG_VERSION"))?;
        writeln!(f, "  memory    {memory_mib} MiB, about {subjects} subjects")?;
        writeln!(f, "  settings  {}", self.settings)?;
        write!(f, "{}", self.shared)?;
        if let Some(admin) = self.admin {
            writeln!(f, "  metrics   http://{}/metrics", reachable(admin))?;
        }
        writeln!(f, "  root key  {}\n", self.key)?;
        writeln!(f, "Try it; of four in a minute the last is denied:\n")?;
        // Whoever has no key at hand is told how to get one, above.
        let header = match self.key {
            KeyNews::Made(key) => format!("'Authorization: Bearer {key}'"),
            _ => "\"Authorization: Bearer $TIDEGATE_ROOT_KEY\"".to_owned(),
        };
        if !self.key.is_at_hand() {
            writeln!(f, "  export TIDEGATE_ROOT_KEY=<your key>")?;
        }
        let body = r#"{"namespace":"demo","identifier":"you","limit":3,"duration":60000}"#;
        writeln!(f, "  curl -sw '\\n' {url}/v2/ratelimit.limit -H {header} -d '{body}'\n")?;
        write!(f, "Ctrl-C stops it.")
    }
}

impl fmt::Display for KeyNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The only time that a secret is on a screen: nobody else has it.
            Self::Made(key) => {
                write!(f, "{key}\n            made now and shown this once: keep it")
            }
            Self::Filed(path) => write!(f, "made now, in {}", path.display()),
            Self::Given { .. } => {
                f.write_str("as given; the line below takes it from TIDEGATE_ROOT_KEY")
            }
            Self::Known => {
                f.write_str("as it was made before; `tidegate key create` makes another")
            }
        }
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.globe, &self.region) {
            (None, None) => {}
            (None, Some(region)) => writeln!(f, "  region    {region}")?,
            (Some(Globe { name, .. }), None) => {
                writeln!(f, "  region    {name}, this process alone")?;
            }
            (Some(Globe { name, .. }), Some(region)) => {
                writeln!(f, "  region    {name}, {region}")?;
            }
        }
        self.globe.iter().try_for_each(|globe| writeln!(f, "  globe     {globe}"))
    }
}

/// What became of it all.
pub(super) struct Farewell<'a> {
    pub(super) door: &'a Door,
    pub(super) open: usize,
    pub(super) shared: &'a Shared,
    pub(super) drained: Drained,
}

impl Farewell<'_> {
    /// How many were admitted, and how many were denied for whatever reason.
    fn decided(&self) -> (u64, u64) {
        let counts = self.door.limiter().counts();
        let denied = counts.denied_local + counts.denied_reserved + counts.denied_memory;
        (counts.admitted_local + counts.admitted_granted, denied + counts.denied_outage)
    }

    /// The same for programs.
    pub(super) fn event(&self) -> Event {
        let (admitted, denied) = self.decided();
        let region = self.shared.region.as_ref();
        Event::Stopped {
            admitted,
            denied,
            refused: self.door.refused(),
            subjects: whole(self.door.limiter().subjects()),
            connections_cut: whole(self.open),
            unrecorded_cost: region.map(|_| self.drained.unreplayed_cost),
            unrecorded_subjects: region.map(|_| self.drained.subjects),
            unpublished: self.shared.globe.as_ref().map(|_| self.drained.unpublished),
        }
    }
}

impl fmt::Display for Farewell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (admitted, denied) = self.decided();
        let (refused, subjects) = (self.door.refused(), self.door.limiter().subjects());
        write!(f, "stopped: {admitted} admitted, {denied} denied, ")?;
        write!(f, "{refused} refused (bad requests); subjects in memory: {subjects}")?;
        if self.open > 0 {
            write!(f, "; connections cut off: {}", self.open)?;
        }
        if self.shared.region.is_some() {
            match self.drained {
                Drained { unreplayed_cost: 0, .. } => {
                    write!(f, "\n0 of the admitted cost is unrecorded")?;
                }
                Drained { unreplayed_cost, subjects, .. } => write!(
                    f,
                    "\n{unreplayed_cost} units of {subjects} subjects were not recorded: \
                     Redis did not answer"
                )?,
            }
        }
        match (&self.shared.globe, self.drained.unpublished) {
            (None, _) => Ok(()),
            (Some(_), 0) => write!(f, "\nother regions were told what they should know"),
            (Some(_), unpublished) => write!(
                f,
                "\nof {unpublished} totals other regions were not told: the database did not \
                 answer"
            ),
        }
    }
}

/// An address that can be called: an unspecified one is every address of this machine.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Digits in groups of three.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
