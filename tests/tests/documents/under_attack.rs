//! The section of the README for an operator under attack: its commands, as they stand there, against floods.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Flood, Frame, PATIENCE, PEER_IPV4, Ratelimit, Sandbox, Sink, VICTIM_IPV4, scaled, wait_until};
use xtask::documents::console::{Line, lines};

use crate::{examples, pages};

const HEADING: &str = "## I am under attack now";
/// Half a screen.
const MOST_LINES: usize = 25;
/// Packets per second of a flood, which leave the connections some time of the CPUs.
const FLOOD: u32 = 100_000;
/// Packets per second that are more than each limit lets through. A loaded machine does not keep the pace.
const ENOUGH: u64 = 15_000;
/// The time in which packets are counted.
const TIME: Duration = Duration::from_secs(2);

/// Returns the commands of the section.
fn section() -> Vec<Line> {
    let pages = pages();
    let readme = pages.iter().find(|page| page.name == "README.md").unwrap();
    let mut headings = (1..).zip(readme.text.lines()).filter(|(_, line)| line.starts_with("## "));
    let [(begin, first), (end, _)] = [headings.next().unwrap(), headings.next().unwrap()];
    assert_eq!(first, HEADING, "the section follows the introduction");
    assert!(end - begin <= MOST_LINES, "the section has {} lines", end - begin);
    lines(readme).into_iter().filter(|line| (begin..end).contains(&line.line)).collect()
}

/// Returns the packets that have arrived at the network stack of the victim.
fn arrived(sandbox: &Sandbox) -> u64 {
    let counters = sandbox.victim(|| fs::read_to_string("/proc/thread-self/net/snmp")).unwrap();
    let line = counters.lines().filter(|line| line.starts_with("Ip: ")).nth(1).unwrap();
    line.split(' ').nth(3).unwrap().parse().unwrap()
}

/// Returns how many packets per second arrive now.
fn arriving(sandbox: &Sandbox) -> u64 {
    let (before, begin) = (arrived(sandbox), Instant::now());
    thread::sleep(TIME);
    let packets = arrived(sandbox) - before;
    (packets as f64 / begin.elapsed().as_secs_f64()) as u64
}

/// Sends back what each connection sends.
fn echo(sandbox: &Sandbox) -> SocketAddr {
    let listener = sandbox.victim(|| TcpListener::bind((VICTIM_IPV4, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            // The test may end first.
            thread::spawn(move || std::io::copy(&mut connection.try_clone()?, &mut connection));
        }
    });
    address
}

fn connect(sandbox: &Sandbox, address: SocketAddr) -> TcpStream {
    let connection = sandbox.peer(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection
}

/// Exchanges bytes for which no packet was lost: TCP would repeat one after 200 ms at the earliest.
fn goes_on(mut connection: &TcpStream) {
    let begin = Instant::now();
    for byte in 0..100 {
        let mut answer = [0];
        connection.write_all(&[byte]).unwrap();
        connection.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [byte]);
    }
    let time = begin.elapsed();
    assert!(time < scaled(Duration::from_secs(2)), "100 exchanges took {time:?}");
}

#[test]
fn the_five_commands_under_attack_stop_a_flood_and_an_open_connection_goes_on() {
    let commands = section();
    let [attach, status, deny, cookies, unknown] = commands.as_slice() else { panic!("{commands:?}") };
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // A veth delivers answers only to a peer that has a program.
    let _peer = Sink::at_the_peer(&sandbox);
    let programs = examples::programs(&ratelimit);
    let run = |line: &Line| match examples::status(&sandbox, line, &programs.file().with_file_name("")) {
        Ok((0, text)) => text,
        other => panic!("`{}`: {other:?}", line.text),
    };
    let address = echo(&sandbox);
    let open = connect(&sandbox, address);

    let attacker = Ipv4Addr::new(203, 0, 113, 66);
    let flood = Flood::of(Frame::udp(attacker, 9)).busy_pace(FLOOD).start(&sandbox);
    let before = arriving(&sandbox);
    assert!(before > ENOUGH, "{before} packets/s arrive without a limit");
    run(attach);
    goes_on(&open);
    let limited = arriving(&sandbox);
    // Up to the burst of a second more.
    assert!((4_000..=7_700).contains(&limited), "{limited} packets/s arrive within a limit of 5000/s");
    let advice = run(status);
    assert!(advice.contains(&format!("`{}`", deny.text)), "{advice}");
    run(deny);
    goes_on(&open);
    let denied = arriving(&sandbox);
    assert!(denied < 100, "{denied} packets/s arrive of a denied source");
    flood.stop();

    // Each packet has a new source, which is within its limit.
    let syn = Frame::syn(Ipv4Addr::new(192, 0, 2, 1), address.port());
    let flood = Flood::of(syn).endless(0).busy_pace(FLOOD).start(&sandbox);
    let before = arriving(&sandbox);
    assert!(before > ENOUGH, "{before} forged packets/s arrive without a limit of unknown sources");
    // The command has to have seen enough sources.
    wait_until("the packets are called likely forged", || run(status).contains("likely forged"));
    run(cookies);
    run(unknown);
    goes_on(&open);
    let limited = arriving(&sandbox);
    assert!(limited < 12_000, "{limited} packets/s of unknown sources arrive within 10k/s");
    goes_on(&open);
    goes_on(&connect(&sandbox, address));
    assert_eq!(ratelimit.json(&format!("why {PEER_IPV4}"))["unknown"]["is_known"], true);
    flood.stop();
    ratelimit.ok("detach --all");
}
