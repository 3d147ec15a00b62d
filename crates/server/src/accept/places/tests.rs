use super::super::activity::Protocol;
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

#[tokio::test(start_paused = true)]
async fn the_longest_idle_makes_room_whatever_the_order_of_arrival() {
    let places = places(9, 9);
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(places.claim(peer(1)).await.unwrap());
        later().await;
    }
    let _in_flight = all[0].activity.begin(Protocol::Http1);
    drop(all[1].activity.begin(Protocol::Http1));
    later().await;
    drop(all[2].activity.begin(Protocol::Http1));
    later().await;
    let mut evicted = Vec::new();
    for _ in 0..5 {
        places.evict();
        let newly = (0..4).find(|index| is_evicted(&all[*index]) && !evicted.contains(index));
        evicted.extend(newly);
    }
    assert_eq!(evicted, [3, 1, 2], "the first is busy");
}

#[tokio::test(start_paused = true)]
async fn who_was_busy_can_make_room_once_it_is_idle() {
    let places = places(9, 9);
    let place = places.claim(peer(1)).await.unwrap();
    let in_flight = place.activity.begin(Protocol::Http2);
    let another = place.activity.begin(Protocol::Http2);
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
    assert!(taken.by_number.is_empty() && taken.by_peer.is_empty() && taken.by_rest.is_empty());
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
