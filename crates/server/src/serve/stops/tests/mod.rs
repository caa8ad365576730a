//! Requests to a daemon, over a real socket.

mod metric;

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    net::IpAddr,
    ops::RangeInclusive,
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    process,
    sync::atomic::{AtomicU32, Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ratelimit_limiter::{Algorithm, Limit, Rate};

use super::{asked::PAUSE, *};

const SECOND: u64 = 1_000_000_000;
/// A time at which requests of before are forgotten.
const BEGIN: u64 = 1_200 * SECOND;
const WOULD_STOP: &str = r#"{"outcome":"would-stop","source":"10.0.0.1","port":443,"seconds":20,"times":1}"#;

/// A path for a socket, which is removed when this is dropped.
struct Socket(PathBuf);

impl Socket {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(env::temp_dir().join(format!("ratelimit-stops-{}-{number}", process::id())))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A limiter with one rule by user that stops its clients, and refuses nearly all requests.
fn limiter() -> Limiter {
    let limit = Limit::new(Rate { amount: 1, period: 86_400 * SECOND }, None, Algorithm::TokenBucket).unwrap();
    let rule = Rule::new("login", [limit]).unwrap().by(["user", "key"]).with_stop(true);
    Limiter::new([rule], [1, 2])
}

fn connection(address: u32) -> Connection {
    let remote = (IpAddr::from(address.to_be_bytes()), 51_000).into();
    Connection { local: "192.0.2.1:443".parse().unwrap(), remote }
}

/// Has a user ask from an address, ten times per second.
fn flood(stops: &Stops, limiter: &Limiter, address: Option<u32>, tenths: RangeInclusive<u64>) {
    let attributes = [("user", "17"), ("key", "secret")];
    for tenth in tenths {
        let now = BEGIN + tenth * SECOND / 10;
        let decision = limiter.check(&attributes, 1, now);
        stops.note(&attributes, address.map(connection).into(), decision.stop, now);
    }
}

fn started(socket: &Path) -> (Stops, Sender, Limiter) {
    let (stops, sender) = Stops::new(socket.to_owned(), [1, 2]);
    let limiter = limiter();
    stops.change(&limiter);
    (stops, sender, limiter)
}

fn count(stops: &Stops, outcome: &str) -> u64 {
    let mut page = String::new();
    stops.write(&mut page);
    let line = format!("ratelimit_check_stops_total{{outcome=\"{outcome}\"}} ");
    page.lines().find_map(|found| found.strip_prefix(&line)).unwrap().parse().unwrap()
}

/// Sends requests about these addresses, one after the other.
fn send(sender: &mut Sender, addresses: impl IntoIterator<Item = u32>) -> Vec<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ask = |address| Ask { line: b"{}".to_vec(), place: (IpAddr::V4(address), 443), at: 0 };
    runtime.block_on(async {
        let mut outcomes = Vec::new();
        for address in addresses {
            outcomes.push(sender.send(&ask(address.into())).await);
        }
        // The connection belongs to this runtime.
        sender.close();
        outcomes
    })
}

/// A daemon that answers each line of the first connection in this way.
fn daemon(socket: &Path, answer: impl Fn(&mut UnixStream) + Send + 'static) -> JoinHandle<Vec<String>> {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        lines.map_while(Result::ok).inspect(|_| answer(&mut stream)).collect()
    })
}

#[test]
fn a_client_is_asked_for_once_until_its_limit_has_ended() {
    let socket = Socket::new();
    let daemon = daemon(&socket.0, |stream| writeln!(stream, "{WOULD_STOP}").unwrap());
    let (stops, mut sender, limiter) = started(&socket.0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = |sender: &mut Sender| {
        let ask = sender.asks.try_recv().ok()?;
        Some((runtime.block_on(sender.send(&ask)), (ask.at - BEGIN) / SECOND))
    };
    flood(&stops, &limiter, Some(1), 0..=99);
    assert_eq!(outcome(&mut sender), None);
    // Enough is known after ten seconds. The limit lasts for twenty.
    flood(&stops, &limiter, Some(1), 100..=100);
    assert_eq!(outcome(&mut sender), Some((Outcome::WouldStop, 10)));
    flood(&stops, &limiter, Some(1), 101..=299);
    assert_eq!(outcome(&mut sender), None);
    flood(&stops, &limiter, Some(1), 300..=300);
    assert_eq!(outcome(&mut sender), Some((Outcome::WouldStop, 30)));
    // Another port of this host is another service.
    let other = Connection { local: "192.0.2.1:80".parse().unwrap(), ..connection(1) };
    let attributes = [("user", "17"), ("key", "secret")];
    let now = BEGIN + 40 * SECOND;
    stops.note(&attributes, Named::Connection(other), limiter.check(&attributes, 1, now).stop, now);
    assert_eq!(outcome(&mut sender), Some((Outcome::WouldStop, 40)));
    drop((runtime, sender));
    let lines = daemon.join().unwrap();
    assert_eq!(lines.len(), 3);
    let request = Request::read(lines[0].as_bytes()).unwrap();
    assert_eq!((request.rule.as_str(), request.connection), ("login", connection(1)));
    // Keys are secrets.
    assert!(request.client.starts_with("user=17 key=…") && !lines.concat().contains("secret"), "{request:?}");
}

#[test]
fn a_request_without_a_connection_or_from_a_shared_address_is_not_sent() {
    let socket = Socket::new();
    let (stops, mut sender, limiter) = started(&socket.0);
    flood(&stops, &limiter, None, 0..=199);
    assert_eq!((count(&stops, "no_connection"), count(&stops, "early")), (199, 0));
    for user in ["1", "2", "3"] {
        let attributes = [("user", user), ("key", "x")];
        stops.note(&attributes, Named::Connection(connection(1)), None, BEGIN);
    }
    flood(&stops, &limiter, Some(1), 0..=199);
    // A client without a count of its own is refused once within a second.
    assert_eq!((count(&stops, "early"), count(&stops, "shared")), (0, 20));
    // Without rules that stop clients, nothing is counted.
    stops.change(&Limiter::new([], [1, 2]));
    flood(&stops, &limiter, Some(2), 0..=199);
    assert!(sender.asks.try_recv().is_err());
}

#[test]
fn a_caller_that_names_no_connection_has_nobody_stopped() {
    let socket = Socket::new();
    let (stops, mut sender, limiter) = started(&socket.0);
    let attributes = [("user", "17"), ("key", "secret"), ("ip", "0.0.0.1")];
    let note = |connection, tenth: u64| {
        let now = BEGIN + tenth * SECOND / 10;
        stops.note(&attributes, connection, limiter.check(&attributes, 1, now).stop, now);
    };
    (0..100).for_each(|tenth| note(Named::Nothing, tenth));
    // The client itself is refused once, and then goes on.
    (100..250).for_each(|tenth| note(Named::Connection(connection(1)), tenth));
    assert!(sender.asks.try_recv().is_err());
    // Once within a second: fewer than ten times at first.
    assert_eq!(["no_connection", "early", "shared"].map(|outcome| count(&stops, outcome)), [99, 9, 6]);
}

#[test]
fn a_connection_that_is_not_allowed_or_that_of_a_proxy_counts_as_what_it_is() {
    let (stops, mut sender, limiter) = started(&Socket::new().0);
    let outcomes = || ["no_connection", "not_allowed", "early", "shared", "proxied"].map(|name| count(&stops, name));
    let attributes = [("user", "17"), ("key", "secret"), ("ip", "198.51.100.1")];
    let note = |named, tenth: u64| {
        let now = BEGIN + tenth * SECOND / 10;
        stops.note(&attributes, named, limiter.check(&attributes, 1, now).stop, now);
    };
    (0..=3).for_each(|tenth| note(Named::NotAllowed, tenth));
    assert_eq!(outcomes(), [0, 3, 0, 0, 0]);
    (100..=149).for_each(|tenth| note(Named::Connection(connection(1)), tenth));
    assert_eq!(outcomes(), [0, 3, 0, 0, 5]);
    assert!(sender.asks.try_recv().is_err());
}

#[test]
fn the_descriptors_of_a_request_are_one_client() {
    let (stops, mut sender, limiter) = started(&Socket::new().0);
    let named = vec![("user", "17"), ("key", "secret")];
    let mut flood = |address: u32, is_one: bool, others: &[Vec<(&str, &str)>]| {
        for tenth in 0..=120 {
            let now = BEGIN + tenth * SECOND / 10;
            let stop = limiter.check(&named, 1, now).stop;
            let of = |attributes| (attributes, Named::Connection(connection(address)), None);
            let mut parts: Vec<_> = others.iter().map(of).collect();
            parts.push((&named, Named::Connection(connection(address)), stop));
            parts.chunks(if is_one { parts.len() } else { 1 }).for_each(|parts| stops.note_parts(parts, now));
        }
        std::iter::from_fn(|| sender.asks.try_recv().ok()).count() > 0
    };
    let path = vec![("path", "/login")];
    assert!(flood(1, true, &[path.clone(), vec![("path", "/"), ("key", "secret")]]));
    // As requests of their own, they are those of another client.
    assert!(!flood(2, false, std::slice::from_ref(&path)));
    // Another user is another client in any case, and so is a client of a proxy.
    assert!(!flood(3, true, &[vec![("user", "18"), ("key", "x")]]));
    assert!(!flood(4, true, &[vec![("ip", "203.0.113.9")]]));
}

#[test]
fn requests_beyond_the_queue_are_dropped_and_counted() {
    let socket = Socket::new();
    let (stops, sender, limiter) = started(&socket.0);
    for address in 1..=300 {
        flood(&stops, &limiter, Some(address), 0..=100);
    }
    assert_eq!(sender.asks.len(), QUEUE);
    // Each address is asked for after 10 seconds.
    assert_eq!(count(&stops, "dropped"), 300 - QUEUE as u64);
    assert!(stops.asked.len() <= 300);
}

#[test]
fn a_daemon_that_is_gone_is_left_out_and_found_again() {
    let socket = Socket::new();
    let (_stops, mut sender, _) = started(&socket.0);
    assert_eq!(send(&mut sender, [1, 2, 3]), [Outcome::Unanswered; 3]);
    let daemon = daemon(&socket.0, |stream| writeln!(stream, "{WOULD_STOP}").unwrap());
    let begin = Instant::now();
    while send(&mut sender, [4]) != [Outcome::WouldStop] {
        assert!(begin.elapsed() < Duration::from_secs(5));
        thread::yield_now();
    }
    assert_eq!(daemon.join().unwrap().len(), 1);
}

#[test]
fn a_daemon_that_closes_an_idle_connection_gets_the_next_request_over_another_one() {
    let socket = Socket::new();
    let listener = UnixListener::bind(&socket.0).unwrap();
    let daemon = thread::spawn(move || {
        for _ in 0..2 {
            let mut stream = listener.accept().unwrap().0;
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
            writeln!(stream, "{WOULD_STOP}").unwrap();
        }
    });
    let (_stops, mut sender, _) = started(&socket.0);
    assert_eq!(send(&mut sender, [1, 2]), [Outcome::WouldStop; 2]);
    daemon.join().unwrap();
}

#[test]
fn a_daemon_that_first_loads_a_program_is_not_gone() {
    let socket = Socket::new();
    let daemon = daemon(&socket.0, |stream| {
        thread::sleep(Duration::from_secs(3));
        writeln!(stream, "{WOULD_STOP}").unwrap();
    });
    let (_stops, mut sender, _) = started(&socket.0);
    assert_eq!(send(&mut sender, [1]), [Outcome::WouldStop]);
    assert_eq!(daemon.join().unwrap().len(), 1);
}

#[test]
fn a_silent_or_hostile_daemon_costs_bounded_time_and_memory() {
    type Answer = fn(&mut UnixStream);
    let answers: [Answer; 4] = [
        |_| {},
        |stream| drop(writeln!(stream, "garbage")),
        |stream| drop(stream.write_all(&vec![b'x'; 10 << 20])),
        |stream| drop(writeln!(stream, "{{\"outcome\":\"stopped\",\"seconds\":-1}}")),
    ];
    for answer in answers {
        let socket = Socket::new();
        let daemon = daemon(&socket.0, answer);
        let (_stops, mut sender, _) = started(&socket.0);
        let begin = Instant::now();
        // The second one comes while the daemon is left out.
        assert_eq!(send(&mut sender, [1, 2]), [Outcome::Unanswered; 2]);
        assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
        assert_eq!(daemon.join().unwrap(), ["{}"]);
    }
}

#[test]
fn a_limit_of_no_time_or_of_ages_is_not_believed() {
    let asked = Asked::default();
    let place = ("192.0.2.1".parse().unwrap(), 443);
    assert!(asked.begin(place, 0) && !asked.begin(place, PAUSE - 1));
    asked.limited(place, 0, 0);
    assert!(!asked.begin(place, SECOND - 1) && asked.begin(place, SECOND));
    asked.limited(place, SECOND, u64::MAX);
    assert!(!asked.begin(place, 600 * SECOND) && asked.begin(place, 601 * SECOND));
}
