//! A real driver with its own receive buffers: virtio_net, in the guests of `cargo xtask vm`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    env,
    fs::File,
    net::Ipv4Addr,
    os::fd::AsRawFd as _,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
};

use ratelimit_tests::{Frame, MAC, Ratelimit, Sandbox, VICTIM_LINK, kernel_at_least, send_raw, wait_until};
use serde_json::{Value, json};

/// The guest's network cards. The victim's card has the name of the veth end in other tests.
const CARDS: [&str; 2] = [VICTIM_LINK, "eth1"];

/// Returns a UDP frame to a port without a listener.
fn frame() -> Frame {
    Frame::udp(Ipv4Addr::new(10, 9, 0, 66), 9)
}

#[test]
#[ignore = "needs two virtio network cards: cargo xtask vm runs this in its guests"]
fn a_limit_is_exact_on_a_real_driver() {
    let cards = Cards::with_mtu(1_500);
    exactly_the_burst_passes(&cards, &frame(), 5, 1_000);
}

#[test]
#[ignore = "needs two virtio network cards: cargo xtask vm runs this in its guests"]
fn jumbo_frames_are_limited_on_a_multi_buffer_driver() {
    let cards = Cards::with_mtu(9_000);
    if kernel_at_least(6, 3) {
        // The largest frame of this MTU, longer than any buffer of the driver.
        exactly_the_burst_passes(&cards, &frame().length(9_014), 5, 50);
    } else {
        let ratelimit = Ratelimit::new(&cards.sandbox);
        let line = ratelimit.fails(&format!("attach {VICTIM_LINK}"));
        assert!(line.contains("MTU"), "{line}");
        // No packet has another reason.
        cards.sandbox.ip(&format!("link set {VICTIM_LINK} mtu 1500"));
        ratelimit.ok(&format!("attach {VICTIM_LINK}"));
        ratelimit.ok("detach --all");
    }
}

/// Sends `count` frames under a limit and asserts that exactly `burst` of them pass.
#[track_caller]
fn exactly_the_burst_passes(cards: &Cards, frame: &Frame, burst: u64, count: u64) {
    let ratelimit = Ratelimit::new(&cards.sandbox);
    // A sample would represent more packets than were sent.
    ratelimit.ok(&format!("attach {VICTIM_LINK} --packets 1/h --burst {burst} --sample off"));
    let status = ratelimit.json("status");
    assert_eq!(status["interfaces"][0]["mode"], "native", "{status}");
    cards.send(frame, count);
    let (status, sources) = (ratelimit.json("status"), ratelimit.json("sources"));
    let (reasons, source) = (&status["reasons"], &sources[0]);
    assert_eq!(packets(&reasons["within-limit"]), burst, "{status}");
    assert_eq!(packets(&reasons["over-packets"]), count - burst, "{status}");
    assert_eq!(source["source"], "10.9.0.66", "{sources}");
    let bytes = frame.bytes().len() as u64;
    for (traffic, packets) in [("passed", burst), ("dropped", count - burst)] {
        let counted = (&source[traffic]["packets"], &source[traffic]["bytes"]);
        assert_eq!(counted, (&json!(packets), &json!(packets * bytes)), "{traffic}: {sources}");
    }
    ratelimit.ok("detach --all");
}

#[track_caller]
fn packets(counter: &Value) -> u64 {
    counter["packets"].as_u64().unwrap()
}

/// Two cards on one wire instead of a veth pair, one in each namespace.
struct Cards {
    sandbox: Sandbox,
    /// There are only two cards, so one test at a time.
    _alone: MutexGuard<'static, ()>,
}

impl Cards {
    /// Moves the cards from the guest's namespace into the sandbox.
    fn with_mtu(mtu: u32) -> Self {
        // On other machines these interfaces may carry the operator's connection.
        assert!(
            env::var_os("RATELIMIT_GUEST").is_some(),
            "this test moves eth0 and eth1: run it by `cargo xtask vm` only"
        );
        static TURN: Mutex<()> = Mutex::new(());
        // A failed test has returned the cards.
        let alone = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let sandbox = Sandbox::new();
        sandbox.ip(&format!("link del {VICTIM_LINK}"));
        let [victim, peer] = [sandbox.victim(network), sandbox.peer(network)];
        for (card, namespace) in CARDS.into_iter().zip([&victim, &peer]) {
            ip(&format!("link set {card} netns {}", path(namespace)));
        }
        let cards = Self { sandbox, _alone: alone };
        let [a, b, c, d, e, f] = MAC;
        let address = format!("address {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
        cards.both(|card| {
            ip(&format!("link set {card} {address} mtu {mtu} arp off addrgenmode none up"));
        });
        cards.both(|card| {
            wait_until(&format!("{card} has its carrier"), || link(card)["operstate"] == "UP");
        });
        cards
    }

    /// Runs `work` with each card in its namespace.
    fn both(&self, work: impl Fn(&str) + Sync) {
        self.sandbox.victim(|| work(CARDS[0]));
        self.sandbox.peer(|| work(CARDS[1]));
    }

    /// Sends `count` frames from the peer's card and waits until the victim's card has received them.
    fn send(&self, frame: &Frame, count: u64) {
        let received = || self.sandbox.victim(|| link(VICTIM_LINK)["stats64"]["rx"]["packets"].as_u64().unwrap());
        let before = received();
        self.sandbox.peer(|| send_raw(CARDS[1], &frame.bytes(), count as usize));
        wait_until(&format!("{count} frames arrive"), || received() == before + count);
    }
}

impl Drop for Cards {
    /// Returns the cards at once. The kernel would do so only some time after the namespaces end.
    fn drop(&mut self) {
        let guest = network();
        self.both(|card| {
            ip(&format!("link set {card} down mtu 1500"));
            ip(&format!("link set {card} netns {}", path(&guest)));
        });
    }
}

/// Opens the network namespace of the calling thread.
fn network() -> File {
    File::open("/proc/thread-self/ns/net").unwrap()
}

/// Returns a path to the namespace for other processes.
fn path(namespace: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd())
}

/// Runs `ip` in the calling thread's namespace and returns its output.
fn ip(words: &str) -> String {
    let output = Command::new("ip").args(words.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the kernel's description of a link in the calling thread's namespace.
fn link(name: &str) -> Value {
    serde_json::from_str::<Value>(&ip(&format!("-json -statistics link show {name}"))).unwrap()[0].take()
}
