//! The socket of a host, and the tasks that use it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdUdpSocket},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ratelimit_common::fleet::share::{Answer, Terms};
use ratelimit_protocol::fleet::{About, Places};
use rustix::{
    net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, sendto, socket_with, sockopt},
    rand::{GetRandomFlags, getrandom},
};
use tokio::{
    net::UdpSocket,
    sync::Notify,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::{
    datagram::MOST,
    message::Message,
    seal::Secret,
    settings::Settings,
    state::{Send, State},
};
use crate::{error::Error, members::Hosts};

/// Time between two greetings.
const GREETINGS: Duration = Duration::from_millis(500);
/// Time between two look-ups of names.
const NAMES: Duration = Duration::from_secs(30);
/// Bytes of datagrams that may wait. Each one counts as much as the memory that it takes.
const WAITING: usize = 8 << 20;
/// Time after an error of the socket.
const REST: Duration = Duration::from_millis(10);

/// This host among others. Copies share it. The last one ends it.
#[derive(Clone)]
pub struct Mesh {
    shared: Arc<Shared>,
    _tasks: Arc<JoinSet<()>>,
}

struct Shared {
    socket: UdpSocket,
    address: SocketAddr,
    begin: Instant,
    state: Mutex<State>,
    news: Notify,
}

impl Mesh {
    /// Listens, and begins to greet other hosts.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Listen`] if another program has the address, or the host does not.
    pub fn open(settings: &Settings) -> Result<Self, Error> {
        let (socket, address) = listen(settings)?;
        let mut state = State::new(Secret::new(settings.secret()), random()?, random::<u64>()? as u32);
        state.configure(&settings.addresses());
        let (begin, news) = (Instant::now(), Notify::new());
        let shared = Arc::new(Shared { socket, address, begin, state: Mutex::new(state), news });
        let mut tasks = JoinSet::new();
        tasks.spawn(receive(Arc::clone(&shared)));
        tasks.spawn(greet(Arc::clone(&shared)));
        if settings.has_names() {
            tasks.spawn(follow_names(Arc::clone(&shared), settings.clone()));
        }
        Ok(Self { shared, _tasks: Arc::new(tasks) })
    }

    /// Waits until another host is alive. Returns at once if the file names none.
    pub(crate) async fn company(&self) {
        loop {
            let news = self.shared.news.notified();
            if self.shared.with(|state, now, _| state.has_company(now)) {
                return;
            }
            news.await;
        }
    }

    /// Tells the other hosts what this one reports, and returns the answers.
    #[must_use]
    pub fn report(&self, terms: &Terms, messages: &[Message]) -> (Vec<Option<Answer>>, Option<Error>) {
        self.shared.with(|state, now, send| state.report(terms, messages, now, send))
    }

    /// Takes what this host says about itself, and returns all hosts.
    ///
    /// # Errors
    ///
    /// [`Error::Alone`] if the file names other hosts, and none is alive.
    pub fn beat(&self, id: &str, about: &About) -> Result<Hosts, Error> {
        self.shared.with(|state, now, _| state.beat(id, about, now))
    }

    /// Tells all hosts that this one goes.
    pub(crate) fn leave(&self) {
        self.shared.with(State::leave);
    }

    /// Returns the port of this host, and where the others are.
    #[must_use]
    pub fn places(&self) -> Places {
        let mut peers = self.shared.with(|state, now, _| state.peers.places(now));
        peers.sort_unstable();
        peers.dedup();
        Places { port: self.shared.address.port(), peers }
    }

    /// Returns how many other hosts are alive, and how many there are.
    #[must_use]
    pub fn count(&self) -> [usize; 2] {
        self.shared.with(|state, now, _| [state.peers.alive(now).count(), state.peers.count(now)])
    }
}

impl Shared {
    /// Calls `work` with the state, the time in seconds, and a function that sends. What cannot be sent at once is lost.
    fn with<T>(&self, work: impl FnOnce(&mut State, f64, Send<'_>) -> T) -> T {
        let mut send = |address, bytes: &[u8]| {
            let _ = sendto(&self.socket, bytes, SendFlags::DONTWAIT, &self.mapped(address));
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut state, self.begin.elapsed().as_secs_f64(), &mut send)
    }

    /// Returns the address of this host on the way to another one.
    fn local(&self, other: SocketAddr) -> Option<SocketAddr> {
        if !self.address.ip().is_unspecified() {
            return Some(SocketAddr::new(self.address.ip().to_canonical(), self.address.port()));
        }
        let any: IpAddr = if other.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = StdUdpSocket::bind((any, 0)).ok()?;
        // Nothing is sent: the kernel selects a route.
        socket.connect(other).ok()?;
        Some(SocketAddr::new(socket.local_addr().ok()?.ip().to_canonical(), self.address.port()))
    }

    /// Returns an address as a socket for both versions of IP needs it.
    fn mapped(&self, address: SocketAddr) -> SocketAddr {
        match address.ip() {
            IpAddr::V4(ip) if self.address.is_ipv6() => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
            _ => address,
        }
    }
}

async fn receive(shared: Arc<Shared>) {
    // A longer datagram is cut, and is none of a host.
    let mut buffer = [0; MOST + 1];
    loop {
        match shared.socket.recv_from(&mut buffer).await {
            Ok((length, from)) => {
                let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                let datagram = buffer.get(..length).filter(|_| length <= MOST).unwrap_or_default();
                shared.with(|state, now, send| state.receive(datagram, from, now, send));
                shared.news.notify_waiters();
            }
            Err(_) => sleep(REST).await,
        }
    }
}

async fn greet(shared: Arc<Shared>) {
    let mut greetings = interval(GREETINGS);
    greetings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        greetings.tick().await;
        shared.with(|state, now, send| state.tick(now, &|address| shared.local(address), send));
        shared.news.notify_waiters();
    }
}

async fn follow_names(shared: Arc<Shared>, settings: Settings) {
    loop {
        let addresses = settings.resolve().await;
        shared.with(|state, _, _| state.configure(&addresses));
        sleep(NAMES).await;
    }
}

fn listen(settings: &Settings) -> Result<(UdpSocket, SocketAddr), Error> {
    let [first, second] = settings.listen();
    let at = |address| socket(address).and_then(UdpSocket::from_std).map(|socket| (socket, address));
    at(first).or_else(|_| at(second)).map_err(|error| Error::Listen { address: second, error })
}

fn socket(address: SocketAddr) -> io::Result<StdUdpSocket> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    // The datagrams of all hosts may come at once. Only an administrator may have so much.
    if sockopt::set_socket_recv_buffer_size_force(&socket, WAITING).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(&socket, WAITING);
    }
    bind(&socket, &address)?;
    Ok(socket.into())
}

/// Returns a random number that others cannot guess.
fn random<T: From<u64>>() -> Result<T, Error> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|error| Error::Server(error.to_string()))?;
    Ok(u64::from_ne_bytes(bytes).into())
}
