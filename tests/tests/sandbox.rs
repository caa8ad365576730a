//! The sandbox: exact counters, isolation, and complete cleanup.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream, UdpSocket},
    panic::{AssertUnwindSafe, catch_unwind},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use aya::programs::loaded_programs;
use ratelimit_tests::{
    Flood, Frame, PATIENCE, PEER_IPV4, PEER_IPV6, Running, Sandbox, Sink, VICTIM_IPV4, VICTIM_IPV6, VICTIM_LINK,
    wait_until,
};

#[test]
fn a_flood_is_counted_exactly() {
    let sandbox = Sandbox::new();
    let sink = Sink::dropping(&sandbox, VICTIM_LINK);
    Flood::of(Frame::udp(PEER_IPV4, 9)).send(&sandbox, 200_000);
    assert_eq!(sink.received(), 200_000);
}

#[test]
fn parallel_floods_lose_no_packet() {
    let sandbox = Sandbox::new();
    let sink = Sink::dropping(&sandbox, VICTIM_LINK);
    let floods = [0, 1, 2, 3].map(|host| Flood::of(Frame::udp([10, 9, 1, host], 9)).start(&sandbox));
    thread::sleep(Duration::from_secs(1));
    let sent: u64 = floods.map(Running::stop).iter().sum();
    assert!(sent > 200_000, "only {sent}");
    assert_eq!(sink.received(), sent);
}

#[test]
fn two_sandboxes_are_isolated() {
    let sandboxes = [Sandbox::new(), Sandbox::new()];
    let sinks = sandboxes.each_ref().map(|sandbox| Sink::passing(sandbox, VICTIM_LINK));
    let flood = Flood::of(Frame::udp(PEER_IPV6, 9));
    thread::scope(|scope| {
        scope.spawn(|| flood.send(&sandboxes[0], 10_000));
        scope.spawn(|| flood.send(&sandboxes[1], 20_000));
    });
    assert_eq!(sinks.each_ref().map(Sink::received), [10_000, 20_000]);
}

/// A socket receives only packets with valid checksums, from the addresses of the frames.
#[test]
fn every_source_of_a_flood_reaches_a_socket() {
    let sandbox = Sandbox::new();
    let frames = [
        (Frame::udp([10, 9, 1, 250], 9), "10.9.1.250", "10.9.2.3"),
        (Frame::udp([0xfd00, 9, 1, 0xfffe, 0, 0, 0, 7], 9), "fd00:9:1:fffe::7", "fd00:9:2:7::7"),
    ];
    let socket = sandbox.victim(|| UdpSocket::bind("[::]:9")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    for (frame, first, last) in frames {
        for length in [60, 1_514] {
            Flood::of(frame.clone().length(length)).sources(10).send(&sandbox, 20);
            let source = |_| socket.recv_from(&mut []).unwrap().1.ip().to_canonical().to_string();
            let mut sources: Vec<_> = (0..20).map(source).collect();
            assert_eq!(sources[..10], sources[10..]);
            sources.truncate(10);
            sources.dedup();
            assert_eq!((sources.len(), sources[0].as_str(), sources[9].as_str()), (10, first, last));
        }
    }
}

/// The network stack removes a tag within the frame's memory, which the kernel then reuses for another frame.
#[test]
fn every_frame_arrives_unchanged() {
    let sandbox = Sandbox::new();
    // VLAN 0 is no VLAN, so the frame is for the interface itself.
    Flood::of(Frame::udp(PEER_IPV4, 9).tag(0)).send(&sandbox, 10_000);
    let counters = sandbox.victim(|| fs::read_to_string("/proc/thread-self/net/snmp")).unwrap();
    let mut udp = counters.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (udp.next().unwrap(), udp.next().unwrap());
    let unwanted = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "NoPorts").unwrap();
    assert_eq!(unwanted.1, "10000");
}

#[test]
fn tcp_connections_work_over_ipv4_and_ipv6() {
    let sandbox = Sandbox::new();
    sandbox.add_peer_address([10, 9, 0, 7]);
    for address in [VICTIM_IPV4.into(), VICTIM_IPV6.into()] {
        let address = std::net::SocketAddr::new(address, 80);
        let listener = sandbox.victim(|| TcpListener::bind(address)).unwrap();
        let mut client = sandbox.peer(|| TcpStream::connect(address)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 100_000]).unwrap();
        drop(client);
        let mut received = Vec::new();
        server.read_to_end(&mut received).unwrap();
        assert_eq!(received.len(), 100_000);
    }
}

#[test]
fn leftover_pins_fail_the_test() {
    let sandbox = Sandbox::new();
    sandbox.victim(|| fs::create_dir("/sys/fs/bpf/ratelimit")).unwrap();
    assert_eq!(sandbox.pins().len(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(sandbox))).is_err());
}

#[test]
fn nothing_is_left_after_a_panic() {
    let mut program = None;
    let result = catch_unwind(AssertUnwindSafe(|| {
        let sandbox = Sandbox::new();
        program = Some(pinned_program(&sandbox));
        sandbox.victim(|| panic!("on purpose"));
    }));
    assert!(result.is_err());
    assert_gone(program.unwrap());
}

#[test]
fn nothing_is_left_after_a_kill() {
    let mut other = Command::new(env::current_exe().unwrap());
    other.args(["--ignored", "--exact", "holds_a_sandbox_until_killed", "--nocapture"]);
    let mut other = other.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(other.stdout.take().unwrap()).lines();
    let program = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("program ")?.parse().ok()).unwrap();
    assert!(is_loaded(program));
    other.kill().unwrap();
    other.wait().unwrap();
    assert_gone(program);
}

#[test]
#[ignore = "run by another test"]
fn holds_a_sandbox_until_killed() {
    let sandbox = Sandbox::new();
    let mut sleep = Command::new("sleep");
    sleep.arg("1000");
    let _child = sandbox.start(sleep);
    println!("\nprogram {}", pinned_program(&sandbox));
    thread::sleep(PATIENCE);
}

/// Loads a program that only its pin holds.
fn pinned_program(sandbox: &Sandbox) -> u32 {
    let mut sink = Sink::passing(sandbox, VICTIM_LINK);
    sandbox.victim(|| sink.pin("/sys/fs/bpf/pass"));
    let program = sink.program_id();
    drop(sink);
    assert!(is_loaded(program));
    program
}

fn is_loaded(program: u32) -> bool {
    loaded_programs().any(|loaded| loaded.is_ok_and(|loaded| loaded.id() == program))
}

/// The kernel removes namespaces with a delay.
fn assert_gone(program: u32) {
    wait_until(&format!("program {program} is gone"), || !is_loaded(program));
}
