//! Looks at the counts once a second and says what an operator would want to hear of.
//!
//! Promises: nothing on the way of a request says anything; what happens there is counted, and
//! read here. What goes on for long is said when it begins, and again only after a quiet minute.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Clock, Counts, GlobeCounts, RegionCounts};
use tokio::time::{MissedTickBehavior, interval};

use super::{Event, Log};

/// How often it is looked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long something has to be quiet before it can begin again.
const QUIET_MS: u64 = 60_000;

/// One look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    pub(crate) counts: Counts,
    /// Absent for a process on its own.
    pub(crate) region: Option<RegionCounts>,
    pub(crate) globe: Option<GlobeCounts>,
    pub(crate) subjects: u64,
    pub(crate) connections: u64,
    pub(crate) connections_max: u64,
}

/// Looks for as long as it is polled.
pub(crate) async fn watch(look: impl Fn() -> Sight, clock: Arc<dyn Clock>, log: Log) {
    let mut looks = interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut watcher = Watcher { before: look(), ..Watcher::default() };
    loop {
        looks.tick().await;
        let events = watcher.changes(look(), clock.now().monotonic_ms());
        events.into_iter().for_each(|event| log.say(event));
        log.tick();
    }
}

/// What was seen last, and what goes on.
#[derive(Debug, Default)]
struct Watcher {
    before: Sight,
    evicting: Spell,
    denying: Spell,
    /// All places are taken.
    is_full: bool,
    /// How many subjects had been sent again before the loss that is being healed.
    healing_since: Option<u64>,
}

impl Watcher {
    /// What changed since the last look.
    fn changes(&mut self, now: Sight, now_ms: u64) -> Vec<Event> {
        let before = std::mem::replace(&mut self.before, now.clone());
        let mut events = self.memory(&before, &now, now_ms);
        events.extend(self.connections(&now));
        if let (Some(before), Some(now)) = (&before.region, &now.region) {
            events.extend(self.region(before, now));
        }
        if let (Some(before), Some(now)) = (&before.globe, &now.globe) {
            events.extend(globe(before, now));
        }
        events
    }

    fn memory(&mut self, before: &Sight, now: &Sight, now_ms: u64) -> Vec<Event> {
        let evicted = now.counts.subjects_evicted.saturating_sub(before.counts.subjects_evicted);
        let denied = now.counts.denied_memory.saturating_sub(before.counts.denied_memory);
        let subjects = now.subjects;
        let mut events = Vec::new();
        if self.evicting.begins(evicted, now_ms) {
            events.push(Event::EvictionsBegan { evicted, subjects });
        }
        if self.denying.begins(denied, now_ms) {
            events.push(Event::MemoryDenialsBegan { denied, subjects });
        }
        events
    }

    fn connections(&mut self, now: &Sight) -> Option<Event> {
        let (connections, max) = (now.connections, now.connections_max);
        // Somewhat below, so that one who leaves and comes back is no news.
        if connections < max - max / 10 {
            self.is_full = false;
        }
        let is_news = connections >= max && max > 0 && !std::mem::replace(&mut self.is_full, true);
        is_news.then_some(Event::ConnectionsFull { connections })
    }

    fn region(&mut self, before: &RegionCounts, now: &RegionCounts) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(losses) = more(before.losses, now.losses) {
            self.healing_since.get_or_insert(before.resent);
            events.push(Event::RegionLostData { losses });
        } else if let Some(since) = self.healing_since
            && now.resent == before.resent
            && now.resent > since
        {
            self.healing_since = None;
            events.push(Event::RegionResent { subjects: now.resent.saturating_sub(since) });
        }
        if let Some(cells) = more(before.cells_lost, now.cells_lost) {
            events.push(Event::RegionCellsLost { cells });
        }
        if let Some(clashes) = more(before.identity_clashes, now.identity_clashes) {
            events.push(Event::IdentityClash { clashes });
        }
        events
    }
}

fn globe(before: &GlobeCounts, now: &GlobeCounts) -> Vec<Event> {
    let mut events = Vec::new();
    match (before.leads, now.leads) {
        (0, 1..) => events.push(Event::LeaderGained {}),
        (1.., 0) => events.push(Event::LeaderLost {}),
        _ => {}
    }
    if let Some(rows) = more(before.rows_unreadable, now.rows_unreadable) {
        events.push(Event::GlobeRowsUnreadable { rows });
    }
    if let Some(totals) = more(before.refused, now.refused) {
        events.push(Event::GlobeTotalsRefused { totals });
    }
    if let Some(totals) = more(before.values_dropped, now.values_dropped) {
        events.push(Event::GlobeTotalsDropped { totals });
    }
    if let Some(losses) = more(before.feed_losses, now.feed_losses) {
        events.push(Event::GlobeLostData { losses });
    }
    events
}

/// How much more it is, if it is.
fn more(before: u64, now: u64) -> Option<u64> {
    now.checked_sub(before).filter(|more| *more > 0)
}

/// Something that goes on for a while.
#[derive(Debug, Default)]
struct Spell {
    last_ms: Option<u64>,
}

impl Spell {
    /// Whether it begins now, if it happened this often since the last look.
    fn begins(&mut self, times: u64, now_ms: u64) -> bool {
        if times == 0 {
            return false;
        }
        let last_ms = self.last_ms.replace(now_ms);
        last_ms.is_none_or(|last_ms| now_ms.saturating_sub(last_ms) >= QUIET_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(events: &[Event]) -> Vec<&'static str> {
        events.iter().map(|event| event.kind().name).collect()
    }

    fn seen(change: impl FnOnce(&mut RegionCounts, &mut GlobeCounts, &mut Counts)) -> Sight {
        let mut sight = Sight { connections_max: 10, ..Sight::default() };
        let (mut region, mut globe) = (RegionCounts::default(), GlobeCounts::default());
        change(&mut region, &mut globe, &mut sight.counts);
        Sight { region: Some(region), globe: Some(globe), ..sight }
    }

    #[test]
    fn what_does_not_change_is_not_said() {
        let sight = seen(|region, globe, counts| {
            (region.losses, globe.leads, counts.subjects_evicted) = (3, 1, 7);
        });
        let mut watcher = Watcher { before: sight.clone(), ..Watcher::default() };
        assert_eq!(names(&watcher.changes(sight, 1)), [""; 0]);
    }

    #[test]
    fn what_goes_on_is_said_when_it_begins() {
        let mut watcher = Watcher { before: seen(|_, _, _| {}), ..Watcher::default() };
        let evicted = |total| seen(move |_, _, counts| counts.subjects_evicted = total);
        assert_eq!(names(&watcher.changes(evicted(1), 0)), ["evictions_began"]);
        for second in 1..=100 {
            let events = watcher.changes(evicted(1 + second), second * 1_000);
            assert_eq!(names(&events), [""; 0], "it goes on");
        }
        assert_eq!(names(&watcher.changes(evicted(101), 130_000)), [""; 0], "it is quiet");
        assert_eq!(names(&watcher.changes(evicted(102), 160_000)), ["evictions_began"]);
        let denied = |_: &mut _, _: &mut _, counts: &mut Counts| counts.denied_memory = 1;
        assert_eq!(names(&watcher.changes(seen(denied), 161_000)), ["memory_denials_began"]);
    }

    #[test]
    fn a_loss_is_said_and_that_it_was_healed() {
        let mut watcher = Watcher { before: seen(|_, _, _| {}), ..Watcher::default() };
        let mut look = |losses, resent| {
            let sight = seen(|region, _, _| (region.losses, region.resent) = (losses, resent));
            watcher.changes(sight, 0)
        };
        assert_eq!(names(&look(1, 5)), ["region_lost_data"]);
        assert_eq!(names(&look(1, 9)), [""; 0], "more is being sent");
        let healed = look(1, 9);
        assert!(matches!(&healed[..], [Event::RegionResent { subjects: 9 }]), "{healed:?}");
        assert_eq!(names(&look(1, 9)), [""; 0]);
    }

    #[test]
    fn a_full_house_is_said_once_until_some_have_left() {
        let mut watcher = Watcher { before: seen(|_, _, _| {}), ..Watcher::default() };
        let mut look = |connections| {
            let sight = Sight { connections, ..seen(|_, _, _| {}) };
            names(&watcher.changes(sight, 0))
        };
        for (connections, said) in
            [(9, vec![]), (10, vec!["connections_full"]), (9, vec![]), (10, vec![]), (8, vec![])]
        {
            assert_eq!(look(connections), said, "{connections}");
        }
        assert_eq!(look(10), ["connections_full"]);
    }

    #[test]
    fn every_other_change_has_an_event() {
        type Change = fn(&mut RegionCounts, &mut GlobeCounts);
        let changes: [(Change, &str); 8] = [
            (|region, _| region.cells_lost = 1, "region_cells_lost"),
            (|region, _| region.identity_clashes = 1, "identity_clash"),
            (|region, _| region.losses = 1, "region_lost_data"),
            (|_, globe| globe.leads = 1, "leader_gained"),
            (|_, globe| globe.rows_unreadable = 1, "globe_rows_unreadable"),
            (|_, globe| globe.refused = 1, "globe_totals_refused"),
            (|_, globe| globe.values_dropped = 1, "globe_totals_dropped"),
            (|_, globe| globe.feed_losses = 1, "globe_lost_data"),
        ];
        for (change, name) in changes {
            let mut watcher = Watcher { before: seen(|_, _, _| {}), ..Watcher::default() };
            let events = watcher.changes(seen(|region, globe, _| change(region, globe)), 0);
            assert_eq!(names(&events), [name]);
        }
        let leading = seen(|_, globe, _| globe.leads = 1);
        let mut watcher = Watcher { before: leading, ..Watcher::default() };
        assert_eq!(names(&watcher.changes(seen(|_, _, _| {}), 0)), ["leader_lost"]);
    }
}
