//! Every frame of a connection that begins with a SYN cookie, as it is on the wire.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    thread,
    time::Instant,
};

use etherparse::{Icmpv4Type, PacketBuilder, icmpv4::DestUnreachableHeader};
use ratelimit_tests::{
    Frame, FrameReceiver, MAC, PATIENCE, PEER_LINK, Ratelimit, RawSocket, Sandbox, Segment, Sink, VICTIM_IPV4,
    VICTIM_IPV6, VICTIM_LINK, compute_checksums, join_no_packets,
};

use super::forge;
use crate::receiver::alone;

const QUESTION: [u8; 8] = *b"question";
const ANSWER: [u8; 2_000] = [7; 2_000];
/// The MTU of the link, and a smaller one.
const MTU: usize = 1_500;
const SMALLER: usize = 1_400;
/// A router that is allowed, so that its messages arrive beside the flood.
const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);
/// Packets of forged addresses per second, which get no answer.
const FLOOD: u32 = 50_000;

/// Answers every visitor of both families that asks. Returns the port.
fn serve(sandbox: &Sandbox) -> u16 {
    let listener = sandbox.victim(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut visitor in listener.incoming().flatten() {
            let mut question = [0; QUESTION.len()];
            if visitor.read_exact(&mut question).is_ok() && question == QUESTION {
                // A visitor may have given up.
                let _ = visitor.write_all(&ANSWER);
            }
        }
    });
    port
}

/// A client without a network stack, so that nothing hides what the frames are.
struct Client<'a> {
    sender: &'a RawSocket,
    frames: &'a FrameReceiver,
    syn: Segment,
    tags: &'a [u16],
}

impl Client<'_> {
    /// Returns a segment in its frame. Its tags name no network, so that the victim takes it.
    fn frame(&self, segment: &Segment) -> Vec<u8> {
        let mut frame = segment.frame(self.tags);
        for number in 0..self.tags.len() {
            frame[14 + 4 * number..16 + 4 * number].fill(0);
        }
        frame
    }

    /// Waits for the next frame to this client, and returns what `read` makes of it.
    fn next<T>(&self, read: impl Fn(&[u8]) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = self.frames.next().and_then(|frame| read(&frame)) {
                return found;
            }
            assert!(Instant::now() < deadline, "no frame for {:?}", self.syn);
        }
    }

    /// Opens a connection by a cookie, asks, and reads the whole answer.
    fn visit(&self, mtu: usize) {
        let sent = self.frame(&self.syn);
        self.sender.send(&sent);
        let is_answer = |frame: &[u8]| self.syn.answer(self.tags, frame).map(|_| frame.to_vec());
        let cookie = self.syn.cookie(self.tags, &sent, &self.next(is_answer), mtu);
        let ack = Segment { options: Vec::new(), ..self.syn.acknowledging(cookie) };
        self.sender.send(&self.frame(&ack));
        self.sender.send(&self.frame(&Segment { flags: Segment::PSH, payload: QUESTION.to_vec(), ..ack.clone() }));
        let asked = ack.sequence.wrapping_add(QUESTION.len() as u32);
        let (mut answer, mut is_at_the_end) = (Vec::new(), false);
        while !is_at_the_end {
            // The victim adds no tags of its own.
            let (header, payload) = self.next(|frame| ack.answer(&[], frame));
            assert!(header.ack && !header.syn && !header.rst, "{header:?}");
            assert_eq!(header.acknowledgment_number, asked);
            let begin = header.sequence_number.wrapping_sub(cookie.wrapping_add(1)) as usize;
            // A segment may come twice.
            if begin == answer.len() {
                answer.extend(payload);
                is_at_the_end = header.fin;
            }
            let next = cookie.wrapping_add(1).wrapping_add(answer.len() as u32);
            let got = Segment { sequence: asked, acknowledgement: Some(next), ..ack.clone() };
            self.sender.send(&self.frame(&got));
        }
        assert_eq!(answer, ANSWER, "{:?}", self.syn);
        self.sender.send(&self.frame(&Segment { flags: Segment::RST, sequence: asked, ..ack }));
    }
}

/// Returns so many bytes of options, the last four of which offer a largest segment, and zeros up to a whole word.
fn options(length: usize) -> Vec<u8> {
    let mut options = vec![1; length];
    if let Some((_, end)) = options.split_last_chunk_mut() {
        *end = [2, 4, 5, 0xb4];
    }
    options.resize(length.next_multiple_of(4), 0);
    options
}

/// Returns the message that packets of the victim to this address must not be longer. It quotes an answer to an echo, which
/// needs no socket.
fn fragmentation_needed(to: Ipv4Addr, next_hop_mtu: u16) -> Vec<u8> {
    let mut quoted = Vec::new();
    let lost = PacketBuilder::ipv4(VICTIM_IPV4.octets(), to.octets(), 64).icmpv4_echo_reply(1, 1);
    lost.write(&mut quoted, &[]).unwrap();
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(MAC, MAC)
        .ipv4(ROUTER.octets(), VICTIM_IPV4.octets(), 64)
        .icmpv4(Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::FragmentationNeeded { next_hop_mtu }))
        .write(&mut frame, &quoted)
        .unwrap();
    frame
}

/// Both families, options of TCP of every length, options of IPv4, and tags.
#[test]
fn every_frame_of_a_connection_by_cookie_is_correct_and_it_carries_data() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let _peer = Sink::at_the_peer(&sandbox);
    let port = serve(&sandbox);
    sandbox.set_syn_cookies("2");
    sandbox.victim(|| compute_checksums(VICTIM_LINK));
    sandbox.peer(|| join_no_packets(PEER_LINK));
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 100k/s --unknown 1/s --prove tcp"));
    ratelimit.ok(&format!("allow add {ROUTER}"));
    let _forged = forge(&sandbox, Frame::udp(Ipv4Addr::new(192, 0, 2, 1), 9), FLOOD);
    let frames = FrameReceiver::at_the_peer(&sandbox);
    let sender = sandbox.peer(|| RawSocket::of(PEER_LINK));
    let mut visits = 0_u16;
    let mut visit = |local: IpAddr, ip_options, length, mtu| {
        visits += 1;
        let [high, low] = visits.to_be_bytes();
        let from: IpAddr = match local {
            IpAddr::V4(_) => [10, 77, high, low].into(),
            IpAddr::V6(_) => [0x2001, 0xdb8, 0, visits, 0, 0, 0, 7].into(),
        };
        let tags = [&[][..], &[0x8100], &[0x88a8, 0x8100]][usize::from(visits) % 3];
        let syn = Segment::syn(SocketAddr::new(from, 5_000), SocketAddr::new(local, port));
        let syn = Segment { ip_options, options: options(length), ..syn };
        Client { sender: &sender, frames: &frames, syn, tags }.visit(mtu);
    };
    for local in [IpAddr::from(VICTIM_IPV4), VICTIM_IPV6.into()] {
        (0..=40).for_each(|length| visit(local, 0, length, MTU));
    }
    (4..=40).step_by(4).for_each(|ip_options| visit(VICTIM_IPV4.into(), ip_options, 20, MTU));
    // A smaller link offers smaller segments.
    sandbox.ip(&format!("link set {VICTIM_LINK} mtu {SMALLER}"));
    for local in [VICTIM_IPV4.into(), VICTIM_IPV6.into()] {
        visit(local, 0, 20, SMALLER);
    }
    // So do routes.
    sandbox.ip(&format!("route add 198.51.100.0/24 dev {VICTIM_LINK} advmss 1300"));
    sandbox.ip(&format!("route add 203.0.113.0/24 dev {VICTIM_LINK} mtu 1380"));
    sandbox.ip(&format!("-6 route add 2001:db8:99::/48 dev {VICTIM_LINK} mtu 1300"));
    ratelimit.ok("set --prove tcp --proofs 1M/s");
    visit(VICTIM_IPV4.into(), 0, 20, 1_300 + 40);
    visit(VICTIM_IPV6.into(), 0, 20, 1_300);
    // The kernel learns the MTU to one address from a forged message. Others are still offered what fits.
    sandbox.ip("route del 198.51.100.0/24");
    let learned = || sandbox.ip("route get 10.77.255.255").contains("mtu 1000");
    let deadline = Instant::now() + PATIENCE;
    while !learned() {
        assert!(Instant::now() < deadline, "the kernel ignores the message");
        sender.send(&fragmentation_needed(Ipv4Addr::new(10, 77, 255, 255), 1_000));
    }
    ratelimit.ok("set --prove tcp --proofs 2M/s");
    visit(VICTIM_IPV4.into(), 0, 20, 1_380);
    let proofs = ratelimit.json("status")["unknown"]["proofs"].clone();
    println!("{visits} visits: {proofs}");
    assert_eq!(proofs["cookies"]["sent"], visits);
    // An acknowledgement may pass within the rate.
    assert!(proofs["by_cookie"].as_u64().unwrap() >= u64::from(visits) - 5, "{proofs}");
    ratelimit.ok("detach --all");
}
