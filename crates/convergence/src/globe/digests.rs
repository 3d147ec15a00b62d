//! Things that are known by the digest of their subject, in the order of digests.
//!
//! Digests are as good as random, so their first bits say where they lie: each step to one goes by
//! four bits, and the last ends at a short list. A search tree compares on each of its levels, in
//! memory that no cache holds while a process hears of thousands of subjects it does not serve.

use tidegate_limiter::Digest;

/// Bits of a digest that a step goes by.
const STEP_BITS: u32 = 4;
const WAYS: usize = 1 << STEP_BITS;
/// Most entries of a list. With one more it becomes sixteen lists. (One of them may hold all of it,
/// and becomes sixteen with the next entry.)
const LIST_MAX: usize = 24;
/// Entries that a full list makes room for. Doubling would leave a third of the memory unused.
const LIST_ROOM: usize = 2;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Digests<T> {
    root: Node<T>,
}

#[derive(Clone, Debug)]
enum Node<T> {
    List(List<T>),
    /// By the next bits of the digest.
    Fork(Box<[Self; WAYS]>),
}

/// In the order of the digests.
#[derive(Clone, Debug)]
struct List<T>(Vec<(Digest, T)>);

/// A digest, and how many of its bits are still to be gone by.
#[derive(Clone, Copy, Debug)]
struct Way {
    digest: Digest,
    left: u32,
}

impl Way {
    const fn to(digest: Digest) -> Self {
        Self { digest, left: u128::BITS }
    }

    /// Goes a step: says where to, and what is left.
    fn step(self) -> (usize, Self) {
        let left = self.left.saturating_sub(STEP_BITS);
        let bits = u128::from_be_bytes(*self.digest.as_bytes()) >> left;
        (usize::try_from(bits % WAYS as u128).unwrap_or(0), Self { left, ..self })
    }
}

impl<T> Default for Digests<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Digests<T> {
    pub(super) const fn new() -> Self {
        Self { root: Node::List(List::new()) }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let mut len = 0;
        self.each(|_| len += 1);
        len
    }

    pub(super) fn get(&self, digest: Digest) -> Option<&T> {
        let (mut node, mut way) = (&self.root, Way::to(digest));
        loop {
            match node {
                Node::Fork(ways) => {
                    let (at, rest) = way.step();
                    (node, way) = (ways.get(at)?, rest);
                }
                Node::List(list) => {
                    let at = list.find(digest).ok()?;
                    return list.0.get(at).map(|(_, thing)| thing);
                }
            }
        }
    }

    /// Shows what there is of a digest; if that is nothing, keeps what is given for it.
    pub(super) fn meet<R>(
        &mut self,
        digest: Digest,
        see: impl FnOnce(Option<&mut T>) -> (Option<T>, R),
    ) -> R {
        self.root.meet(Way::to(digest), see)
    }

    /// Says whether there was nothing of this digest.
    pub(super) fn insert(&mut self, digest: Digest, thing: T) -> bool {
        self.meet(digest, |held| match held {
            Some(held) => {
                *held = thing;
                (None, false)
            }
            None => (Some(thing), true),
        })
    }

    pub(super) fn remove(&mut self, digest: Digest) {
        self.root.remove(Way::to(digest));
    }

    /// Looks at the next few from this digest on, and removes those that are not to be kept. Says
    /// where to go on; `None` if these were the last.
    pub(super) fn retain_some(
        &mut self,
        from: Digest,
        most: usize,
        mut keep: impl FnMut(&T) -> bool,
    ) -> Option<Digest> {
        let (mut left, mut next, mut gone) = (most, None, Vec::new());
        self.walk(from, |digest, thing| {
            if left == 0 {
                next = Some(digest);
                return false;
            }
            left -= 1;
            if !keep(thing) {
                gone.push(digest);
            }
            true
        });
        for digest in gone {
            self.remove(digest);
        }
        next
    }

    /// Removes some of the first, about as many as a list holds: none only if there is none.
    pub(super) fn take_some(&mut self) -> Vec<(Digest, T)> {
        self.root.take_some()
    }

    /// Shows all from this digest on, in order, for as long as that is wanted.
    pub(super) fn walk(&self, from: Digest, mut see: impl FnMut(Digest, &T) -> bool) {
        self.root.walk(Some(Way::to(from)), &mut see);
    }

    /// All, in order.
    pub(super) fn each(&self, mut see: impl FnMut(&T)) {
        self.root.walk(None, &mut |_, thing| {
            see(thing);
            true
        });
    }
}

impl<T> Node<T> {
    fn meet<R>(&mut self, way: Way, see: impl FnOnce(Option<&mut T>) -> (Option<T>, R)) -> R {
        let list = match self {
            Self::Fork(ways) => {
                let (at, rest) = way.step();
                return at_mut(ways, at).meet(rest, see);
            }
            Self::List(list) => list,
        };
        let at = match list.find(way.digest) {
            Ok(at) => return see(list.0.get_mut(at).map(|(_, thing)| thing)).1,
            Err(at) => at,
        };
        let (given, result) = see(None);
        if let Some(thing) = given {
            list.insert(at, (way.digest, thing));
            if list.0.len() > LIST_MAX && way.left > 0 {
                *self = Self::fork(std::mem::take(&mut list.0), way.left);
            }
        }
        result
    }

    /// Entries whose digests differ in this many last bits at most.
    fn fork(entries: Vec<(Digest, T)>, left: u32) -> Self {
        let mut ways = Box::new([const { Self::List(List::new()) }; WAYS]);
        for (digest, thing) in entries {
            let (at, _) = Way { digest, left }.step();
            if let Self::List(list) = at_mut(&mut ways, at) {
                list.insert(list.0.len(), (digest, thing));
            }
        }
        Self::Fork(ways)
    }

    fn remove(&mut self, way: Way) {
        match self {
            Self::Fork(ways) => {
                let (at, rest) = way.step();
                at_mut(ways, at).remove(rest);
                // Whoever walks must not have to pass what was there once.
                if ways.iter().all(Self::is_empty) {
                    *self = Self::List(List::new());
                }
            }
            Self::List(list) => {
                if let Ok(at) = list.find(way.digest) {
                    list.remove(at);
                }
            }
        }
    }

    /// Whether it is a list of nothing.
    const fn is_empty(&self) -> bool {
        matches!(self, Self::List(List(list)) if list.is_empty())
    }

    fn take_some(&mut self) -> Vec<(Digest, T)> {
        match self {
            Self::Fork(ways) => {
                let all = ways.iter_mut().map(Self::take_some);
                let some = all.into_iter().find(|some| !some.is_empty()).unwrap_or_default();
                if some.is_empty() {
                    // It is not looked through again.
                    *self = Self::List(List::new());
                }
                some
            }
            Self::List(list) => std::mem::take(&mut list.0),
        }
    }

    /// Says whether more is wanted.
    fn walk(&self, from: Option<Way>, see: &mut impl FnMut(Digest, &T) -> bool) -> bool {
        match self {
            Self::Fork(ways) => {
                let (first, rest) = from.map_or((0, None), |way| {
                    let (at, rest) = way.step();
                    (at, Some(rest))
                });
                let mut ways = ways.iter().skip(first);
                ways.next().is_none_or(|way| way.walk(rest, see))
                    && ways.all(|way| way.walk(None, see))
            }
            Self::List(list) => {
                let first = from.map_or(0, |way| list.find(way.digest).unwrap_or_else(|at| at));
                list.0.iter().skip(first).all(|(digest, thing)| see(*digest, thing))
            }
        }
    }
}

impl<T> List<T> {
    const fn new() -> Self {
        Self(Vec::new())
    }

    /// Where a digest is, or would be.
    fn find(&self, digest: Digest) -> Result<usize, usize> {
        let number = |digest: Digest| u128::from_be_bytes(*digest.as_bytes());
        self.0.binary_search_by_key(&number(digest), |(of, _)| number(*of))
    }

    fn insert(&mut self, at: usize, entry: (Digest, T)) {
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(LIST_ROOM);
        }
        self.0.insert(at, entry);
    }

    /// Where as many come as go, each list would otherwise take as much as it ever did.
    fn remove(&mut self, at: usize) {
        self.0.remove(at);
        if self.0.capacity() - self.0.len() > 2 * LIST_ROOM {
            self.0.shrink_to(self.0.len() + LIST_ROOM);
        }
    }
}

#[expect(clippy::indexing_slicing, reason = "a step says where to go of as many ways as there are")]
const fn at_mut<T>(ways: &mut [Node<T>; WAYS], at: usize) -> &mut Node<T> {
    &mut ways[at % WAYS]
}

#[cfg(test)]
mod tests;
