//! A receiving socket of the victim, and the product's counters of a source.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, UdpSocket},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ratelimit_tests::{Ratelimit, Sandbox, Stamped, StampedSocket};
use rustix::net::sockopt;
use serde_json::Value;

pub(crate) const PORT: u16 = 9;
pub(crate) const FLOODER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 66);
pub(crate) const BEHAVED: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 10);

/// Takes the lock of these tests, since a flood needs a whole CPU.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A failed test leaves no state behind.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Arrivals at a socket of the victim, by source address.
#[derive(Default)]
pub(crate) struct Received(Mutex<HashMap<IpAddr, Arrivals>>);

#[derive(Clone, Copy, Default)]
pub(crate) struct Arrivals {
    pub(crate) count: u64,
    /// When the kernel received the first and the last one, since 1970.
    first: Duration,
    last: Duration,
}

impl Arrivals {
    pub(crate) fn seconds(&self) -> f64 {
        (self.last - self.first).as_secs_f64()
    }

    /// Returns how many came after these other ones, and in how many seconds.
    pub(crate) fn since(&self, before: &Self) -> (u64, f64) {
        (self.count - before.count, (self.last - before.last).as_secs_f64())
    }
}

impl Received {
    fn add(&self, Stamped { from, at }: Stamped) {
        let mut all = self.0.lock().unwrap();
        let arrivals = all.entry(from).or_insert(Arrivals { count: 0, first: at, last: at });
        *arrivals = Arrivals { count: arrivals.count + 1, last: at, ..*arrivals };
    }

    pub(crate) fn from(&self, source: impl Into<IpAddr>) -> Arrivals {
        self.0.lock().unwrap().get(&source.into()).copied().unwrap_or_default()
    }

    /// Returns the arrivals of a source that sends all the time, as soon as one is counted that the kernel received
    /// after now.
    pub(crate) fn up_to_now(&self, source: impl Into<IpAddr>) -> Arrivals {
        let (source, now) = (source.into(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
        loop {
            let arrivals = self.from(source);
            if arrivals.last > now {
                return arrivals;
            }
            thread::yield_now();
        }
    }

    /// Returns the arrivals of all sources together.
    pub(crate) fn of_all(&self) -> Arrivals {
        let all = self.0.lock().unwrap();
        let (first, last) = (all.values().map(|one| one.first).min(), all.values().map(|one| one.last).max());
        let count = all.values().map(|one| one.count).sum();
        Arrivals { count, first: first.unwrap_or_default(), last: last.unwrap_or_default() }
    }
}

/// Runs `work` while a socket of the victim receives.
pub(crate) fn receiving<T>(sandbox: &Sandbox, work: impl FnOnce(&Received) -> T) -> (T, Received) {
    let socket = sandbox.victim(|| UdpSocket::bind((std::net::Ipv6Addr::UNSPECIFIED, PORT))).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    // The buffer holds a second's packets while other programs have the CPU.
    sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).unwrap();
    let socket = StampedSocket::new(socket);
    let (received, done) = (Received::default(), AtomicBool::new(false));
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                match socket.receive() {
                    Ok(packet) => received.add(packet),
                    // The receiver ends only when the socket is empty, so it counts every arrival.
                    Err(_) if done.load(Ordering::Relaxed) => return,
                    Err(_) => {}
                }
            }
        });
        let _done = Done(&done);
        work(&received)
    });
    (result, received)
}

/// Ends the receiver if `work` panics.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the product's row of one source.
pub(crate) fn source(ratelimit: &Ratelimit<'_>, name: &str) -> Value {
    let sources = ratelimit.json("sources -n 1000");
    sources.as_array().unwrap().iter().find(|row| row["source"] == name).unwrap_or(&Value::Null).clone()
}

pub(crate) fn passed(row: &Value) -> u64 {
    row["passed"]["packets"].as_u64().unwrap_or(0)
}

#[track_caller]
pub(crate) fn assert_within(actual: u64, expected: f64, tolerance: f64) {
    let difference = (actual as f64 - expected).abs() / expected;
    assert!(difference <= tolerance, "{actual} is {:.1} % off {expected:.0}", difference * 100.0);
}
