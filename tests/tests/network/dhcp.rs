//! A host that gets its address by DHCP beside a usual list of bogons: leases, renewals, its gateway and its name server
//! work, and everything else on the list is refused.

use std::{
    fs,
    net::UdpSocket,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use ratelimit_tests::{
    Daemon, Flood, Folder, Frame, PATIENCE, PEER_LINK, Process, Ratelimit, Sandbox, VICTIM_LINK, unpacked, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;

/// The entries of FireHOL's list of level 1 that are no addresses of strangers.
const BOGONS: &str = "0.0.0.0/8\n10.0.0.0/8\n100.64.0.0/10\n127.0.0.0/8\n169.254.0.0/16\n172.16.0.0/12\n192.0.0.0/24\n\
                      192.0.2.0/24\n192.168.0.0/16\n198.18.0.0/15\n198.51.100.0/24\n203.0.113.0/24\n224.0.0.0/4\n\
                      240.0.0.0/4\n";

/// The address of the router, which is the DHCP server, the gateway and the name server.
const ROUTER: &str = "192.168.7.1";

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status().unwrap();
    assert!(status.success(), "ip {words}");
}

/// A router in the peer's namespace, and a client in that of the victim.
struct Lease {
    folder: Folder,
    _server: Option<Process>,
    client: Option<Process>,
}

impl Lease {
    fn busybox(words: &str) -> Command {
        let mut command = unpacked::program("busybox-static", "busybox", "--help");
        command.args(words.split(' '));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Takes all addresses from both ends of the link, and starts the router.
    fn begin(sandbox: &Sandbox) -> Self {
        let folder = Folder::new();
        sandbox.peer(|| {
            ip(&format!("address flush dev {PEER_LINK}"));
            ip(&format!("link set {PEER_LINK} arp on address 02:00:00:00:00:02"));
            ip(&format!("address add {ROUTER}/24 dev {PEER_LINK}"));
        });
        sandbox.victim(|| {
            ip(&format!("address flush dev {VICTIM_LINK}"));
            ip(&format!("link set {VICTIM_LINK} arp on"));
        });
        let lease = Self { folder, _server: None, client: None };
        let leases = lease.path("leases");
        fs::write(&leases, "").unwrap();
        let file = format!(
            "interface {PEER_LINK}\nstart 192.168.7.50\nend 192.168.7.60\nlease_file {}\npidfile {}\n\
             option subnet 255.255.255.0\noption router {ROUTER}\noption dns {ROUTER}\noption lease 600\n",
            leases.display(),
            lease.path("server.pid").display()
        );
        fs::write(lease.path("udhcpd.conf"), file).unwrap();
        let script = format!(
            "#!/bin/sh\ncase $1 in\nbound|renew)\nip address replace $ip/$mask dev $interface\n\
             ip route replace default via $router dev $interface\nesac\necho \"$1 $ip\" >> {}\n",
            lease.path("told").display()
        );
        fs::write(lease.path("script"), script).unwrap();
        assert!(Command::new("chmod").arg("+x").arg(lease.path("script")).status().unwrap().success());
        let command = Self::busybox(&format!("udhcpd -f -I {ROUTER} {}", lease.path("udhcpd.conf").display()));
        Self { _server: Some(sandbox.start_at_peer(command)), ..lease }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.file().with_file_name(name)
    }

    /// Starts the client, and waits for its lease.
    fn first(&mut self, sandbox: &Sandbox) {
        let words = format!("udhcpc -f -i {VICTIM_LINK} -t 20 -T 1 -s {}", self.path("script").display());
        self.client = Some(sandbox.start(Self::busybox(&words)));
        self.wait("bound");
    }

    /// Has the client renew its lease, and waits for the answer.
    fn renew(&mut self) {
        let before = self.told("renew");
        self.client.as_ref().unwrap().signal(Signal::USR1);
        wait_until("no renewal", || self.told("renew") > before);
    }

    fn told(&self, what: &str) -> usize {
        fs::read_to_string(self.path("told")).unwrap_or_default().lines().filter(|line| line.starts_with(what)).count()
    }

    fn wait(&self, what: &str) {
        wait_until(&format!("never {what}"), || self.told(what) > 0);
    }
}

/// Returns whether the router answers a ping.
fn pings(sandbox: &Sandbox) -> bool {
    sandbox.output(&mut Lease::busybox(&format!("ping -c 1 -W 1 {ROUTER}"))).status.success()
}

/// Returns whether a name server on the router answers a socket that is not connected.
fn resolves(sandbox: &Sandbox) -> bool {
    let server = sandbox.peer(|| UdpSocket::bind((ROUTER, 53)).unwrap());
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut query = [0; 64];
            let (length, from) = server.recv_from(&mut query).unwrap();
            server.send_to(&query[..length], from).unwrap();
        });
        sandbox.victim(|| {
            let client = UdpSocket::bind("0.0.0.0:0").unwrap();
            client.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            client.send_to(b"query", (ROUTER, 53)).unwrap();
            client.recv_from(&mut [0; 64]).is_ok()
        })
    })
}

fn dropped(ratelimit: &Ratelimit<'_>, sandbox: &Sandbox, from: [u8; 4]) -> u64 {
    let count = || ratelimit.json("status")["reasons"]["listed"]["packets"].as_u64().unwrap();
    let before = count();
    Flood::of(Frame::udp(from, 9)).send(sandbox, 10);
    count() - before
}

fn prefixes(status: &Value) -> Vec<String> {
    let all = status["spared"]["prefixes"].as_array().unwrap();
    all.iter()
        .map(|place| format!("{} {}", place["source"].as_str().unwrap(), place["why"].as_str().unwrap()))
        .collect()
}

#[test]
fn leases_the_gateway_and_the_name_server_work_beside_a_list_of_bogons() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let mut lease = Lease::begin(&sandbox);
    // The host has no address yet, as when it boots.
    let folder = Folder::new();
    let feed = folder.file().with_file_name("bogons.txt");
    fs::write(&feed, BOGONS).unwrap();
    folder
        .write(&format!("interfaces = [\"eth0\"]\n[[list]]\nname = \"level1\"\nfile = {feed:?}\naction = \"deny\"\n"));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    // The first line names entries that are too wide for a list.
    while !daemon.line().contains("attached to eth0") {}
    assert!(
        prefixes(&ratelimit.json("status")).contains(&"192.168.0.0/16 until this host has an IPv4 address".to_owned())
    );
    lease.first(&sandbox);
    // The daemon follows. No command helps it: one that reads metrics changes nothing.
    let refused = || {
        let metrics = ratelimit.ok("metrics");
        let line = metrics
            .lines()
            .find(|line| line.starts_with("ratelimit_packets_total{") && line.contains("reason=\"listed\""))
            .unwrap();
        line.split_whitespace().last().unwrap().parse::<u64>().unwrap()
    };
    wait_until("what is no part of the network is still spared", || {
        Flood::of(Frame::udp([192, 168, 99, 1], 9)).send(&sandbox, 1);
        refused() > 0
    });
    let spared = prefixes(&ratelimit.json("status"));
    assert!(spared.contains(&"192.168.7.0/24 a connected network".to_owned()), "{spared:?}");
    assert!(!spared.iter().any(|place| place.starts_with("192.168.0.0/16")), "{spared:?}");
    lease.renew();
    assert!(pings(&sandbox) && resolves(&sandbox));
    // The rest of the list is refused, also what looks like the network.
    for from in [[192, 168, 99, 1], [10, 20, 0, 1], [172, 16, 0, 1], [203, 0, 113, 9]] {
        assert_eq!(dropped(&ratelimit, &sandbox, from), 10, "{from:?}");
    }
    assert_eq!(dropped(&ratelimit, &sandbox, [192, 168, 7, 1]), 0);
    daemon.end();

    // Without the daemon, limits and what is spared stay.
    lease.renew();
    assert!(pings(&sandbox) && resolves(&sandbox));
    // With --spare off, the list cuts the host off.
    ratelimit.ok("set --spare off");
    assert!(!pings(&sandbox) && !resolves(&sandbox));
    ratelimit.ok("set --spare on");
    assert!(pings(&sandbox) && resolves(&sandbox));
    ratelimit.ok("detach --all");
}

#[test]
fn loopback_works_beside_a_list_of_bogons() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach lo --mode generic");
    ratelimit.ok_with("list set level1 -", BOGONS);
    let answers = |address: &str| {
        sandbox.victim(|| {
            let server = UdpSocket::bind((address, 0)).unwrap();
            server.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let client = UdpSocket::bind((address, 0)).unwrap();
            client.send_to(b"query", server.local_addr().unwrap()).unwrap();
            server.recv_from(&mut [0; 64]).is_ok()
        })
    };
    assert!(answers("127.0.0.1") && answers("127.0.0.53") && answers("::1"));
    ratelimit.ok("set --spare off");
    assert!(!answers("127.0.0.1") && answers("::1"));
    ratelimit.ok("detach --all");
}
