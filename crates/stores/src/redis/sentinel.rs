//! Who is the master? Asked of the Sentinels that watch it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::Pipeline;
use tidegate_convergence::StoreError;
use tokio::time::timeout;

use super::config::Address;
use super::link::{Link, unreachable};
use super::open::{CONNECT_WITHIN, read_address};

/// How often the Sentinels are asked whether the master is still the same. A master that was
/// replaced goes on for about ten seconds before it is told, and takes writes that are lost.
pub(super) const WATCH_EVERY: Duration = Duration::from_secs(1);

/// The Sentinels of one master.
#[derive(Debug)]
pub(super) struct Sentinels {
    name: String,
    links: Vec<Link>,
    /// Which of them led to the master last: it is asked first.
    first: AtomicUsize,
}

impl Sentinels {
    pub(super) fn new(name: String, links: Vec<Link>) -> Self {
        Self { name, links, first: AtomicUsize::new(0) }
    }

    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.links.len()
    }

    /// The master, as one of them sees it. Turn 0 is the one that was right last.
    pub(super) async fn told(&self, turn: usize) -> Result<Address, StoreError> {
        let link = self.links.get(self.at(turn)).ok_or_else(|| unreachable("no Sentinel"))?;
        self.ask(link).await
    }

    /// What was told in this turn was right.
    pub(super) fn was_right(&self, turn: usize) {
        // ORDER: relaxed, a hint that orders nothing.
        self.first.store(self.at(turn), Ordering::Relaxed);
    }

    /// The master that more than half of them name, if there is one. A single Sentinel may stand
    /// on the wrong side of a partition.
    pub(super) async fn majority(&self) -> Option<Address> {
        let mut told: Vec<Address> = Vec::with_capacity(self.links.len());
        for link in &self.links {
            told.extend(self.ask(link).await.ok());
        }
        let votes = |one: &Address| told.iter().filter(|other| *other == one).count();
        let most = told.iter().max_by_key(|one| votes(one))?;
        (votes(most) > self.links.len() / 2).then(|| most.clone())
    }

    fn at(&self, turn: usize) -> usize {
        // ORDER: relaxed, as above.
        let first = self.first.load(Ordering::Relaxed);
        first.wrapping_add(turn).checked_rem(self.links.len()).unwrap_or(0)
    }

    async fn ask(&self, link: &Link) -> Result<Address, StoreError> {
        let mut question = Pipeline::with_capacity(1);
        question.cmd("SENTINEL").arg("get-master-addr-by-name").arg(&self.name);
        let told = timeout(CONNECT_WITHIN, link.ask(question)).await;
        let told = told.unwrap_or_else(|_| Err(unreachable("a Sentinel does not answer")))?;
        let address = told.values.first().and_then(read_address);
        address.ok_or_else(|| unreachable("a Sentinel knows no master of that name"))
    }
}
