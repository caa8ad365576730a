//! Datagrams of hosts without a server: from strangers, and from hosts that have the password and mean harm.

use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket},
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};
use ratelimit_common::fleet::share::{Limit, Report, Terms};
use ratelimit_fleet::{
    engine::Message,
    gossip::{mesh::Mesh, settings::Settings},
    key::Key,
};
use ratelimit_protocol::fleet::About;
use ratelimit_tests::{PATIENCE, Sandbox, generate::random::Random};
use ring::hmac;
use tokio::runtime::{Builder, Runtime};

use super::{mutate::mutated, target::Target};

const PASSWORD: &str = "a password of this fleet";
/// The address of the host that is fuzzed.
const HOST: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7947);
/// Bytes of a seal.
const SEAL: usize = 32;
/// Datagrams between two looks at the host.
const BETWEEN_LOOKS: u64 = 64;
/// Kinds of datagrams: a greeting, counts, and a farewell.
const KINDS: [u8; 3] = [0, 1, 2];

pub(super) struct Datagrams {
    socket: UdpSocket,
    mesh: Mesh,
    seal: hmac::Key,
    /// The first bytes of each datagram.
    magic: [u8; 4],
    /// The session of the host.
    session: [u8; 8],
    own: SocketAddr,
    number: u64,
    message: Message,
    _runtime: Runtime,
}

impl Datagrams {
    pub(super) fn new(sandbox: &Sandbox) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let socket = sandbox.victim(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let own = socket.local_addr()?;
        let settings = Settings::new(Some(&HOST.to_string()), &[own.to_string()], Some(PASSWORD.to_owned()));
        let settings = settings.map_err(|(key, problem)| anyhow::anyhow!("{key}: {problem}"))?;
        let mesh = sandbox.victim(|| {
            let _inside = runtime.enter();
            Mesh::open(&settings)
        })?;
        let mut greeting = [0; 2_048];
        let length = socket.recv(&mut greeting).context("the host greets nobody")?;
        let seal = hmac::Key::new(hmac::HMAC_SHA256, PASSWORD.as_bytes());
        let text = length.checked_sub(SEAL).and_then(|end| greeting.get(..end)).context("the greeting is too short")?;
        ensure!(hmac::verify(&seal, text, &greeting[text.len()..length]).is_ok(), "the greeting has another seal");
        let (magic, session) = (greeting[..4].try_into()?, greeting[5..13].try_into()?);
        let limit = Limit { rate: 1_000.0, burst: 100.0 };
        let report = Report { offered: 200.0, admitted: 100.0, own: 600.0, weight: 1.0, record: 0 };
        let message = Message { key: Key::of("192.0.2.1", &limit), limit, report };
        Ok(Self { socket, mesh, seal, magic, session, own, number: 0, message, _runtime: runtime })
    }

    /// Returns a datagram of this kind without its seal.
    fn datagram(&mut self, kind: u8, from: u64, body: &[u8]) -> Vec<u8> {
        self.number += 1;
        let SocketAddr::V4(own) = self.own else { return Vec::new() };
        let mut bytes = self.magic.to_vec();
        bytes.push(kind);
        bytes.extend(from.to_le_bytes());
        bytes.extend(self.session);
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(1_f64.to_le_bytes());
        bytes.extend(own.ip().to_ipv6_mapped().octets());
        bytes.extend(own.port().to_le_bytes());
        bytes.extend(body);
        bytes
    }

    fn send(&self, mut datagram: Vec<u8>) -> Result<()> {
        datagram.extend(hmac::sign(&self.seal, &datagram).as_ref());
        self.socket.send_to(&datagram, HOST)?;
        Ok(())
    }

    /// Checks that the host still hears others, and answers reports.
    fn look(&mut self) -> Result<()> {
        let (begin, about) = (Instant::now(), About { weight: 1.0, ..About::default() });
        // Farewells may have ended all other hosts.
        let hosts = loop {
            if let Ok(hosts) = self.mesh.beat("own", &about) {
                break hosts;
            }
            ensure!(begin.elapsed() < PATIENCE, "the host hears nobody any more");
            // A session of its own, since the numbers of the other ones may be used up.
            let greeting = self.datagram(KINDS[0], 1_000 + self.number, &[0, 0]);
            self.send(greeting)?;
            thread::yield_now();
        };
        let terms = Terms::default();
        let (answers, _) = self.mesh.report(&terms, std::slice::from_ref(&self.message));
        for answer in answers.into_iter().flatten() {
            self.message.report.record = answer.record;
            let share = answer.share.unwrap_or(1.0);
            ensure!((terms.least..=1.0).contains(&share), "the share is {share}");
        }
        if hosts.count > 257 || hosts.members.len() > 64 {
            bail!("the host knows {} others, and shows {}", hosts.count, hosts.members.len());
        }
        Ok(())
    }
}

impl Target for Datagrams {
    fn next(&mut self, random: &mut Random) -> Result<&'static str> {
        let (kind, from) = (random.among(&KINDS), random.among(&[1, 2, 3]));
        // A name, a birth, what was offered and admitted, a demand and a level.
        let record = [&[7; 16][..], &[1, 0, 0, 0], &1_f64.to_le_bytes(), &1_f64.to_le_bytes(), &[0; 8]].concat();
        let says = br#"{"id":"x","name":"y","version":"1","weight":1.0,"limit":"1/s"}"#;
        let hello = [&(says.len() as u16).to_le_bytes()[..], says, &[0; 36]].concat();
        let bodies = [hello, record.repeat(1 + random.below(25)), Vec::new()];
        let whole = self.datagram(kind, from, &mutated(&bodies, random));
        let mut datagram = if random.percent(30) { mutated(&[whole], random) } else { whole };
        datagram.truncate(1_232 - SEAL);
        if self.number.is_multiple_of(BETWEEN_LOOKS) {
            self.look()?;
        }
        if random.percent(20) {
            datagram.extend([0; SEAL]);
            self.socket.send_to(&datagram, HOST)?;
            return Ok("without a seal");
        }
        self.send(datagram)?;
        Ok("with a seal")
    }
}
