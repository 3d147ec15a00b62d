use super::super::activity::{FRESH_US, Protocol};
use super::super::tally::TallySeen;
use super::*;

fn peer(last: u8) -> Peer {
    Peer::of([192, 0, 2, last].into())
}

fn places(connections_max: u32, per_address_max: u32) -> Arc<Places> {
    Arc::new(Places::new(Limits { connections_max, per_address_max }))
}

fn is_evicted(place: &Place) -> bool {
    place.activity.ordered(std::task::Waker::noop()) == Order::Evict
}

/// Lets some time pass.
async fn later() {
    tokio::time::advance(Duration::from_millis(10)).await;
}

/// Lets so much time pass that nobody is fresh.
async fn much_later() {
    tokio::time::advance(Duration::from_micros(FRESH_US)).await;
}

/// Whose key was seen.
fn known(place: &Place) {
    place.activity.note_key();
}

/// In which order these make room.
fn evicted(places: &Places, all: &[Place]) -> Vec<usize> {
    let mut evicted = Vec::new();
    for _ in 0..=all.len() {
        places.evict();
        let is_new = |index: &usize| is_evicted(&all[*index]) && !evicted.contains(index);
        let newly = (0..all.len()).find(is_new);
        evicted.extend(newly);
    }
    evicted
}

async fn taken(places: &Arc<Places>, count: usize) -> Vec<Place> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(places.claim(peer(1)).await.unwrap());
        later().await;
    }
    all
}

#[tokio::test(start_paused = true)]
async fn the_longest_idle_makes_room_whatever_the_order_of_arrival() {
    let places = places(9, 9);
    let all = taken(&places, 4).await;
    all.iter().for_each(known);
    let (_, _in_flight, arriving) = all[0].activity.begin(Protocol::Http1);
    drop(arriving);
    drop(all[1].activity.begin(Protocol::Http1));
    later().await;
    drop(all[2].activity.begin(Protocol::Http1));
    later().await;
    assert_eq!(evicted(&places, &all), [3, 1, 2], "the first is busy");
}

#[tokio::test(start_paused = true)]
async fn strangers_go_first_and_whoever_came_just_now_goes_last() {
    let places = places(9, 9);
    let mut all = taken(&places, 4).await;
    // The first two have a key; the third has asked something without one.
    all[..2].iter().for_each(known);
    drop(all[0].activity.begin(Protocol::Http1));
    much_later().await;
    drop(all[2].activity.begin(Protocol::Http2));
    all.extend(taken(&places, 2).await);
    assert_eq!(evicted(&places, &all), [3, 2, 1, 0, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_has_not_arrived_protects_nobody() {
    let places = places(9, 9);
    let all = taken(&places, 3).await;
    all[1..].iter().for_each(known);
    let mut begun: Vec<_> = all.iter().map(|it| it.activity.begin(Protocol::Http2)).collect();
    // All of the last one's has arrived. While it is decided, the next one begins.
    let (_, _in_flight, arriving) = begun.pop().unwrap();
    drop(arriving);
    let _next = all[2].activity.begin(Protocol::Http2);
    assert_eq!(evicted(&places, &all), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_stranger_who_does_not_take_its_reply_makes_room() {
    let places = places(9, 9);
    let all = taken(&places, 1).await;
    let (_, _in_flight, arriving) = all[0].activity.begin(Protocol::Http2);
    drop(arriving);
    assert_eq!(evicted(&places, &all), [0]);
}

#[tokio::test(start_paused = true)]
async fn who_was_busy_can_make_room_once_it_is_idle() {
    let places = places(9, 9);
    let place = places.claim(peer(1)).await.unwrap();
    known(&place);
    let (_, in_flight, _) = place.activity.begin(Protocol::Http2);
    let (_, another, _) = place.activity.begin(Protocol::Http2);
    places.evict();
    drop(in_flight);
    places.evict();
    assert!(!is_evicted(&place), "one is still in flight");
    later().await;
    drop(another);
    places.evict();
    assert!(is_evicted(&place));
}

#[tokio::test(start_paused = true)]
async fn among_many_those_found_at_once_go_in_order_unless_they_came_to_life() {
    let places = places(1_000, 1_000);
    let all = taken(&places, 5 * FOUND_AT_ONCE).await;
    all.iter().for_each(known);
    // One look finds five. The second and the fourth have asked something since.
    places.evict();
    drop(all[1].activity.begin(Protocol::Http1));
    drop(all[3].activity.begin(Protocol::Http1));
    for _ in 0..3 {
        places.evict();
    }
    let gone: Vec<_> = (0..all.len()).filter(|index| is_evicted(&all[*index])).collect();
    assert_eq!(gone, [0, 2, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_full_house_makes_room_for_the_next() {
    let places = places(2, 9);
    let first = places.claim(peer(1)).await.unwrap();
    later().await;
    let second = places.claim(peer(1)).await.unwrap();
    let next = tokio::spawn({
        let places = Arc::clone(&places);
        async move { places.claim(peer(2)).await.is_some() }
    });
    tokio::task::yield_now().await;
    assert!(is_evicted(&first) && !is_evicted(&second));
    assert!(!next.is_finished(), "it waits until the place is free");
    drop(first);
    assert!(next.await.unwrap());
    assert_eq!(places.tally().seen(), TallySeen { evicted: 1, ..TallySeen::default() });
}

#[tokio::test(start_paused = true)]
async fn one_address_has_its_share_and_gets_it_back() {
    let places = places(9, 2);
    let first = places.claim(peer(1)).await.unwrap();
    let _second = places.claim(peer(1)).await.unwrap();
    assert!(places.claim(peer(1)).await.is_none());
    assert!(places.claim(peer(2)).await.is_some(), "another address has its own");
    drop(first);
    assert!(places.claim(peer(1)).await.is_some());
    assert_eq!(places.tally().seen(), TallySeen { over_address: 1, ..TallySeen::default() });
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_those_who_left() {
    let places = places(9, 9);
    for number in 0..100 {
        let place = places.claim(peer(number)).await.unwrap();
        drop(place.activity.begin(Protocol::Http1));
        places.evict();
        later().await;
    }
    let taken = places.taken();
    assert!(taken.by_number.is_empty() && taken.by_peer.is_empty());
    drop(taken);
    assert_eq!(places.free.available_permits(), 9);
}

#[tokio::test(start_paused = true)]
async fn an_order_reaches_those_who_are_there_and_those_who_come() {
    let places = places(9, 9);
    let before = places.claim(peer(1)).await.unwrap();
    places.order_all(Order::Retire);
    let after = places.claim(peer(1)).await.unwrap();
    for place in [&before, &after] {
        assert_eq!(place.activity.ordered(std::task::Waker::noop()), Order::Retire);
    }
    places.order_all(Order::Stop);
    places.order_all(Order::Retire);
    assert_eq!(before.activity.ordered(std::task::Waker::noop()), Order::Stop, "never taken back");
}

#[tokio::test(start_paused = true)]
async fn fewer_places_send_those_away_who_can_go_and_more_are_there_at_once() {
    let places = places(3, 3);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(places.claim(peer(1)).await.unwrap());
    }
    places.set_limits(Limits { connections_max: 1, per_address_max: 9 });
    assert_eq!(places.limits().connections_max, 1);
    let told = held.iter().filter(|place| is_evicted(place)).count();
    assert_eq!(told, 2, "two are too many");
    // The places of the two go with them; the third is a place again.
    for _ in 0..2 {
        drop(held.pop());
        assert_eq!(places.free.available_permits(), 0);
    }
    drop(held.pop());
    assert_eq!((places.free.available_permits(), places.open()), (1, 0));
    places.empty().await;

    places.set_limits(Limits { connections_max: 3, per_address_max: 2 });
    let _first = places.claim(peer(1)).await.unwrap();
    let _second = places.claim(peer(1)).await.unwrap();
    assert!(places.claim(peer(1)).await.is_none(), "of one address");
    let _third = places.claim(peer(2)).await.unwrap();
    assert_eq!(places.free.available_permits(), 0);
}

#[tokio::test(start_paused = true)]
async fn places_that_are_owed_are_kept_when_there_may_be_more_again() {
    let places = places(2, 9);
    let (first, second) = (places.claim(peer(1)).await, places.claim(peer(1)).await);
    places.set_limits(Limits { connections_max: 1, per_address_max: 9 });
    places.set_limits(Limits { connections_max: 4, per_address_max: 9 });
    assert_eq!(places.free.available_permits(), 2, "two of four are taken");
    drop((first, second));
    assert_eq!(places.free.available_permits(), 4);
}
