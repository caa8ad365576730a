use super::{super::datagram::Kind, *};

const OWN: u64 = 1;

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 7947))
}

fn header(from: u64, to: u64, number: u64) -> Header {
    Header { kind: Kind::Hello, from, to, number, births: 0, weight: 1.0, at: address(from as u8) }
}

/// Hears a datagram from the address that it names.
fn is_news(peers: &mut Peers, header: &Header, from: u8, now: f64) -> bool {
    let header = Header { at: address(from), ..*header };
    matches!(peers.hear(&header, address(from), now), Heard::Peer { is_new: true, .. })
}

#[test]
fn a_host_is_alive_after_a_datagram_that_names_this_session() {
    let mut peers = Peers::new(OWN);
    assert!(matches!(peers.hear(&header(2, 0, 1), address(2), 0.0), Heard::Answer(2)));
    assert_eq!(peers.alive(0.0).count(), 0);
    assert!(matches!(peers.hear(&header(2, 9, 1), address(2), 1.0), Heard::Answer(2)));
    assert!(is_news(&mut peers, &header(2, OWN, 3), 2, 1.0));
    assert_eq!((peers.alive(3.9).count(), peers.alive(4.1).count()), (1, 0));
}

#[test]
fn a_recorded_datagram_keeps_no_host_alive() {
    let mut peers = Peers::new(OWN);
    assert!(is_news(&mut peers, &header(2, OWN, 5), 2, 0.0));
    for number in [5, 4, 1] {
        assert!(!is_news(&mut peers, &header(2, OWN, number), 2, 2.0), "{number}");
    }
    assert_eq!(peers.alive(3.5).count(), 0);
    // Also after this host has forgotten it.
    peers.sweep(0.0, 60.0);
    assert_eq!(peers.all().count(), 0);
    assert!(!is_news(&mut peers, &header(2, OWN, 5), 2, 60.0));
    assert_eq!(peers.all().count(), 0);
    assert!(is_news(&mut peers, &header(2, OWN, 6), 2, 60.0));
}

#[test]
fn a_silent_host_that_greets_again_is_answered_as_it_may_know_this_one_no_more() {
    let mut peers = Peers::new(OWN);
    assert!(is_news(&mut peers, &header(2, OWN, 5), 2, 0.0));
    assert!(matches!(peers.hear(&header(2, 0, 6), address(2), 1.0), Heard::Nothing));
    assert!(matches!(peers.hear(&header(2, 0, 6), address(2), 10.0), Heard::Answer(2)));
    assert_eq!(peers.alive(10.0).count(), 0);
}

#[test]
fn a_host_that_starts_again_takes_its_own_place() {
    let mut peers = Peers::new(OWN);
    assert!(is_news(&mut peers, &header(2, OWN, 5), 2, 0.0));
    assert!(is_news(&mut peers, &header(3, OWN, 1), 2, 0.0));
    assert_eq!(peers.alive(0.0).map(|(session, _)| *session).collect::<Vec<_>>(), [3]);
}

#[test]
fn this_host_is_no_other_one_although_the_file_names_it() {
    let mut peers = Peers::new(OWN);
    peers.configure(&HashSet::from([address(1), address(2)]));
    assert_eq!(peers.count(0.0), 2);
    peers.locate(|_| Some(address(1)));
    assert_eq!((peers.count(0.0), peers.targets(0.0)), (1, vec![(address(2), 0)]));
    // The address belongs to another host now.
    peers.locate(|_| Some(address(3)));
    assert_eq!(peers.count(0.0), 2);
}

#[test]
fn a_datagram_that_a_stranger_sends_back_in_the_name_of_another_host_does_not_hide_it() {
    let mut peers = Peers::new(OWN);
    peers.configure(&HashSet::from([address(2)]));
    peers.hear(&header(OWN, 0, 1), address(2), 0.0);
    assert_eq!((peers.count(0.0), peers.targets(0.0).len()), (1, 1));
    assert!(peers.has_configured());
    assert!(matches!(peers.hear(&header(2, 0, 1), address(2), 0.5), Heard::Answer(2)));
    assert_eq!(peers.count(0.5), 1);
    peers.hear(&header(OWN, 0, 1), address(2), 1.0);
    assert!(is_news(&mut peers, &header(2, OWN, 2), 2, 1.0));
    assert_eq!((peers.count(1.0), peers.targets(1.0)), (1, vec![(address(2), 2)]));
    peers.hear(&header(OWN, 0, 1), address(2), 2.0);
    assert_eq!(peers.count(2.0), 1);
}

#[test]
fn recorded_greetings_make_this_host_greet_nobody() {
    let mut peers = Peers::new(OWN);
    let mut is_answered =
        |number: i32| matches!(peers.hear(&header(9, 0, 1), address(9), f64::from(number) * 0.01), Heard::Answer(_));
    let answers = (0..200).filter(|number| is_answered(*number)).count();
    assert!((15..=20).contains(&answers), "{answers} in two seconds");
    assert_eq!(peers.targets(2.0), []);
    // At an address that the recorded host has not named, not even it.
    assert!(matches!(peers.hear(&header(2, 0, 1), address(8), 2.0), Heard::Nothing));
    peers.sweep(0.0, 10.0);
    assert_eq!(peers.addresses.len(), 0);
}

#[test]
fn told_addresses_are_tried_for_a_time_unless_they_are_no_hosts() {
    let mut peers = Peers::new(OWN);
    for odd in ["0.0.0.0:1", "224.0.0.1:1", "255.255.255.255:1", "10.0.0.1:0", "127.0.0.1:1", "[ff02::1]:1"] {
        peers.learn(odd.parse().unwrap(), address(2), 0.0);
    }
    assert_eq!(peers.targets(0.0), []);
    peers.learn(address(3), address(2), 0.0);
    assert_eq!(peers.targets(0.0), [(address(3), 0)]);
    peers.learn(address(3), address(2), 59.0);
    peers.sweep(0.0, 60.0);
    assert_eq!(peers.targets(60.0), []);
}

#[test]
fn the_numbers_of_hosts_and_addresses_are_bounded() {
    let mut peers = Peers::new(OWN);
    for number in 0..10_000u32 {
        let address = SocketAddr::from((number.to_be_bytes(), 1));
        let _ = peers.hear(&header(u64::from(number) + 2, 0, 1), address, 0.0);
        let _ = peers.hear(&header(u64::from(number) + 2, OWN, 1), address, 0.0);
        peers.learn(SocketAddr::from(([10, 1, (number >> 8) as u8, number as u8], 1)), address, 0.0);
    }
    assert_eq!(peers.all().count(), MOST);
    assert!(peers.addresses.len() <= MOST_ADDRESSES);
    // Hosts that start again and again.
    for session in 0..10_000 {
        is_news(&mut peers, &header(session + 100_000, OWN, 1), 2, 100.0);
        peers.sweep(0.0, 100.0);
    }
    assert_eq!((peers.gone.len(), peers.order.len()), (GONE, GONE));
}

#[test]
fn a_host_with_two_addresses_is_one_host() {
    let mut peers = Peers::new(OWN);
    peers.configure(&HashSet::from([address(2), address(3)]));
    assert!(is_news(&mut peers, &header(2, OWN, 1), 2, 0.0));
    assert_eq!((peers.count(0.0), peers.targets(0.0).len()), (2, 2));
    // Its greetings come from both. It is greeted at both, in case a stranger has sent one of them.
    let from_other = |number| Header { at: address(3), ..header(2, 0, number) };
    assert!(matches!(peers.hear(&from_other(1), address(3), 0.0), Heard::Nothing));
    assert_eq!(peers.count(0.0), 2, "a recorded greeting");
    assert!(matches!(peers.hear(&from_other(2), address(3), 0.0), Heard::Nothing));
    assert_eq!((peers.count(0.0), peers.targets(0.0).len()), (1, 2));
    assert_eq!(peers.count(3.5), 2);
}

#[test]
fn a_host_that_is_alive_keeps_its_address_until_it_names_another_one() {
    let mut peers = Peers::new(OWN);
    let place = |peers: &Peers| peers.alive(0.0).map(|(_, peer)| peer.address).collect::<Vec<_>>();
    // The first datagram comes from another address than the host has, as if somebody on the way had sent it.
    assert!(matches!(peers.hear(&header(2, OWN, 1), address(9), 0.0), Heard::Peer { is_new: true, .. }));
    assert_eq!((place(&peers), peers.proved(0.0).count()), (vec![address(9)], 0));
    assert!(is_news(&mut peers, &header(2, OWN, 2), 2, 0.0));
    assert_eq!(place(&peers), [address(2)]);
    assert!(matches!(peers.hear(&header(2, OWN, 3), address(9), 0.0), Heard::Peer { is_new: true, .. }));
    assert_eq!(place(&peers), [address(2)]);
    // Nor does somebody else at its address take its place.
    assert!(matches!(peers.hear(&header(3, OWN, 1), address(2), 0.0), Heard::Peer { is_new: true, .. }));
    assert_eq!(peers.all().count(), 2);
    // It moves. Behind a translator of addresses it does so after a silence.
    assert!(is_news(&mut peers, &header(2, OWN, 4), 4, 0.0));
    assert!(place(&peers).contains(&address(4)));
    assert!(matches!(peers.hear(&header(2, OWN, 5), address(9), 5.0), Heard::Peer { is_new: true, .. }));
    assert_eq!(peers.alive(5.0).map(|(_, peer)| peer.address).collect::<Vec<_>>(), [address(9)]);
}
