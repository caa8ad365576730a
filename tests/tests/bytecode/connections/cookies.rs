//! SYN cookies as proof of an address, where the rate of unknown sources is spent. The kernel makes and checks them.

use std::{
    fs,
    net::{IpAddr, SocketAddr, TcpListener},
};

use ratelimit_common::{
    limits::{
        limit::SECOND,
        policy::{Policy, SHADOW},
    },
    reason::Reason,
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Segment, VICTIM_IPV4, VICTIM_IPV6, Verdict, per_second};

use super::{datagram, on_the_victim, segment};
use crate::cells::unknown_sources::{frame, is_known, limited_with};

/// The tests run on the loopback interface.
const MTU: usize = 65_536;

/// Returns a program with cookies, and spends the rate of unknown sources.
pub(super) fn load(settings: Settings) -> Bytecode {
    let bytecode = limited_with(Settings { unknown: 1_000, cells: 1 << 10, prove_tcp: true, own: 0, ..settings });
    spend_rate(&bytecode);
    bytecode
}

/// Spends the rate of unknown sources.
fn spend_rate(bytecode: &Bytecode) {
    for number in 0..2_000_u16 {
        let [high, low] = number.to_be_bytes();
        bytecode.send(&frame([10, 79, high, low]));
    }
}

/// Makes the kernel of the victim give cookies always.
pub(super) fn always() {
    fs::write("/proc/sys/net/ipv4/tcp_syncookies", "2").unwrap();
}

fn count(bytecode: &Bytecode) -> [u64; 2] {
    bytecode.cpus().iter().fold([0; 2], |[a, b], cpu| [a + cpu.proven_by_cookie, b + cpu.cookies_unsent])
}

/// Tags, both families, both kinds of drivers, options of every length.
#[test]
fn a_first_syn_gets_a_cookie_and_whoever_acknowledges_it_is_known() {
    on_the_victim(|_| {
        always();
        for frags in [true, false] {
            let bytecode = load(Settings { frags, ..crate::settings() });
            let mut number = 0;
            for local in [IpAddr::from(VICTIM_IPV4), VICTIM_IPV6.into()] {
                let listener = TcpListener::bind((local, 0)).unwrap();
                let to = listener.local_addr().unwrap();
                let lengths = (0..=40).step_by(4).map(|length| (0, length));
                let behind_options = (4..=40).step_by(4).filter(|_| local.is_ipv4()).map(|length| (length, 20));
                for (ip_options, length) in lengths.chain(behind_options) {
                    number += 1;
                    let from: IpAddr = match local {
                        IpAddr::V4(_) => [10, 77, 0, number].into(),
                        IpAddr::V6(_) => [0x2001, 0xdb8, 0, number.into(), 0, 0, 0, 7].into(),
                    };
                    let tags = [&[][..], &[0x8100], &[0x88a8, 0x8100]][usize::from(number) % 3];
                    let mut syn = Segment { ip_options, ..Segment::syn(SocketAddr::new(from, 5_000), to) };
                    syn.options = vec![1; length];
                    if let Some((_, end)) = syn.options.split_last_chunk_mut() {
                        *end = [2, 4, 5, 0xb4];
                    }
                    let frame = syn.frame(tags);
                    let (verdict, answer) = bytecode.exchange(&frame);
                    assert_eq!(verdict, Verdict::Reply, "{from} {ip_options} {length} {tags:x?}");
                    let cookie = syn.cookie(tags, &frame, &answer, MTU);

                    let before = count(&bytecode)[0];
                    let mut ack = syn.acknowledging(cookie);
                    // Four numbers in a row are cookies, one for each size that the kernel tells apart.
                    for wrong in [10, 1 << 16, 1 << 30] {
                        ack.acknowledgement = Some(cookie.wrapping_add(wrong));
                        assert_eq!(bytecode.reason(&ack.frame(tags)), Reason::OverUnknown);
                    }
                    ack.acknowledgement = Some(cookie.wrapping_add(1));
                    let stolen = Segment { from: SocketAddr::new(from, 5_001), ..ack.clone() };
                    assert_eq!(bytecode.reason(&stolen.frame(tags)), Reason::OverUnknown);
                    assert_eq!(count(&bytecode)[0], before);
                    assert_eq!(bytecode.reason(&ack.frame(tags)), Reason::WithinLimit);
                    assert_eq!(count(&bytecode)[0], before + 1);
                    // From now on, everything passes within the limits of the source.
                    assert_eq!(bytecode.reason(&datagram(ack.from, to)), Reason::WithinLimit);
                }
            }
            assert_eq!(bytecode.count(Reason::SynCookie), u64::from(number));
            assert_eq!(count(&bytecode)[1], 0);
        }
    });
}

#[test]
fn closed_ports_and_packets_that_are_no_first_syn_get_no_answer() {
    on_the_victim(|_| {
        always();
        let bytecode = load(crate::settings());
        let listener = TcpListener::bind((VICTIM_IPV4, 0)).unwrap();
        let open = listener.local_addr().unwrap();
        let closed = SocketAddr::new(open.ip(), open.port() ^ 1);
        let from = SocketAddr::from(([10, 77, 0, 1], 5_000));
        let multicast = SocketAddr::from(([224, 0, 0, 1], 5_000));
        let dropped = [
            Segment::syn(from, closed).frame(&[]),
            Segment::syn(multicast, open).frame(&[]),
            segment(from, open, super::SYN | super::ACK),
            segment(from, open, super::ACK),
            datagram(from, open),
        ];
        for frame in dropped {
            assert_eq!(bytecode.reason(&frame), Reason::OverUnknown);
        }
        // A header that contradicts itself, and one that ends behind the frame.
        for begin in [0x40, 0xf0] {
            let mut frame = Segment::syn(from, open).frame(&[]);
            frame[14 + 20 + 12] = begin;
            assert_eq!(bytecode.reason(&frame), Reason::OverUnknown);
        }
        // The kernel answers neither, and an answer would tell a scanner of a limiter.
        for flag in [Segment::FIN, Segment::RST] {
            let frame = Segment { flags: Segment::SYN | flag, ..Segment::syn(from, open) }.frame(&[]);
            assert_eq!(bytecode.reason(&frame), Reason::OverUnknown);
        }
        let mut to_all = Segment::syn(from, open).frame(&[]);
        to_all[..6].copy_from_slice(&[0xff; 6]);
        assert_eq!(bytecode.reason(&to_all), Reason::OverUnknown);
        assert_eq!(bytecode.count(Reason::SynCookie), 0);
        assert!(!is_known(&bytecode, [10, 77, 0, 1]));
        assert_eq!(bytecode.reason(&Segment::syn(from, open).frame(&[])), Reason::SynCookie);
        // Without the kernel's setting, SYNs share the rate as before.
        fs::write("/proc/sys/net/ipv4/tcp_syncookies", "1").unwrap();
        assert_eq!(bytecode.reason(&Segment::syn(from, open).frame(&[])), Reason::OverUnknown);
    });
}

#[test]
fn cookies_have_a_budget_and_shadow_sends_none() {
    on_the_victim(|_| {
        always();
        let listener = TcpListener::bind((VICTIM_IPV4, 0)).unwrap();
        let syn = Segment::syn(SocketAddr::from(([10, 77, 0, 1], 5_000)), listener.local_addr().unwrap()).frame(&[]);
        let bytecode = load(Settings { proofs: 1_000, ..crate::settings() });
        bytecode.repeat(&syn, 1);
        assert_eq!(bytecode.count(Reason::SynCookie), 1);
        let (mut sent, mut within_rate) = (1, 0);
        for number in 0..2_000_u16 {
            let [high, low] = number.to_be_bytes();
            let from = SocketAddr::from(([10, 78, high, low], 5_000));
            let frame = Segment::syn(from, listener.local_addr().unwrap()).frame(&[]);
            match bytecode.reason(&frame) {
                Reason::SynCookie => sent += 1,
                Reason::WithinLimit => within_rate += 1,
                other => assert_eq!(other, Reason::OverUnknown),
            }
        }
        // The burst is a fifth of a second. Of its second half, sources take turns.
        assert!((100..=200).contains(&sent), "{sent}");
        assert_eq!(count(&bytecode)[1], 2_001 - sent - within_rate);

        let bytecode = load(Settings { shadow: true, ..crate::settings() });
        let (verdict, same) = bytecode.exchange(&syn);
        assert_eq!((verdict, same), (Verdict::Pass, syn));
    });
}

/// Nobody makes this host send one address more answers than the address may send packets.
#[test]
fn a_source_gets_no_more_cookies_than_its_own_limit() {
    on_the_victim(|_| {
        always();
        let listener = TcpListener::bind((VICTIM_IPV4, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        for frags in [true, false] {
            let settings = Settings { frags, services: true, lanes: true, actions: true, ..crate::settings() };
            let mut bytecode = load(settings);
            bytecode.set("default tcp-syn", per_second(5, 5));
            let syn = Segment::syn(SocketAddr::from(([10, 77, 0, 1], 5_000)), to).frame(&[]);
            let other = Segment::syn(SocketAddr::from(([10, 77, 0, 2], 5_000)), to).frame(&[]);
            let answered = |syn: &[u8]| (0..1_000).filter(|_| bytecode.exchange(syn).0 == Verdict::Reply).count();
            assert_eq!((answered(&syn), answered(&other)), (5, 5));
            assert_eq!((bytecode.count(Reason::SynCookie), bytecode.count(Reason::OverPackets)), (10, 1_990));
            // The refusal was cached, so the budget of answers and the listener were not asked again.
            assert_eq!(count(&bytecode), [0, 0]);
            bytecode.clock().advance(SECOND);
            spend_rate(&bytecode);
            assert_eq!(answered(&syn), 5);
            // A limit that only counts does not lift the one of unknown sources.
            bytecode.set("default tcp-syn", Policy { over_limit: SHADOW, ..per_second(5, 5) });
            let last = Segment::syn(SocketAddr::from(([10, 77, 0, 4], 5_000)), to).frame(&[]);
            let answered = (0..100).filter(|_| bytecode.exchange(&last).0 == Verdict::Reply).count();
            assert_eq!(answered, 100);
            // Acknowledgements of cookies prove the address as before.
            bytecode.set("default tcp-syn", per_second(1_000, 1_000));
            let visitor = Segment::syn(SocketAddr::from(([10, 77, 0, 3], 5_000)), to);
            let frame = visitor.frame(&[]);
            let (verdict, answer) = bytecode.exchange(&frame);
            assert_eq!(verdict, Verdict::Reply);
            let ack = visitor.acknowledging(visitor.cookie(&[], &frame, &answer, MTU));
            assert_eq!(bytecode.reason(&ack.frame(&[])), Reason::WithinLimit);
        }
    });
}

/// Whoever has seen an acknowledgement can repeat it, but in no other name.
#[test]
fn an_acknowledgement_that_is_sent_again_proves_the_same_source_and_no_other() {
    on_the_victim(|_| {
        always();
        let listener = TcpListener::bind((VICTIM_IPV6, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let client = |network, host| SocketAddr::from(([0x2001, 0xdb8, 0, network, 0, 0, 0, host], 5_000));
        // Data and a request for Fast Open make no difference.
        let syn = Segment { options: vec![2, 4, 5, 0xb4, 34, 2, 1, 1], ..Segment::syn(client(1, 7), to) };
        let syn = Segment { payload: b"GET /".to_vec(), ..syn };
        let bytecode = load(crate::settings());
        let frame = syn.frame(&[]);
        let (verdict, answer) = bytecode.exchange(&frame);
        assert_eq!(verdict, Verdict::Reply);
        let ack = syn.acknowledging(syn.cookie(&[], &frame, &answer, MTU));
        assert_eq!(bytecode.reason(&ack.frame(&[])), Reason::WithinLimit);

        let later = load(crate::settings());
        for other in [client(2, 7), client(1, 8)] {
            assert_eq!(
                later.reason(&Segment { from: other, ..ack.clone() }.frame(&[])),
                Reason::OverUnknown,
                "{other}"
            );
        }
        assert_eq!(count(&later)[0], 0);
        assert_eq!(later.reason(&ack.frame(&[])), Reason::WithinLimit);
        // All addresses of a /64 are one source.
        for (other, reason) in [(client(1, 8), Reason::WithinLimit), (client(2, 7), Reason::OverUnknown)] {
            assert_eq!(later.reason(&datagram(other, to)), reason, "{other}");
        }
    });
}
