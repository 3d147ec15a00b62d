//! Which node of a cluster owns which shard, and the connections to them.
//!
//! A shard is one slot, so a call goes to one node, over the same kind of [`Link`] as anywhere
//! else: a node that hangs concerns its own shards only. (The cluster connection of the client
//! library holds back the calls to every node while it looks for one, and sends a whole pipeline
//! again when one command of it was redirected.)
//!
//! While a slot moves from node to node its calls are refused (`ASK`, `TRYAGAIN`), for as long as
//! that takes; what they carried is sent again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Pipeline, Value};
use tidegate_convergence::{Shard, StoreError};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::config::Address;
use super::info::hash;
use super::link::{Link, unreachable};
use super::open::{Access, CONNECT_WITHIN, Opener, Target, read_address};
use super::script::Tag;

/// How many shards a cluster has: enough to spread evenly over any cluster a region needs, few
/// enough that asking each of them once a second is nothing. Part of what the keys mean.
pub(super) const SHARDS: u16 = 64;
/// How many slots a cluster has.
const SLOTS: u16 = 16_384;
/// The least time between two looks for the owners: while a node is down every call of its
/// shards wants one.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// A cluster. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Cluster(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    access: Access,
    seeds: Vec<Address>,
    seed: u64,
    map: Mutex<Map>,
}

#[derive(Debug, Default)]
struct Map {
    /// The owner of each shard, and of the board.
    owners: BTreeMap<Tag, Address>,
    links: BTreeMap<Address, Link>,
    /// The look under way; tells when it is over.
    looking: Option<watch::Receiver<bool>>,
    /// When the next one may begin.
    next: Option<Instant>,
    /// Which node is asked first: another one each time.
    turn: usize,
}

impl Cluster {
    pub(super) fn new(access: Access, seeds: Vec<Address>, seed: u64) -> Self {
        Self(Arc::new(Shared { access, seeds, seed, map: Mutex::default() }))
    }

    /// The connection to the owner of a shard, or of the board.
    pub(super) async fn link(&self, tag: Tag) -> Result<Link, StoreError> {
        if let Some(link) = self.known(tag) {
            return Ok(link);
        }
        if let Some(mut looking) = self.look() {
            // An error means that it ended without a word, which is an end as well.
            let _ = looking.wait_for(|over| *over).await;
        }
        self.known(tag).ok_or_else(|| unreachable("no node of the cluster owns the slot"))
    }

    /// A node said that another one owns it.
    pub(super) fn moved(&self, tag: Tag, owner: Address) {
        self.map().owners.insert(tag, owner);
        self.look();
    }

    /// The owner of a shard did not answer: perhaps it no longer is.
    pub(super) fn doubt(&self) {
        self.look();
    }

    /// The owners, each with the first shard it owns, or the board.
    pub(super) async fn owners(&self) -> Result<Vec<(Address, Tag, Link)>, StoreError> {
        self.link(Tag::Board).await?;
        let owners = self.map().owners.clone();
        let mut first: BTreeMap<Address, Tag> = BTreeMap::new();
        for (tag, owner) in owners {
            first.entry(owner).or_insert(tag);
        }
        let with_link = |(owner, tag)| {
            let link = self.link_to(&owner);
            (owner, tag, link)
        };
        Ok(first.into_iter().map(with_link).collect())
    }

    fn known(&self, tag: Tag) -> Option<Link> {
        let owner = self.map().owners.get(&tag).cloned()?;
        Some(self.link_to(&owner))
    }

    fn link_to(&self, address: &Address) -> Link {
        let make = || {
            let target = Target::Fixed(address.clone());
            let seed = self.0.seed ^ hash(address.to_string().bytes());
            Link::new(Opener::new(self.0.access.clone(), target), seed)
        };
        self.map().links.entry(address.clone()).or_insert_with(make).clone()
    }

    /// Begins to look for the owners, unless that is under way or was just done.
    fn look(&self) -> Option<watch::Receiver<bool>> {
        let mut map = self.map();
        if let Some(looking) = map.looking.as_ref().filter(|looking| looking.has_changed().is_ok())
        {
            return Some(looking.clone());
        }
        let now = Instant::now();
        if map.next.is_some_and(|next| next > now) {
            return None;
        }
        map.next = now.checked_add(LOOK_PAUSE);
        map.turn = map.turn.wrapping_add(1);
        let (over, looking) = watch::channel(false);
        map.looking = Some(looking.clone());
        let (cluster, turn) = (self.clone(), map.turn);
        drop(map);
        tokio::spawn(async move {
            cluster.find(turn).await;
            cluster.map().looking = None;
            // Nobody may be waiting any more.
            let _ = over.send(true);
        });
        Some(looking)
    }

    /// Asks one node after the other who owns what, until one knows.
    async fn find(&self, turn: usize) {
        let mut nodes: Vec<Address> = self.map().owners.values().cloned().collect();
        nodes.extend(self.0.seeds.iter().cloned());
        nodes.sort();
        nodes.dedup();
        let start = turn.checked_rem(nodes.len()).unwrap_or(0);
        nodes.rotate_left(start);
        for node in nodes {
            let mut question = Pipeline::with_capacity(1);
            question.cmd("CLUSTER").arg("SLOTS");
            let link = self.link_to(&node);
            let Ok(Ok(told)) = timeout(CONNECT_WITHIN, link.ask(question)).await else { continue };
            let owners = told.values.first().map(|value| read_owners(value, &node));
            let Some(owners) = owners.filter(|owners| !owners.is_empty()) else { continue };
            let mut map = self.map();
            let seeds = &self.0.seeds;
            map.links.retain(|node, _| {
                seeds.contains(node) || owners.values().any(|owner| owner == node)
            });
            map.owners = owners;
            return;
        }
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.0.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The owners of our slots in an answer to `CLUSTER SLOTS` of that node.
fn read_owners(value: &Value, asked: &Address) -> BTreeMap<Tag, Address> {
    let Value::Array(ranges) = value else { return BTreeMap::new() };
    let ranges: Vec<_> = ranges.iter().filter_map(|range| read_range(range, asked)).collect();
    let owner = |tag| {
        let slot = i64::from(slot(tag));
        let found = ranges.iter().find(|(low, high, _)| (*low..=*high).contains(&slot));
        found.map(|(_, _, owner)| (tag, owner.clone()))
    };
    let shards = (0..SHARDS).map(|shard| Tag::Shard(Shard(shard)));
    shards.chain([Tag::Board]).filter_map(owner).collect()
}

fn read_range(range: &Value, asked: &Address) -> Option<(i64, i64, Address)> {
    let Value::Array(items) = range else { return None };
    let [Value::Int(low), Value::Int(high), owner, ..] = items.as_slice() else { return None };
    Some((*low, *high, at_asked(read_address(owner)?, asked)))
}

/// A node that does not know its own name says none: then it is where it was asked.
fn at_asked(owner: Address, asked: &Address) -> Address {
    if owner.host.is_empty() || owner.host == "?" {
        return Address { host: asked.host.clone(), port: owner.port };
    }
    owner
}

/// Reads `<slot> <host>:<port>`, the rest of a `MOVED`.
pub(super) fn read_moved(detail: &str) -> Option<Address> {
    let (_, place) = detail.split_once(' ')?;
    let (host, port) = place.trim().rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let address = Address { host, port: port.parse().ok()? };
    // Without a host we ask everyone instead.
    Some(address).filter(|address| !address.host.is_empty())
}

/// The slot of the keys that have this in their braces.
pub(super) fn slot(tag: Tag) -> u16 {
    crc16(tag.to_string().as_bytes()) % SLOTS
}

/// CRC-16/XMODEM, which clusters use.
fn crc16(bytes: &[u8]) -> u16 {
    let bit = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    bytes.iter().fold(0, |crc, byte| (0..8).fold(crc ^ (u16::from(*byte) << 8), bit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_a_cluster() {
        // The check value of the standard; real clusters are asked in the integration tests.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        let per_third = |third: u16| {
            let inside = |shard: &u16| slot(Tag::Shard(Shard(*shard))) / (SLOTS / 3 + 1) == third;
            (0..SHARDS).filter(inside).count()
        };
        assert_eq!([0, 1, 2].map(per_third), [21, 22, 21], "spread over three nodes");
    }

    #[test]
    fn owners_are_read() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let node = |host: &str, port| Value::Array(vec![text(host), Value::Int(port)]);
        let range = |low, high, node| Value::Array(vec![Value::Int(low), Value::Int(high), node]);
        let asked = Address { host: "here".to_owned(), port: 1 };
        let value =
            Value::Array(vec![range(0, 8_191, node("a", 7)), range(8_192, 16_383, node("", 8))]);
        let owners = read_owners(&value, &asked);
        assert_eq!(owners.len(), 65);
        let there = |tag: &Tag| if slot(*tag) < 8_192 { ("a", 7) } else { ("here", 8) };
        for (tag, owner) in &owners {
            assert_eq!((owner.host.as_str(), owner.port), there(tag));
        }
        assert!(read_owners(&Value::Nil, &asked).is_empty());
    }

    #[test]
    fn redirections_are_read() {
        let address = |host: &str, port| Some(Address { host: host.to_owned(), port });
        assert_eq!(read_moved("3999 127.0.0.1:6381"), address("127.0.0.1", 6381));
        assert_eq!(read_moved("3999 [::1]:6381"), address("::1", 6381));
        assert_eq!(read_moved("3999 ::1:6381"), address("::1", 6381));
        assert_eq!(read_moved("3999 :6381"), None);
        assert_eq!(read_moved("3999"), None);
    }
}
